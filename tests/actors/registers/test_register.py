"""Addresses, registers of other packages, keys, and the state of a group in a register."""

from importlib.metadata import EntryPoint
from pathlib import Path
from unittest import mock

import pytest

from wakelog.actors.registers.locked_file import LockedFile
from wakelog.actors.registers.register import (
    ENTRY_POINT_GROUP,
    NO_VERSION,
    NOTHING,
    GroupRegister,
    Held,
    RegisterAddress,
    RegisterError,
    RegisterRefused,
    StaleVersion,
    group_key,
    open_register,
    read_address,
    watch_by,
)
from wakelog.broker.replication.group_state import GroupState, ReplicaAddress, VersionedState

STATE = GroupState(
    log_id="0" * 32,
    epoch=3,
    master=1,
    in_sync=frozenset({1}),
    replicas={1: ReplicaAddress("10.0.0.1:10911", "10.0.0.1:10912")},
)


def refusal(text: str, found: list[EntryPoint] | None = None) -> RegisterRefused:
    with pytest.raises(RegisterRefused) as refused:
        open_register(text, found)
    assert refused.value.cause and refused.value.remedy
    return refused.value


@pytest.mark.parametrize(
    ("text", "scheme", "place", "options"),
    [
        ("file:///var/lib/wakelog", "file", "/var/lib/wakelog", {}),
        (" etcd://a:2379,b:2379 ", "etcd", "a:2379,b:2379", {}),
        ("etcd://[::1]:2379?ca=/x&cert=", "etcd", "[::1]:2379", {"ca": "/x", "cert": ""}),
        ("kubernetes://messages/orders", "kubernetes", "messages/orders", {}),
    ],
)
def test_an_address_in_its_parts(
    text: str, scheme: str, place: str, options: dict[str, str]
) -> None:
    assert read_address(text) == RegisterAddress(scheme, place, options, text.strip())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no address"),
        ("/var/lib", "no address"),
        ("file:/var/lib", "no address"),
        ("FILE:///var/lib", "no address"),
        ("file://", "no address"),
        ("file:///x?a", "NAME=VALUE"),
        ("file:///x?a=1", "unknown option a"),
        ("file://x/y", "no absolute path"),
        ("consul://a:1", "there is no register consul://"),
        ("etcd://a", "no HOST:PORT"),
        ("etcd://a:0", "no HOST:PORT"),
        ("etcd://a:1,a:1", "twice"),
        ("etcd://root:secret@a:1", "no user and password"),
        ("etcd://a:1?cert=/x", "has no ca=FILE"),
        ("etcd://a:1?ca=/not/there", "TLS with /not/there"),
        ("kubernetes://messages", "no namespace and name"),
        ("kubernetes://Messages/orders", "no namespace and name"),
        ("kubernetes://messages/orders?server=x", "is no URL"),
    ],
)
def test_an_address_that_is_refused(text: str, said: str) -> None:
    assert said in str(refusal(text))


def test_outside_a_pod_kubernetes_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert "not in a pod" in str(refusal("kubernetes://messages/orders"))


class Elsewhere:
    """What another package offers."""

    def __init__(self, address: RegisterAddress) -> None:
        self.address = address


def test_another_package_adds_a_register_and_replaces_none_of_ours(tmp_path: Path) -> None:
    points = [
        EntryPoint("elsewhere", f"{__name__}:Elsewhere", ENTRY_POINT_GROUP),
        EntryPoint("file", f"{__name__}:Elsewhere", ENTRY_POINT_GROUP),
        EntryPoint("broken", "no.such.module:It", ENTRY_POINT_GROUP),
    ]
    made = Elsewhere(read_address("elsewhere://here?way=long"))
    points[0] = EntryPointOf("elsewhere", made)
    assert open_register("elsewhere://here?way=long", points) is made  # type: ignore[comparison-overlap]
    assert isinstance(open_register(f"file://{tmp_path}", points), LockedFile)
    assert "cannot be loaded" in str(refusal("broken://x", points))
    assert "etcd, file, kubernetes" in refusal("none://x", []).remedy


class EntryPointOf(EntryPoint):
    """An entry point of what a test has made."""

    def __new__(cls, name: str, made: Elsewhere) -> "EntryPointOf":
        return super().__new__(cls)

    def __init__(self, name: str, made: Elsewhere) -> None:
        super().__init__(name, "tests:made", ENTRY_POINT_GROUP)
        self.__dict__["made"] = made

    def load(self) -> object:
        return lambda address: self.__dict__["made"]


def test_a_group_has_its_state_under_its_name(tmp_path: Path) -> None:
    register = open_register(f"file://{tmp_path}")
    group = GroupRegister(register, group_key("DefaultCluster", "broker-a"))
    assert group.read() == VersionedState(None, NO_VERSION)
    version = group.replace(STATE, NO_VERSION)
    assert group.read() == group.watch(NO_VERSION, 10) == VersionedState(STATE, version)
    with pytest.raises(StaleVersion):
        group.replace(STATE, NO_VERSION)
    other = GroupRegister(register, group_key("DefaultCluster", "broker-b"))
    assert other.read().state is None
    group.close()


def test_what_is_no_state_of_a_group_is_refused(tmp_path: Path) -> None:
    register = open_register(f"file://{tmp_path}")
    group = GroupRegister(register, "wakelog/c/b")
    register.replace("wakelog/c/b", b'{"epoch": 1}', NO_VERSION)
    with pytest.raises(RegisterRefused, match="wakelog/c/b in the register: no state"):
        group.read()
    with pytest.raises(RegisterRefused, match="no key"):
        GroupRegister(register, group_key("a b", "c"))


def test_a_watch_reads_again_after_each_notification_and_when_none_can_come() -> None:
    seen = [NOTHING, NOTHING, Held(b"1", "7")]
    waited: list[float] = []

    def wait_change(_held: Held, seconds: float) -> bool:
        waited.append(seconds)
        return True

    assert watch_by(lambda: seen.pop(0), wait_change, NO_VERSION, 60.0) == (b"1", "7")
    assert len(waited) == 2 and max(waited) <= 5.0
    cannot_wait = mock.Mock(return_value=False)
    assert watch_by(lambda: NOTHING, cannot_wait, NO_VERSION, 0.01) == NOTHING
    assert cannot_wait.call_count == 1  # it does not ask time and again meanwhile


def test_every_error_has_a_cause() -> None:
    error = RegisterError("cause", "remedy")
    assert (error.cause, error.remedy, str(error)) == ("cause", "remedy", "cause")
