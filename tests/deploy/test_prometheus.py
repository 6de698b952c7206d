"""Prometheus and a broker under load: configuration, metrics, and every query of every board."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from scripts.alert_rules import RECORDED
from tests.actors.client import Client
from tests.actors.programs import WORD_VARIABLE
from tests.alert_faults import FAULTS_OF_ACTORS
from tests.alert_series import Scrapes, complaints
from tests.compat.processes import ProcessFailed, TestProcess, free_port
from tests.compat.provision import prometheus_binaries
from tests.deploy.steady_load import steady_load
from tests.leftovers import heirs
from tests.telemetry.traffic import MESSAGES_COUNT, TOPIC, make_traffic
from tests.test_dashboards import BOARDS, expanded, expressions_of, selectors_of
from wakelog.actors.deploy.planning import PORTS_BETWEEN_BROKERS
from wakelog.network.self_signed import make_pem
from wakelog.telemetry.metric_spec import DROPPED_SERIES, Kind
from wakelog.telemetry.metrics import METRICS, specs_of
from wakelog.telemetry.store_metrics import ELECTION, FOLLOWING

pytestmark = [pytest.mark.prometheus, pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIGURATION = ROOT / "deploy" / "prometheus.yml"
READY_SECONDS_MAX = 120.0  # 12 s on quiet cores
DATA_SECONDS_MAX = 45.0
SHOWN_SECONDS_MAX = 30.0
SCRAPE = "2s"  # one takes 0.3 s on quiet cores
TROUBLE = "rocketmq_actor_trouble"  # tests/actors/test_refused_services.py has brokers with some
OF_GROUPS = {name for spec in (*FOLLOWING, *ELECTION) for name in spec.series_names}
NOT_OF_ONE = OF_GROUPS | {"rocketmq_certificate_expiry_timestamp_seconds"}
"""Series of replicas and of certificates, which the replicas beside the broker have."""

NOWHERE = {TROUBLE, DROPPED_SERIES.exposed_name}
"""Series of what does not work, and of what a scrape left out: there is none."""

NAMES_OF_ELSEWHERE = {spec.exposed_name for spec in specs_of(("exporter", "v5"))}


class Prometheus(NamedTuple):
    """A running Prometheus."""

    process: TestProcess
    port: int


class Ports(NamedTuple):
    """Where everything of this module listens."""

    name_server: int
    broker: int
    metrics: int
    prometheus: int
    word: str
    """By which the processes of the broker are told from others."""
    replicas: int = 0
    """Where the metrics of the replicas beside it are."""
    folder: Path = Path()
    """Of `wakelog up`: what it printed and wrote to its logs says why an actor ended."""

    def said(self) -> str:
        """Return what it printed, and all logs."""
        logs = sorted((self.folder / "store" / "wakelog.logs").glob("*.log"))
        return "".join(path.read_text() for path in (self.folder / "up.out", *logs))


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return bytes(answer.read())


def answers(url: str) -> bool:
    try:
        return bool(fetch(url))
    except (OSError, urllib.error.HTTPError):
        return False


def query(port: int, expression: str) -> list[Any]:
    """Ask Prometheus for the values of an expression now."""
    words = urllib.parse.urlencode({"query": expression})
    answer = json.loads(fetch(f"http://127.0.0.1:{port}/api/v1/query?{words}"))
    assert answer["status"] == "success", answer
    result: list[Any] = answer["data"]["result"]
    return result


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    """Return where a broker under load listens."""
    with running_broker(tmp_path_factory.mktemp("up")) as ports:
        yield ports


@contextmanager
def running_broker(folder: Path) -> Iterator[Ports]:
    """Run `wakelog up` with its metrics, with packages of others, and two replicas beside it."""
    ports = Ports(free_port(), free_port(-2, 1), free_port(), free_port(), uuid.uuid4().hex)
    settings = ["mappedFileSizeCommitLog=1048576", "cleanResourceInterval=500"]
    settings += ["transientStorePoolEnable=true", "transientStorePoolSize=2"]
    settings += ["replicationEnable=true", "wakelog.metricsNames=native,exporter,v5"]
    with running_up(folder / "up", ports, settings), running_replicas(folder) as replicas:
        asyncio.run(load(ports.broker))
        with ExitStack() as stack:
            for name_server in (ports.name_server, replicas.name_server):
                stack.enter_context(steady_load(f"127.0.0.1:{name_server}"))
            yield ports._replace(replicas=replicas.metrics, folder=folder / "up")


@contextmanager
def running_replicas(folder: Path) -> Iterator[Ports]:
    """Run two replicas of a broker with a certificate, in one process."""
    firsts = (0, PORTS_BETWEEN_BROKERS)
    distances = [first + above for first in firsts for above in (-2, 0, 1)]
    ports = Ports(free_port(), free_port(*distances), free_port(), 0, uuid.uuid4().hex)
    pem, properties = folder / "server.pem", folder / "tls.properties"
    pem.write_bytes(make_pem())
    paths = f"tls.server.certPath={pem}\ntls.server.keyPath={pem}\n"
    properties.write_text(f"tls.test.mode.enable=false\n{paths}")
    settings = ["mappedFileSizeCommitLog=1048576", f"tls.config.file={properties}"]
    with running_up(folder / "replicas", ports, settings, "--local", "--replicas", "2"):
        yield ports


@contextmanager
def running_up(folder: Path, ports: Ports, settings: Sequence[str], *words: str) -> Iterator[None]:
    """Run `wakelog up`, and end it in order."""
    arguments = ["--store", str(folder / "store"), "--namesrv-port", str(ports.name_server)]
    arguments += ["--broker-port", str(ports.broker), "--metrics-port", str(ports.metrics)]
    arguments += ["--console-port", "0", *words]
    arguments += [part for setting in settings for part in ("--set", setting)]
    site = install(folder, ENTRY_POINTS)
    environment = {**os.environ, WORD_VARIABLE: ports.word}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(site)))
    command = [sys.executable, "-m", "wakelog", "up", *arguments]
    with TestProcess(command, env=environment, log_path=folder / "up.out") as process:
        process.wait_until(
            lambda: answers(f"http://127.0.0.1:{ports.metrics}/metrics"),
            seconds_max=READY_SECONDS_MAX,
            what="serving metrics",
        )
        yield
        assert process.end(signal.SIGINT, seconds_max=READY_SECONDS_MAX) == 0


def install(folder: Path, entry_points: str) -> Path:
    """Return a folder in which a package is installed that brings these entry points."""
    metadata = folder / "site" / "others-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)
    return metadata.parent


ENTRY_POINTS = """
[wakelog.dispatchers]
topic_counter = examples.dispatcher_plugin:TopicCounter

