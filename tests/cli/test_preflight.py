"""Each row is something on this machine that stands in the way, and what is said about it."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.fakes import plan_in
from tests.compat.clusters import local_cluster
from tests.compat.processes import free_port
from tests.network.test_tls import CLIENT_KEY, SERVER, SERVER_KEY
from wakelog.actors.deploy.host_addresses import HostAddresses
from wakelog.actors.deploy.plan import ConsolePlan, Plan
from wakelog.actors.errors import PreflightRefused
from wakelog.cli import preflight as module
from wakelog.cli.preflight import free_broker_port, preflight
from wakelog.network.errors import TlsRefused
from wakelog.storage.file_system import FileSystem

SMALL = "mappedFileSizeCommitLog=1048576"
FAR_AWAY = "203.0.113.1"  # RFC 5737: for documents


@pytest.fixture
def base() -> int:
    """Return a port that is free, as are the next few."""
    return free_port(1, 2, 3, 4, 5)


def plan_at(directory: Path, base: int, *settings: str, **options: Any) -> Plan:
    ports = {"broker_port": base + 4, "name_server_port": base, "metrics_port": base + 1}
    return plan_in(directory, SMALL, *settings, **{**ports, "open": True, **options})


def check(plan: Plan) -> Plan:
    return preflight(plan, FileSystem())


def refusal(plan: Plan) -> str:
    with pytest.raises(PreflightRefused) as refused:
        check(plan)
    return str(refused.value)


@pytest.fixture
def listening(base: int, request: pytest.FixtureRequest) -> Iterator[int]:
    """Listen on a port as another program would."""
    with socket.create_server(("127.0.0.1", base + request.param)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(("count_max", "is_warned"), [(59, True), (60, False)])
def test_checks_that_give_up_before_a_producer_is_back_are_named(
    tmp_path: Path, base: int, count_max: int, is_warned: bool
) -> None:
    settings = "transactionCheckInterval=1000", f"transactionCheckMax={count_max}"
    warnings = check(plan_at(tmp_path, base, *settings)).warnings
    assert ["transactionCheckMax 60 or more" in one for one in warnings] == [True] * is_warned


def test_a_machine_without_obstacles_is_accepted(tmp_path: Path, base: int) -> None:
    plan = plan_at(tmp_path, base)
    assert check(plan) == plan
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("listening", "user", "flag"),
    [
        (0, "the name server", "--namesrv-port"),
        (1, "the metrics", "--metrics-port"),
        (4, "broker-a", "--broker-port"),
        (2, "broker-a's VIP channel, its port - 2,", "--broker-port"),
        (5, "broker-a's replication, its port + 1,", "--broker-port"),
    ],
    indirect=["listening"],
)
def test_a_taken_port_is_refused_with_its_holder(
    tmp_path: Path, base: int, listening: int, user: str, flag: str
) -> None:
    message = refusal(plan_at(tmp_path, base))
    assert message.startswith(f"port {listening}, for {user}, is taken by process {os.getpid()} (")
    assert f"). Stop it, or choose another port with {flag}" in message
    register = f"--namesrv-port 0 --set namesrvAddr=127.0.0.1:{listening}."
    assert message.endswith(register) == (flag == "--namesrv-port")


@pytest.mark.parametrize("listening", [1], indirect=True)
def test_metrics_without_an_option_go_to_the_next_free_port(
    tmp_path: Path, base: int, listening: int
) -> None:
    asked = plan_at(tmp_path, base)
    plan = check(msgspec.structs.replace(asked, metrics_port_is_default=True))
    # The next one is broker-a's VIP channel.
    assert plan.metrics_port == base + 3
    assert plan.warnings == (f"port {listening} is taken, so the metrics are on port {base + 3}",)


def test_without_any_free_port_the_metrics_are_off(
    tmp_path: Path, base: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PORTS_TRIED_MAX", 0)
    asked = plan_at(tmp_path, base)
    plan = check(msgspec.structs.replace(asked, metrics_port_is_default=True))
    assert plan.metrics_port == 0
    assert plan.warnings == (f"port {base + 1} is taken, so the metrics are off",)


@pytest.mark.parametrize("listening", [1], indirect=True)
def test_a_console_without_an_option_goes_to_the_next_free_port(
    tmp_path: Path, base: int, listening: int
) -> None:
    console = ConsolePlan(port=listening, port_is_default=True)
    asked = msgspec.structs.replace(plan_at(tmp_path, base, metrics_port=0), console=console)
    moved = check(asked).console
    # The next one is broker-a's VIP channel.
    assert moved == ConsolePlan(port=base + 3, port_is_default=True)


@pytest.mark.parametrize("listening", [1], indirect=True)
def test_a_port_that_was_asked_for_the_console_is_not_moved(
    tmp_path: Path, base: int, listening: int
) -> None:
    asked = plan_at(tmp_path, base, metrics_port=0, console_port=listening)
    assert refusal(asked).startswith(f"port {listening}, for the console, is taken by process ")


def test_without_any_free_port_there_is_no_console(
    tmp_path: Path, base: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PORTS_TRIED_MAX", 0)
    console = check(plan_at(tmp_path, base, console_port=None)).console
    assert console is not None
    assert console.why_not == "off: port 8080 and those after it are taken"


def test_an_address_that_this_host_lacks_cannot_be_bound(tmp_path: Path, base: int) -> None:
    message = refusal(plan_at(tmp_path, base, bind=FAR_AWAY))
    assert message.startswith(f"this host has no address {FAR_AWAY}. Give --bind one that")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (13, "this user may not listen on port {port}, for the name server. Choose one above 1023"),
        (97, "cannot listen on 127.0.0.1:{port}, for the name server: Address family not"),
    ],
)
def test_other_refusals_of_the_system_are_reported(
    tmp_path: Path, base: int, number: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(host: str, port: int) -> OSError:
        return OSError(number, os.strerror(number))

    monkeypatch.setattr(module, "_bind_error", refuse)
    assert words.format(port=base) in refusal(plan_at(tmp_path, base))


def test_a_store_that_runs_is_reported_before_a_port(tmp_path: Path, base: int) -> None:
    (tmp_path / "store").write_text("")
    with socket.create_server(("127.0.0.1", base)):
        assert "is not a directory" in refusal(plan_at(tmp_path, base))


@pytest.mark.parametrize("bind", ["127.0.0.1", "0.0.0.0"])
def test_an_advertised_address_that_is_bound_is_accepted(
    tmp_path: Path, base: int, bind: str
) -> None:
    check(plan_at(tmp_path, base, bind=bind, advertise="127.0.0.1"))


def test_an_own_address_that_is_not_bound_is_refused(tmp_path: Path, base: int) -> None:
    message = refusal(plan_at(tmp_path, base, bind="127.0.0.1", advertise="127.0.0.2"))
    assert message == (
        f"clients would get 127.0.0.2:{base + 4}, where nothing listens: the ports are bound "
        "to 127.0.0.1. Give --bind 127.0.0.2, --bind 0.0.0.0, or --advertise 127.0.0.1."
    )


class TwoFamilies(HostAddresses):
    """A host with an address of each family."""

    def is_own(self, address: str) -> bool:
        return True

    def outward(self, bound: str = "0.0.0.0") -> str:
        return "fd00::7" if ":" in bound else "192.0.2.7"


def test_the_advice_about_an_address_can_be_followed(tmp_path: Path, base: int) -> None:
    plan = plan_at(tmp_path, base, bind="::", advertise="192.0.2.7")
    with pytest.raises(PreflightRefused) as refused:
        preflight(plan, FileSystem(), TwoFamilies())
    assert refused.value.remedy == "Give --bind 192.0.2.7, --bind 0.0.0.0, or --advertise fd00::7."


class Translated(HostAddresses):
    """A host that others reach by an address which is none of its own."""

    def is_own(self, address: str) -> bool:
        return False


def test_an_address_that_is_translated_to_this_host_is_accepted(tmp_path: Path, base: int) -> None:
    # The kernel's own loopback network stands in for the address translation.
    plan = plan_at(tmp_path, base, bind="0.0.0.0", advertise="127.0.0.9")
    assert preflight(plan, FileSystem(), Translated()) == plan


def test_an_address_at_which_another_host_answers_is_refused(
    tmp_path: Path, base: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ADVERTISE_SECONDS_MAX", 0.1)
    plan = plan_at(tmp_path, base, bind="127.0.0.1", advertise="127.0.0.9")
    with (
        socket.create_server(("127.0.0.9", base + 4)),
        pytest.raises(PreflightRefused, match="does not lead here: another host answers there"),
    ):
        preflight(plan, FileSystem(), Translated())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError("timed out"), "no answer within 3 s"),
        (OSError(101, "Network is unreachable"), "Network is unreachable"),
    ],
)
def test_an_unreachable_advertised_address_is_refused_unless_a_setting_allows_it(
    tmp_path: Path,
    base: int,
    error: OSError,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(address: tuple[str, int], timeout: float) -> socket.socket:
        raise error

    monkeypatch.setattr(socket, "create_connection", refuse)
    message = refusal(plan_at(tmp_path, base, bind="0.0.0.0", advertise=FAR_AWAY))
    assert message == (
        f"clients would get {FAR_AWAY}:{base + 4}, and that does not lead here: {reason}. "
        "Give --advertise an address by which this host is reached; if that works only from "
        "elsewhere, add --set wakelog.checkAdvertise=false."
    )
    unchecked = "wakelog.checkAdvertise=false"
    check(plan_at(tmp_path, base, unchecked, bind="0.0.0.0", advertise=FAR_AWAY))


def test_certificates_that_cannot_be_used_are_refused(tmp_path: Path, base: int) -> None:
    files = [f"tls.server.certPath={SERVER}", f"tls.server.keyPath={CLIENT_KEY}"]
    plan = plan_at(tmp_path, base, *files, "tls.test.mode.enable=false")
    with pytest.raises(TlsRefused, match=r"server\.pem and .*client\.key cannot be read"):
        check(plan)
    trusted = ["tls.enable=true", "tls.client.authServer=true", "tls.client.trustCertPath=/nowhere"]
    files[1] = f"tls.server.keyPath={SERVER_KEY}"
    plan = plan_at(tmp_path, base, *files, *trusted, "tls.test.mode.enable=false")
    with pytest.raises(TlsRefused, match="/nowhere cannot be read as certificates"):
        check(plan)


def test_free_ports_are_found_with_their_others() -> None:
    port = free_broker_port("127.0.0.1", 2)
    for needed in (port - 2, port, port + 1, port + 18, port + 20, port + 21):
        with socket.create_server(("127.0.0.1", needed)):
            pass


@pytest.mark.process
@pytest.mark.slow
def test_a_name_that_a_running_broker_has_is_refused(tmp_path: Path, base: int) -> None:
    with local_cluster(tmp_path / "other") as cluster:
        there = f"namesrvAddr={cluster.name_server}"
        message = refusal(plan_at(tmp_path, base, there, name_server_port=0))
        assert message.startswith(
            f"the name server {cluster.name_server} has broker-a already, at {cluster.broker}. "
        )
        for setting in ("brokerName=broker-x", "wakelog.takeOverName=true"):
            check(plan_at(tmp_path, base, there, setting, name_server_port=0))
    check(plan_at(tmp_path, base, there, name_server_port=0))  # a name server that is away
