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
from collections.abc import Iterator
from contextlib import suppress
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
from wakelog.telemetry.actor_metrics import ADDED_SERVICES
from wakelog.telemetry.metric_spec import DROPPED_SERIES, Kind
from wakelog.telemetry.metrics import METRICS, specs_of
from wakelog.telemetry.store_metrics import ELECTION, FOLLOWING, PLUGINS

pytestmark = [pytest.mark.prometheus, pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIGURATION = ROOT / "deploy" / "prometheus.yml"
READY_SECONDS_MAX = 120.0  # 12 s on quiet cores
DATA_SECONDS_MAX = 45.0
SHOWN_SECONDS_MAX = 30.0
SCRAPE = "2s"  # one takes 0.3 s on quiet cores
TROUBLE = "rocketmq_actor_trouble"  # tests/actors/test_refused_services.py has brokers with some
OF_OTHERS = (*PLUGINS, *ADDED_SERVICES, *FOLLOWING, *ELECTION, DROPPED_SERIES)
NOT_HERE = {name for spec in OF_OTHERS for name in spec.series_names} | {TROUBLE}
NOT_HERE |= {"rocketmq_certificate_expiry_timestamp_seconds"}
"""Series of plug-ins, slaves, replicas, TLS, and of what does not work."""

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
    """Run `wakelog up` with its metrics, under some load."""
    folder = tmp_path_factory.mktemp("up")
    ports = Ports(free_port(), free_port(-2, 1), free_port(), free_port(), uuid.uuid4().hex)
    words = ["--store", str(folder / "store"), "--namesrv-port", str(ports.name_server)]
    words += ["--broker-port", str(ports.broker), "--metrics-port", str(ports.metrics)]
    words += ["--set", "mappedFileSizeCommitLog=1048576", "--set", "cleanResourceInterval=500"]
    words += ["--set", "transientStorePoolEnable=true", "--set", "transientStorePoolSize=2"]
    words += ["--set", "replicationEnable=true", "--console-port", "0"]
    words += ["--set", "wakelog.metricsNames=native,exporter,v5"]
    command = [sys.executable, "-m", "wakelog", "up", *words]
    environment = {**os.environ, WORD_VARIABLE: ports.word}
    with TestProcess(command, env=environment, log_path=folder / "up.out") as process:
        process.wait_until(
            lambda: answers(f"http://127.0.0.1:{ports.metrics}/metrics"),
            seconds_max=READY_SECONDS_MAX,
            what="serving metrics",
        )
        asyncio.run(load(ports.broker))
        with steady_load(f"127.0.0.1:{ports.name_server}"):
            yield ports
        assert process.end(signal.SIGINT, seconds_max=READY_SECONDS_MAX) == 0


async def load(broker_port: int) -> None:
    client = Client(f"127.0.0.1:{broker_port}")
    try:
        await make_traffic(client)
    finally:
        await client.close()


@pytest.fixture(scope="module")
def prometheus(broker: Ports, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Run Prometheus by the configuration of deploy/, at the broker."""
    folder = tmp_path_factory.mktemp("prometheus")
    configuration = yaml.safe_load(CONFIGURATION.read_text())
    names = ("scrape_interval", "scrape_timeout", "evaluation_interval")
    configuration["global"] = dict.fromkeys(names, SCRAPE)
    configuration["rule_files"] = [
        str(CONFIGURATION.parent / x) for x in configuration["rule_files"]
    ]
    [job] = configuration["scrape_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{broker.metrics}"]}]
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
    """With Ray and notifications every metric has a value, except those of plug-ins and slaves."""
    text = fetch(f"http://127.0.0.1:{broker.metrics}/metrics").decode()
    families = [family for family in text_string_to_metric_families(text) if family.samples]
    served = {family.name for family in families}
    missing = {
        spec.exposed_name if spec.kind is Kind.INFO else spec.name
        for spec in METRICS
        if not NOT_HERE.intersection(spec.series_names)
    }
    assert not missing - served
    assert not NOT_HERE & {sample.name for family in families for sample in family.samples}


LIMIT = re.compile(r" ?[<>]=? (\d+|\+Inf)")
"""Of a query that shows only what is below or above it."""


def is_of_others(expression: str) -> bool:
    """Tell whether an expression asks only for what this broker does not have."""
    return all(selector.name in NOT_HERE for selector in selectors_of(expression))


def test_every_query_of_every_board_returns_data(prometheus: Prometheus) -> None:
    """Prometheus has to have seen everything twice; the last query to have data ends the wait."""
    every = {expression for path in BOARDS for expression in expressions_of(path)}
    asked = {LIMIT.sub("", expression) for expression in every if not is_of_others(expression)}
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


def test_prometheus_counts_what_was_sent(prometheus: Prometheus) -> None:
    [series] = query(prometheus.port, f'rocketmq_topic_put_messages_total{{topic="{TOPIC}"}}')
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
