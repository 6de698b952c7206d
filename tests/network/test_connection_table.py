"""Caps on connections, how they are counted, and which of them hold too much."""

import pytest

from tests.network.test_connection import FakeOwner
from wakelog.network.activity import CloseReason
from wakelog.network.connection import Connection
from wakelog.network.connection_table import ConnectionTable, largest_holders
from wakelog.network.limits import ServerLimits
from wakelog.network.netty_keys import NETTY_SERVER_ROWS
from wakelog.storage.settings_text import keys_without_effect


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


@pytest.mark.parametrize(
    ("descriptors_max", "expected"),
    [(1_000_000, 20_000), (20_000, 20_000 - 256), (1_024, 768), (256, 128), (1, 1)],
)
def test_connections_leave_descriptors_to_the_store(descriptors_max: int, expected: int) -> None:
    assert ServerLimits().connections_allowed(descriptors_max) == expected


def test_relations_are_asserted() -> None:
    with pytest.raises(AssertionError):
        ServerLimits(write_buffer_bytes_high=10, write_buffer_bytes_max=10)
    with pytest.raises(AssertionError):
        ServerLimits(connections_max=1, connections_per_host_max=2)


def test_eleven_keys_have_a_default_and_no_effect() -> None:
    table = keys_without_effect(NETTY_SERVER_ROWS)
    assert len(table) == 14 - len(("listenPort", "serverChannelMaxIdleTimeSeconds", "backlog"))
    assert all(row.default for row in table.values())
