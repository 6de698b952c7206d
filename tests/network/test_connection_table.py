"""Caps on connections and how they are counted."""

import msgspec

from wakelog.network.connection_table import ConnectionTable
from wakelog.network.idle import CloseReason


class FakeConnection(msgspec.Struct):
    id: int
    remote_host: str


def make_table(connections_max: int = 3, per_host: int = 2) -> ConnectionTable[FakeConnection]:
    return ConnectionTable(connections_max=connections_max, connections_per_host_max=per_host)


def test_caps_are_on_all_and_on_each_host() -> None:
    table = make_table()
    hosts = ["a", "a", "a", "b", "c"]
    members = [FakeConnection(number, host) for number, host in enumerate(hosts)]
    verdicts = [table.add(member) for member in members]
    assert verdicts == [None, None, CloseReason.TOO_MANY_FROM_HOST, None, CloseReason.TOO_MANY]
    table.validate()
    for member, reason in zip(members, verdicts, strict=True):
        taken_in = table.remove(member, reason or CloseReason.PEER)
        assert taken_in is (reason is None)
    table.validate()
    statistics = table.statistics()
    assert (statistics.open_count, statistics.accepted_count) == (0, 5)
    assert statistics.closed_count["peer"] == 3
    assert statistics.closed_count["tooMany"] == 1


def test_room_is_given_back() -> None:
    table = make_table(connections_max=1, per_host=1)
    first, second = FakeConnection(1, "a"), FakeConnection(2, "a")
    assert table.add(first) is None
    table.remove(first, CloseReason.IDLE)
    assert table.add(second) is None
    assert table.get(1) is None
    assert table.get(2) is second


def test_members_may_leave_while_one_iterates() -> None:
    table = make_table(per_host=3)
    for number in range(3):
        table.add(FakeConnection(number, "a"))
    for member in table:
        table.remove(member, CloseReason.REQUESTED)
    assert len(table) == 0
