"""Which queues each member gets; the lists are what 4.9.3's classes returned for these inputs."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.client.allocation import (
    STRATEGIES,
    Strategy,
    allocate,
    by_machine_room,
    find_strategy,
)
from wakelog.client.errors import InvalidArgument
from wakelog.protocol.body_codec import MessageQueue


def queues(count: int, broker: str = "broker-a") -> list[MessageQueue]:
    return [MessageQueue("T", broker, queue_id) for queue_id in range(count)]


def shares(strategy: Strategy, all_queues: Sequence[MessageQueue], members: list[str]) -> list[int]:
    """Return the number of the member that has each queue."""
    owned = [allocate(strategy, all_queues, members, member) for member in members]
    return [
        next(number for number, mine in enumerate(owned) if queue in mine) for queue in all_queues
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("AVG", [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2]),
        ("AVG_BY_CIRCLE", [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0]),
        ("CONSISTENT_HASH", [2, 2, 0, 1, 1, 0, 2, 0, 2, 0, 2, 2, 2, 2, 2, 1]),
    ],
)
def test_queues_are_shared_out_as_in_java(name: str, expected: list[int]) -> None:
    members = ["10.0.0.1@1#1", "10.0.0.2@2#2", "10.0.0.3@3#3"]
    assert shares(STRATEGIES[name], queues(8) + queues(8, "broker-b"), members) == expected


@pytest.mark.parametrize("name", ["AVG", "AVG_BY_CIRCLE"])
def test_members_without_a_queue_get_none(name: str) -> None:
    members = ["a", "b", "c"]
    assert [len(allocate(STRATEGIES[name], queues(2), members, x)) for x in members] == [1, 1, 0]


def test_the_order_of_the_lists_does_not_matter() -> None:
    mine = allocate(STRATEGIES["AVG"], queues(5)[::-1], ["b", "a"], "a")
    assert [queue.queue_id for queue in mine] == [0, 1, 2]


def test_a_member_that_the_broker_does_not_list_gets_nothing() -> None:
    assert allocate(STRATEGIES["AVG"], queues(4), ["a"], "b") == []
    assert allocate(STRATEGIES["AVG"], [], ["a"], "a") == []


def test_a_machine_room_has_no_name_since_it_needs_its_rooms() -> None:
    with pytest.raises(InvalidArgument, match=r"allocation is 'MACHINE_ROOM', .*by_machine_room"):
        find_strategy("MACHINE_ROOM")
    strategy = by_machine_room("r1")
    assert find_strategy(strategy) is strategy


def test_a_machine_room_shares_its_own_queues() -> None:
    near, far = queues(5, "r1@b"), queues(5, "r2@b")
    strategy = by_machine_room("r1")
    members = ["a", "b"]
    assert [allocate(strategy, near + far, members, x) for x in members] == [
        [*near[0:2], near[4]],
        near[2:4],
    ]


@given(
    st.sampled_from(sorted(STRATEGIES)),
    st.integers(1, 40),
    st.sets(st.text("abc@#0189", min_size=1), min_size=1, max_size=12),
)
def test_every_queue_has_one_member(name: str, count: int, members: set[str]) -> None:
    owned = [allocate(STRATEGIES[name], queues(count), list(members), x) for x in members]
    assert sorted(queue for mine in owned for queue in mine) == queues(count)
