"""Manifests name only what the command line, the ports and the probes of this version have.

What `helm template` made of the chart lies beside it, and its head says of which files. So a chart
that was changed has to be rendered again.
"""

import configparser
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.start import job as start_job
from tests.deploy.chart_digest import CHART, chart_digest
from wakelog.actors.deploy.plan import NameServerOptions, UpOptions
from wakelog.actors.deploy.planning import make_name_server_plan, make_plan
from wakelog.actors.deploy.up_keys import UP_KEYS, UP_PREFIX
from wakelog.actors.transport.stop_limits import stop_seconds_max
from wakelog.broker.config_file import is_unknown
from wakelog.cli.command import Call, read
from wakelog.cli.root import program
from wakelog.network.tls_properties import GIVEN_KEYS
from wakelog.telemetry.exposition import LIVE_PATH, READY_PATH

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RENDERED = DEPLOY / "helm" / "rendered.yaml"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
UNIT = DEPLOY / "systemd" / "wakelog.service"
USER_ID = 10001
RAYS_PORTS = {6379, 8265, 10001}
OTHERS_PORTS = {9090, 3000}  # of Prometheus and Grafana


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def rendered(kind: str) -> list[dict[str, Any]]:
    return [each for each in documents(RENDERED) if each["kind"] == kind]


