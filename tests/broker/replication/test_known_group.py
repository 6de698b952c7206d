"""What a replica tells of its group, written and read again."""

from wakelog.broker.replication.group_state import GroupState, ReplicaAddress
from wakelog.broker.replication.known_group import KnownGroup, group_values, known_group
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
