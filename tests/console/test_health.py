"""What probes are answered: which brokers take messages, and what does not work."""

from typing import Any

import pytest

from tests.console.cases import MINUTE_MS, NOW_MS, TROUBLE
from wakelog.broker.health_values import (
    DISK_FULL_VALUE,
    LATE_SYNC_VALUE,
    LOG_FAILURE_VALUE,
    ActorHealth,
    actor_values,
)
from wakelog.broker.replication.group_state import GroupState, ReplicaAddress
from wakelog.broker.replication.known_group import group_values
from wakelog.broker.replication.takeover import (
    LOG_ID_VALUE,
    REFUSES_SENDS_VALUE,
    REGISTER_FAILURE_VALUE,
    REPLICA_VALUE,
)
from wakelog.console.health import STOPS_SENDS, Health
from wakelog.console.rules import RULES

ACTORS = actor_values({"flush": ActorHealth(True, 1), "reput": ActorHealth(False, 2)})
STARTED = {"bootTimestamp": str(NOW_MS - 60 * MINUTE_MS)}
WORKS = {"state": "works", "reason": "", "remedy": "", "since": None}


def said(values: dict[str, str] | None = None, *, broker_id: int = 0) -> dict[str, Any]:
    """Return what a broker says of itself."""
    return {
        "name": "a",
        "broker_id": broker_id,
        "address": "10.0.0.5:10911",
        "values": values or {},
    }


def replica(number: int, in_sync: set[int], **values: str) -> dict[str, Any]:
    """Return what a replica says that has the register's value; its master is 1."""
    state = GroupState(
        log_id="7",
        epoch=3,
        master=1,
        in_sync=frozenset(in_sync),
        replicas={number: ReplicaAddress("10.0.0.5:10911", "10.0.0.5:10912")},
    )
    values_of_group = {
        REPLICA_VALUE: str(number),
        LOG_ID_VALUE: "7",
        **group_values("file:///r", state),
    }
    refuses = "" if number == 1 else "this replica does not lead"
    return said({**values_of_group, REFUSES_SENDS_VALUE: refuses, **values}, broker_id=number - 1)


def read(of: dict[str, Any], **flags: bool) -> dict[str, Any]:
    return Health(1.0).read({"broker-a": of}, NOW_MS, **flags)


def test_a_broker_that_works_is_ready() -> None:
    found = read(said())
    assert (found["ready"], found["reasons"]) == (True, [])
    assert found["brokers"]["broker-a"] == {**WORKS, "findings": [], "services": {}}
    assert found["name_server"] == WORKS


@pytest.mark.parametrize(
    ("values", "state", "reason"),
    [
        ({LATE_SYNC_VALUE: "9000"}, "disk hangs", "a sync of its log has not returned for 9 s"),
        ({DISK_FULL_VALUE: "1"}, "disk refuses", "its disk has no room: it takes no messages"),
        ({"commitLogDiskRatio": "0.95"}, "disk full", "its disk is 95% full: from 90% on"),
        ({LOG_FAILURE_VALUE: "EIO"}, "log failed", "its log takes no more messages: EIO"),
    ],
)
def test_each_cause_that_stops_sends_has_a_state(
    values: dict[str, str], state: str, reason: str
) -> None:
    found = read(said(values))
    part = found["brokers"]["broker-a"]
    assert not found["ready"] and found["reasons"][0].startswith(f"broker-a: {reason}")
    assert part["state"] == state and part["remedy"] and part["since"] == NOW_MS


def test_a_broker_without_an_answer_is_named() -> None:
    found = read({})
    assert found["reasons"] == ["broker-a: broker-a does not answer within 1 s"]
    assert found["brokers"]["broker-a"]["state"] == "no answer"


def test_a_name_server_without_an_answer_is_named() -> None:
    found = read(said(), name_server_answers=False)
    assert found["reasons"] == ["name server: does not answer within 1 s"]
    assert found["name_server"]["state"] == "no answer" and found["name_server"]["remedy"]


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (replica(1, {1, 2}), None),
        (replica(2, {1, 2}), None),
        (replica(2, {1, 3}), "is not in the in-sync set of its group yet"),
        (replica(1, {1}, **{REFUSES_SENDS_VALUE: "too few"}), "refuses sends: too few"),
    ],
)
def test_a_replica_is_ready_once_it_is_in_sync(of: dict[str, Any], reason: str | None) -> None:
    found = read(of)
    assert found["reasons"] == ([f"broker-a: {reason}"] if reason else [])
    assert found["ready"] is (reason is None)


@pytest.mark.parametrize(
    "values",
    [{}, {LOG_ID_VALUE: "7"}, {LOG_ID_VALUE: "7", **group_values("file:///r", None)}],
    ids=["in no group yet", "no answer yet", "no state yet"],
)
def test_a_replica_is_not_ready_before_its_register_answers(values: dict[str, str]) -> None:
    found = read(said({REPLICA_VALUE: "1", **values}))
    assert (found["ready"], found["reasons"]) == (False, ["broker-a: no master is elected yet"])


def test_a_register_that_is_lost_does_not_stop_sends() -> None:
    found = read(replica(1, {1, 2}, **{REGISTER_FAILURE_VALUE: "etcd is away"}))
    part = found["brokers"]["broker-a"]
    assert found["ready"] and part["state"] == "register away"
    assert part["reason"] == "its register cannot be used: etcd is away"


def test_each_service_is_named() -> None:
    services = read(said({**ACTORS, **STARTED}))["brokers"]["broker-a"]["services"]
    assert services == {"flush": WORKS, "reput": {**WORKS, "state": "away"}}
    refused = read(said({**ACTORS, **TROUBLE}))
    part = refused["brokers"]["broker-a"]["services"]["reput"]
    assert part == {
        "state": "refuses",
        "reason": "the disk is full",
        "remedy": "Free some space.",
        "since": None,
    }
    assert refused["ready"]  # sends go on without it


def test_it_says_since_when() -> None:
    health = Health(1.0)
    for elapsed_ms in (0, 7_000):
        found = health.read({"broker-a": said({DISK_FULL_VALUE: "1"})}, NOW_MS + elapsed_ms)
    assert found["brokers"]["broker-a"]["since"] == NOW_MS
    health.read({"broker-a": said()}, NOW_MS + 8_000)
    found = health.read({"broker-a": said({DISK_FULL_VALUE: "1"})}, NOW_MS + 9_000)
    assert found["brokers"]["broker-a"]["since"] == NOW_MS + 9_000


def test_a_deployment_without_brokers_is_ready_with_its_name_server() -> None:
    found = Health(1.0).read({}, NOW_MS)
    assert found["ready"] and found["brokers"] == {}


def test_what_stops_sends_is_a_rule() -> None:
    assert RULES.keys() >= STOPS_SENDS
