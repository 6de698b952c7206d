"""Replicas: which one is master by register or by settings, and how far each is behind."""

from math import nan

import pytest

from wakelog.broker.replication.group_state import GroupState, ReplicaAddress
from wakelog.broker.replication.known_group import group_values
from wakelog.broker.replication.takeover import (
    LOG_EPOCH_VALUE,
    LOG_ID_VALUE,
    REFUSES_SENDS_VALUE,
    REPLICA_VALUE,
)
from wakelog.client.errors import ClientError
from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.console.history import History
from wakelog.console.views import replicas
from wakelog.console.views.replicas import Behind

STATE = GroupState(
    log_id="0" * 32,
    epoch=4,
    master=2,
    in_sync=frozenset({2, 3}),
    replicas={n: ReplicaAddress(f"h:{n}", f"h:{n}1") for n in (1, 2, 3)},
)


def member(
    number: int, broker_id: int, end: int, state: GroupState | None = STATE, **more: str
) -> BrokerReading:
    values = {
        "wakelogVersion": "1",
        "commitLogMaxOffset": str(end),
        REPLICA_VALUE: str(number),
        LOG_ID_VALUE: "0" * 32,
        LOG_EPOCH_VALUE: "4",
        **group_values("file:///register", state),
    }
    return BrokerReading("c", "a", broker_id, f"h:{number}", values | more)


def plain(broker_id: int, end: int) -> BrokerReading:
    return BrokerReading("c", "a", broker_id, f"s:{broker_id}", {"commitLogMaxOffset": str(end)})


def rows(*brokers: BrokerReading, history: History | None = None) -> list[replicas.ReplicaRow]:
    return replicas.replica_rows(
        "a", ClusterReading(1, brokers=list(brokers)), history or History()
    )


def test_the_register_names_the_master_and_the_set() -> None:
    found = rows(member(1, 1, 70), member(2, 0, 100), member(3, 3, 100))
    assert [(x.number, x.role, x.in_sync, x.behind_bytes, x.log_epoch) for x in found] == [
        (2, "master", True, None, 4),
        (1, "follower", False, 30, 4),
        (3, "follower", True, 0, 4),
    ]
    assert [x.behind for x in found] == ["", "not known yet", "has all"]


def test_without_a_register_id_0_is_master() -> None:
    found = rows(plain(1, 60), plain(0, 100), BrokerReading("c", "b", 0, "b:1"))
    assert [(x.number, x.role, x.in_sync, x.behind_bytes) for x in found] == [
        (0, "master", None, None),
        (1, "slave", None, 40),
    ]


def test_a_member_of_the_set_that_no_name_server_knows_is_shown() -> None:
    found = rows(member(2, 0, 100))
    assert [(x.number, x.address, x.note) for x in found[1:]] == [(3, "", replicas.UNKNOWN_PLACE)]


def test_what_is_wrong_with_a_replica_is_noted() -> None:
    silent = BrokerReading("c", "a", 3, "h:3", failure=ClientError("x", "y"))
    refuses = member(2, 0, 100, STATE, **{REFUSES_SENDS_VALUE: "no quorum"})
    old = member(1, 0, 90, STATE.led_by(1, epoch=3, in_sync=frozenset({1})))
    notes = {x.address: x.note for x in rows(old, refuses, silent, plain(5, 1))}
    assert notes == {
        "h:2": "refuses sends: no quorum",
        "h:3": "no answer",
        "h:1": "registered as master, and the register names 2",
        "s:5": "not in the register",
    }


@pytest.mark.parametrize(
    ("readings", "says"),
    [
        ([member(1, 0, 9), member(2, 2, 9)], "Replica 2 is master in epoch 4. In sync: 2, 3."),
        ([member(1, 0, 9, None)], "has not said who is master"),
        ([BrokerReading("c", "a", 0, "a:1", {"wakelogVersion": "1"})], "No register decides here"),
        ([plain(0, 1)], "RocketMQ 4.9.3 has a master and slaves"),
    ],
)
def test_what_decides_is_said_in_words(readings: list[BrokerReading], says: str) -> None:
    assert says in replicas.group_text(readings)


def test_the_word_of_the_latest_epoch_counts() -> None:
    old = member(1, 1, 9, STATE.led_by(1, epoch=3, in_sync=frozenset({1})))
    group = replicas.group_of([old, member(3, 3, 9)])
    assert group is not None and (group.master, group.epoch) == (2, 4)


TIMES_MS = (0, 10_000, 20_000, 30_000)


@pytest.mark.parametrize(
    ("end", "course", "late"),
    [
        (400, (100, 200, 300, 400), Behind(0)),
        (200, (100, 200, 300, 400), Behind(20_000)),
        (250, (100, 200, 300, 400), Behind(15_000)),
        (300, (100, 300, 300, 400), Behind(10_000)),
        (250, (100, 200, nan, 400), Behind(15_000)),
        (50, (100, 200, 300, 400), Behind(30_000, is_more=True)),
        (50, (nan, nan, nan, nan), None),
    ],
)
def test_a_replica_is_as_late_as_what_it_lacks_is_old(
    end: int, course: tuple[float, ...], late: Behind | None
) -> None:
    assert replicas.behind(end, course, TIMES_MS) == late


def test_how_late_is_said_in_words() -> None:
    assert replicas.behind_text(7, Behind(90_000)) == "1 min 30 s"
    assert replicas.behind_text(7, Behind(90_000, is_more=True)) == "more than 1 min 30 s"


def test_the_last_hour_shows_how_late_a_slave_is() -> None:
    history = History()
    for second in range(0, 40, 10):
        master = plain(0, 100 * (second // 10 + 1))
        history.add(ClusterReading(1_000 * second + 1, brokers=[master]))
    [_, slave] = rows(plain(0, 400), plain(1, 200), history=history)
    assert (slave.behind_bytes, slave.behind) == (200, "20 s")
