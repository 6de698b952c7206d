"""Caps on connections, how they are counted, and which have to be closed, as a table of times."""

import pytest

from tests.network.test_connection import FakeOwner
from wakelog.network.connection import Connection
from wakelog.network.connection_table import (
    Activity,
    CloseReason,
    ConnectionTable,
    largest_holders,
    verdict,
)
from wakelog.network.limits import ServerLimits


def connection(host: str) -> Connection:
    made = Connection(FakeOwner(), ServerLimits())
    made.remote_host = host
    return made


def make_table(connections_max: int = 3, per_host: int = 2) -> ConnectionTable:
    return ConnectionTable(connections_max=connections_max, connections_per_host_max=per_host)


def test_caps_are_on_all_and_on_each_host() -> None:
    table = make_table()
    members = [connection(host) for host in ("a", "a", "a", "b", "c")]
    verdicts = [table.add(member) for member in members]
    assert verdicts == [None, None, CloseReason.TOO_MANY_FROM_HOST, None, CloseReason.TOO_MANY]
    table.validate()
    for member, reason in zip(members, verdicts, strict=True):
        was_added = table.remove(member, reason or CloseReason.PEER)
        assert was_added is (reason is None)
    table.validate()
    statistics = table.statistics()
    assert (statistics.open_count, statistics.accepted_count) == (0, 5)
    assert statistics.closed_count["peer"] == 3
    assert statistics.closed_count["tooMany"] == 1


def test_a_removed_connection_makes_room() -> None:
    table = make_table(connections_max=1, per_host=1)
    first, second = connection("a"), connection("a")
    assert table.add(first) is None
    table.remove(first, CloseReason.IDLE)
    assert table.add(second) is None
    assert table.get(first.id) is None
    assert table.get(second.id) is second


@pytest.mark.parametrize(
    ("held_bytes", "closed"),
    [
        ([], []),
        ([40, 40, 20], []),
        ([40, 41, 20], [1]),
        ([10, 200, 0, 80], [1, 3]),
        ([30, 30, 30, 30], [0, 1]),
    ],
)
def test_those_that_hold_most_have_to_go_when_all_hold_too_much(
    held_bytes: list[int], closed: list[int]
) -> None:
    assert largest_holders(held_bytes, 100) == closed


def test_connections_may_be_removed_during_an_iteration() -> None:
    table = make_table(per_host=3)
    for _ in range(3):
        table.add(connection("a"))
    for member in table:
        table.remove(member, CloseReason.REQUESTED)
    assert len(table) == 0


LIMITS = ServerLimits(write_stall_seconds_max=30, frame_seconds_max=20, idle_seconds_max=120)


def activity(
    *,
    read: float = 0.0,
    written: float = 0.0,
    drained: float = 0.0,
    frame_begun: float | None = None,
) -> Activity:
    return Activity(read, written, drained, frame_begun)


@pytest.mark.parametrize(
    ("state", "now", "expected"),
    [
        (activity(drained=100), 119.9, None),
        (activity(drained=100), 120, CloseReason.IDLE),
        (activity(read=60, drained=150), 150, None),
        (activity(written=60, drained=150), 150, None),
        (activity(read=60, written=40, drained=180), 180, CloseReason.IDLE),
        (activity(read=30, frame_begun=10, drained=20), 29.9, None),
        (activity(read=30, frame_begun=10, drained=20), 30, CloseReason.SLOW_FRAME),
        (activity(read=40, written=40, drained=10), 39.9, None),
        (activity(read=40, written=40, drained=10), 40, CloseReason.WRITE_STALL),
    ],
)
def test_verdict(state: Activity, now: float, expected: CloseReason | None) -> None:
    assert verdict(state, now, LIMITS) is expected


def test_a_new_connection_that_sends_nothing_is_idle() -> None:
    state = Activity.begin(5.0)
    state.note_drained(0, left_bytes=0, now_seconds=124.9)
    assert verdict(state, 124.9, LIMITS) is None
    assert verdict(state, 125.0, LIMITS) is CloseReason.IDLE


@pytest.mark.parametrize(
    ("drained_bytes", "left_bytes", "expected_drained_seconds"),
    [
        (100, 50, 0.0),  # nothing more was read
        (101, 49, 9.0),  # slow, but it reads
        (100, 0, 9.0),  # nothing waits
    ],
)
def test_progress_is_what_the_peer_has_read(
    drained_bytes: int, left_bytes: int, expected_drained_seconds: float
) -> None:
    state = activity()
    state.note_drained(100, left_bytes=50, now_seconds=0.0)
    state.note_drained(drained_bytes, left_bytes=left_bytes, now_seconds=9.0)
    assert state.drained_seconds == expected_drained_seconds