[wakelog.services]
store_sizes = examples.service_plugin:StoreSizes
"""


async def load(broker_port: int) -> None:
    client = Client(f"127.0.0.1:{broker_port}")
    try:
        await make_traffic(client)
    finally:
        await client.close()


@pytest.fixture(scope="module")
def prometheus(broker: Ports, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Return a Prometheus that scrapes the broker."""
    with running_prometheus(tmp_path_factory.mktemp("prometheus"), broker) as found:
        yield found


@contextmanager
def running_prometheus(folder: Path, broker: Ports) -> Iterator[Prometheus]:
    """Run Prometheus by the configuration of deploy/, at the broker."""
    configuration = yaml.safe_load(CONFIGURATION.read_text())
    names = ("scrape_interval", "scrape_timeout", "evaluation_interval")
    configuration["global"] = dict.fromkeys(names, SCRAPE)
    configuration["rule_files"] = [
        str(CONFIGURATION.parent / x) for x in configuration["rule_files"]
    ]
    [job] = configuration["scrape_configs"]
    job["static_configs"] = [
        {"targets": [f"127.0.0.1:{port}" for port in (broker.metrics, broker.replicas)]}
    ]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(configuration))
    command = [
        prometheus_binaries().prometheus,
        f"--config.file={path}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{broker.prometheus}",
    ]
    with TestProcess(command, env=dict(os.environ), log_path=folder / "out") as process:
        process.wait_until(
            lambda: answers(f"http://127.0.0.1:{broker.prometheus}/-/ready"),
            seconds_max=READY_SECONDS_MAX,
            what="ready",
        )
        yield Prometheus(process, broker.prometheus)
        process.end(signal.SIGTERM, seconds_max=READY_SECONDS_MAX)


def promtool(*words: str, text: str = "") -> str:
    """Run promtool; return what it complains of."""
    command = [prometheus_binaries().promtool, *words]
    outcome = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return "" if outcome.returncode == 0 else outcome.stdout + outcome.stderr


