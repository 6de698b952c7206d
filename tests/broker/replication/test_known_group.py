"""What a replica tells of its group, written and read again."""

import pytest

from wakelog.broker.replication.group_state import GroupState, ReplicaAddress
from wakelog.broker.replication.known_group import KnownGroup, group_values, known_group
from wakelog.broker.replication.replicas import Replicas
from wakelog.broker.replication.takeover import LOG_ID_VALUE, REPLICA_VALUE

STATE = GroupState(
    log_id="0" * 32,
    epoch=4,
    master=1,
    in_sync=frozenset({12, 1}),
    replicas={n: ReplicaAddress(f"h:{n}", f"h:{n}1") for n in (1, 12)},
)
OWN = {REPLICA_VALUE: "12", LOG_ID_VALUE: "0" * 32}


def test_a_group_is_reported_without_the_account_of_its_register() -> None:
    reported = OWN | group_values("etcd://me:secret@a:2379,b:2379?ca=/x@y", STATE)
    assert known_group(reported) == KnownGroup(
        "etcd://a:2379,b:2379?ca=/x@y", 12, 4, 1, STATE.in_sync
    )
    assert "secret" not in str(reported)


def test_a_broker_without_a_register_reports_no_group() -> None:
    assert known_group({REPLICA_VALUE: "2"}) is None


def test_a_group_whose_register_is_silent_has_no_epoch_to_show() -> None:
    values = {**OWN, REPLICA_VALUE: "x"} | group_values("file:///r", None)
    assert known_group(values) == KnownGroup("file:///r", 0, 0, 0, frozenset())


@pytest.mark.parametrize(
    ("near_count", "end", "expected"),
    [(0, 1_000, False), (1, 1_000, True), (1, 1_099, True), (1, 1_100, False), (2, 1_000, True)],
)
def test_a_slave_must_be_there_and_near(near_count: int, end: int, *, expected: bool) -> None:
    replicas = Replicas(100)
    assert not replicas.can_take(0)
    replicas.note(1_000, near_count)
    assert replicas.can_take(end) is expected


def test_what_was_acknowledged_stays_so() -> None:
    replicas = Replicas(100)
    replicas.note(1_000, 1)
    replicas.note(0, 0)
    assert (replicas.replicated, replicas.near_count) == (1_000, 0)