def pods() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the pod of each StatefulSet, and its container."""
    for each in rendered("StatefulSet"):
        pod = each["spec"]["template"]["spec"]
        [container] = pod["containers"]
        yield pod, container


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text()))


def unit() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT.read_text())
    return parser


def json_of(instruction: str) -> list[str]:
    """Return the exec form of an instruction of the Dockerfile."""
    [text] = re.findall(rf"^\s*{instruction} (\[.*\])$", DOCKERFILE, re.MULTILINE)
    return list(json.loads(text))


def command_lines() -> dict[str, list[str]]:
    """Return each line of `wakelog` in a manifest, by where it stands."""
    healthcheck, *commands = re.findall(r"^\s*CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert READY_PATH in healthcheck
    found = {"Dockerfile": list(json.loads(commands[0]))}
    services = compose()["services"]
    found |= {f"compose {name}": services[name]["command"] for name in ("broker", "console")}
    found |= {f"chart {each['name']}": each["args"] for _, each in pods()}
    program_path, *words = shlex.split(unit()["Service"]["ExecStart"])
    assert program_path.endswith("/wakelog")
    return {**found, "systemd": words}


def settings_in(words: list[str]) -> list[str]:
    return [word for at, word in enumerate(words) if words[at - 1] == "--set"]


@pytest.mark.parametrize("place", command_lines())
def test_a_command_line_is_one_that_the_program_reads(place: str) -> None:
    call = read(program, command_lines()[place])
    assert isinstance(call, Call) and call.command.path.startswith("wakelog ")


def filled_in(word: str) -> str:
    """Return a word with what Kubernetes puts in place of variables."""
    return word.replace("$(ADDRESS)", "127.0.0.1").replace("$(REPLICA)", "2")


def test_the_brokers_of_the_chart_are_planned_as_replicas(tmp_path: Path) -> None:
    [args] = [each["args"] for _, each in pods() if each["name"] == "broker"]
    settings = tuple(filled_in(each) for each in settings_in(args))
    plan = make_plan(
        UpOptions(store=str(tmp_path), settings=settings, is_local=True, name_server_port=0)
    )
    [broker] = plan.brokers
    assert not [each for each in plan.warnings if "nothing here" in each or "unknown" in each]
    assert (broker.replica_id, broker.register) == (2, "kubernetes://default/wakelog")
    assert len(broker.settings.broker.namesrv_addr.split(";")) == 2
    keys = {each.partition("=")[0] for each in settings if each.startswith(UP_PREFIX)}
    assert {"wakelog.register", "wakelog.trustedAddresses"} <= keys


def test_the_name_servers_of_the_chart_are_planned(tmp_path: Path) -> None:
    [args] = [each["args"] for _, each in pods() if each["name"] == "nameserver"]
    settings = tuple(settings_in(args))
    plan = make_name_server_plan(NameServerOptions(store=str(tmp_path), settings=settings))
    assert plan.name_server is not None and plan.name_server.trusted_addresses == "10.*.*.*"


def test_the_job_of_kuberay_is_one_that_the_start_reads() -> None:
    [job] = documents(DEPLOY / "kuberay" / "rayjob.yaml")
    words = shlex.split(job["spec"]["entrypoint"].replace("${POD_IP}", "10.0.0.7"))
    assert words[:3] == ["python", "-m", "deploy.start"]
    assert start_job.read(words[3:]) is not None
    [cluster, _] = documents(DEPLOY / "kuberay" / "raycluster.yaml")
    selected = job["spec"]["clusterSelector"]["ray.io/cluster"]
    assert (cluster["kind"], cluster["metadata"]["name"]) == ("RayCluster", selected)
    path = yaml.safe_load(job["spec"]["runtimeEnvYAML"])["env_vars"]["PYTHONPATH"]
    assert path == "/opt/wakelog/share/wakelog"  # shared-data of the wheel, in the image's folder


def own_ports() -> set[int]:
    plan = make_plan(UpOptions(store="/store", is_local=True))
    assert plan.console is not None
    return {use.port for use in plan.ports} | {plan.metrics_port, plan.console.port}


def test_every_port_is_one_that_is_listened_on() -> None:
    own = own_ports()
    exposed = re.findall(r"\d+", *re.findall(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE))
    assert set(map(int, exposed)) == own
    published = {int(each.rpartition(":")[2]) for each in compose()["services"]["broker"]["ports"]}
    assert published <= own | OTHERS_PORTS
    for _, container in pods():
        assert {each["containerPort"] for each in container["ports"]} <= own
    for service in rendered("Service"):
        assert {each["port"] for each in service["spec"]["ports"]} <= own
    [cluster, _] = documents(DEPLOY / "kuberay" / "raycluster.yaml")
    [head] = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    assert {each["containerPort"] for each in head["ports"]} <= own | RAYS_PORTS


def test_probes_ask_what_is_served() -> None:
    for _, container in pods():
        paths = {
            name: container[name]["httpGet"]["path"]
            for name in ("startupProbe", "livenessProbe", "readinessProbe")
        }
        assert paths == {
            "startupProbe": LIVE_PATH,
            "livenessProbe": LIVE_PATH,
            "readinessProbe": READY_PATH,
        }
        names = {each["name"] for each in container["ports"]}
        assert container["readinessProbe"]["httpGet"]["port"] in names


def test_nothing_runs_as_root_or_writes_the_image() -> None:
    for pod, container in pods():
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] == USER_ID
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        written = {each["mountPath"] for each in container["volumeMounts"]}
        assert {"/store", "/tmp", "/dev/shm"} <= written
    assert re.search(rf"^USER {USER_ID}:{USER_ID}$", DOCKERFILE, re.MULTILINE)
    services = compose()["services"]
    for name in ("broker", "console"):
        assert services[name]["read_only"] and services[name]["cap_drop"] == ["ALL"]


def test_a_stop_gets_the_time_that_it_may_take() -> None:
    [(pod, broker), *_] = [each for each in pods() if each[1]["name"] == "broker"]
    args = broker["args"]
    drain = int(args[args.index("--drain-seconds") + 1])
    assert pod["terminationGracePeriodSeconds"] >= stop_seconds_max(1) + drain
    grace = compose()["services"]["broker"]["stop_grace_period"]
    assert int(grace.removesuffix("s")) >= stop_seconds_max(1)
    words = shlex.split(unit()["Service"]["ExecStart"])
    drain = int(words[words.index("--drain-seconds") + 1])
    assert int(unit()["Service"]["TimeoutStopSec"]) >= stop_seconds_max(1) + drain


def test_the_image_gets_signals_and_its_health_is_asked() -> None:
    assert json_of("ENTRYPOINT") == ["wakelog"]  # no shell between it and SIGTERM
    assert "STOPSIGNAL SIGTERM" in DOCKERFILE
    assert f"http://127.0.0.1:5557{READY_PATH}" in DOCKERFILE


def test_replicas_may_use_leases_and_one_pod_is_disrupted_at_a_time() -> None:
    [role] = rendered("Role")
    [rule] = role["rules"]
    assert rule["resources"] == ["leases"]
    assert {"get", "watch", "create", "update"} <= set(rule["verbs"])
    budgets = [each["spec"]["maxUnavailable"] for each in rendered("PodDisruptionBudget")]
    assert budgets == [1, 1]
    # The first replica alone takes no sends, and so is not ready: the others must not wait for it.
    assert {each["spec"]["podManagementPolicy"] for each in rendered("StatefulSet")} == {"Parallel"}


def test_what_is_rendered_is_of_this_chart() -> None:
    first = RENDERED.read_text().partition("\n")[0]
    assert chart_digest() in first, "render it again: see deploy/README.md"


def test_every_value_of_the_chart_is_used_and_none_is_missing() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    text = "".join(each.read_text() for each in (CHART / "templates").iterdir())
    used = {each.split(".")[0] for each in re.findall(r"\.Values\.([A-Za-z.]+)", text)}
    assert used == values.keys()


def test_every_key_that_the_chart_may_set_is_known() -> None:
    text = "".join(each.read_text() for each in (CHART / "templates").iterdir())
    keys = set(re.findall(r"^ *- --set\n *- ([A-Za-z.]+)=", text, re.MULTILINE))
    assert {"aclEnable", "tls.server.certPath", "wakelog.accessKey", "brokerId"} <= keys
    known = UP_KEYS.keys() | GIVEN_KEYS
    assert not [key for key in keys - known if is_unknown(key)]


def test_compose_mounts_what_there_is() -> None:
    for service in compose()["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), source


def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    """With its own tool where it is there: the program's path is then one that can be executed."""
    sections = unit()
    assert sections.sections() == ["Unit", "Service", "Install"]
    assert sections["Service"]["StateDirectory"] == "wakelog"
    tool = shutil.which("systemd-analyze")
    if tool is not None:
        text = UNIT.read_text().replace("/opt/wakelog/bin/wakelog", "/bin/true")
        copy = tmp_path / "wakelog.service"
        copy.write_text(re.sub(r"^(User|Group)=wakelog$", r"\1=root", text, flags=re.MULTILINE))
        done = subprocess.run([tool, "verify", str(copy)], capture_output=True, text=True)
        said = [each for each in done.stderr.splitlines() if "wakelog.service" in each]
        assert not said, done.stderr