def test_promtool_accepts_the_configuration() -> None:
    assert promtool("check", "config", str(CONFIGURATION)) == ""


def test_promtool_accepts_the_metrics(broker: Ports) -> None:
    text = fetch(f"http://127.0.0.1:{broker.metrics}/metrics").decode()
    assert "rocketmq_build_info" in text
    complaints = promtool("check", "metrics", text=text).splitlines()
    assert {line.partition(" ")[0] for line in complaints} <= NAMES_OF_ELSEWHERE


def test_every_metric_is_served(broker: Ports) -> None:
    """With Ray and notifications every metric has a value, except those of replicas."""
    text = fetch(f"http://127.0.0.1:{broker.metrics}/metrics").decode()
    families = [family for family in text_string_to_metric_families(text) if family.samples]
    served = {family.name for family in families}
    missing = {
        spec.exposed_name if spec.kind is Kind.INFO else spec.name
        for spec in METRICS
        if not (NOT_OF_ONE | NOWHERE).intersection(spec.series_names)
    }
    assert sorted(missing - served) == [], broker.said()
    assert not NOT_OF_ONE & {sample.name for family in families for sample in family.samples}


LIMIT = re.compile(r" ?[<>]=? (\d+|\+Inf)")
"""Of a query that shows only what is below or above it."""


def is_of_what_fails(expression: str) -> bool:
    """Tell whether an expression asks only for what there is none of while all works."""
    return all(selector.name in NOWHERE for selector in selectors_of(expression))


def test_every_query_of_every_board_returns_data(prometheus: Prometheus) -> None:
    """Prometheus has to have seen everything twice; the last query to have data ends the wait."""
    every = {expression for path in BOARDS for expression in expressions_of(path)}
    asked = {LIMIT.sub("", expression) for expression in every if not is_of_what_fails(expression)}
    missing = {*map(expanded, asked), *(rule.name for rule in RECORDED)}

    def complete() -> bool:
        missing.difference_update([text for text in missing if query(prometheus.port, text)])
        return not missing

    with suppress(ProcessFailed):
        prometheus.process.wait_until(complete, seconds_max=DATA_SECONDS_MAX, what="complete")
    assert not missing


def test_no_alert_fires_at_a_broker_that_works(prometheus: Prometheus) -> None:
    """Those that wait some minutes are pending at most. The load has a group that gives all up."""
    firing = query(prometheus.port, 'ALERTS{alertstate="firing"}')
    assert {one["metric"]["alertname"] for one in firing} <= {"WakelogDeadLetters"}


def test_prometheus_counts_what_was_sent(prometheus: Prometheus, broker: Ports) -> None:
    """A scrape that takes too long on a busy host leaves a series out until the next."""
    text = f'rocketmq_topic_put_messages_total{{topic="{TOPIC}"}}'
    found: list[Any] = []

    def served() -> bool:
        found[:] = query(prometheus.port, text)
        return bool(found)

    with suppress(ProcessFailed):
        prometheus.process.wait_until(served, seconds_max=DATA_SECONDS_MAX, what="served")
    assert "actor died" not in broker.said(), broker.said()
    [series] = found
    assert float(series["value"][1]) > MESSAGES_COUNT
    assert series["metric"]["broker"] == "broker-a"


@pytest.mark.parametrize("alert", FAULTS_OF_ACTORS)
def test_an_alert_fires_at_its_fault(alert: str, broker: Ports, tmp_path: Path) -> None:
    """At those for which there have to be actors; tests/test_alert_faults.py has the others."""
    fault, scrapes = FAULTS_OF_ACTORS[alert], Scrapes()
    url = f"http://127.0.0.1:{broker.metrics}/metrics"
    scrapes.add({"a": fetch(url).decode()})
    scrapes.hold(8)
    [victim] = [
        pid for pid, name in heirs(WORD_VARIABLE, broker.word).items() if fault.role in name
    ]
    os.kill(victim, fault.number)
    try:
        end_seconds = time.monotonic() + SHOWN_SECONDS_MAX
        while not fault.shown(text := fetch(url).decode()):
            assert time.monotonic() < end_seconds
        scrapes.add({"a": text})
    finally:
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGCONT)
    scrapes.hold()
    assert complaints(scrapes, tmp_path, firing=alert) == ""
