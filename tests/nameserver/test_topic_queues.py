"""Which topic has which queues, in which order."""

from collections.abc import Iterator

import pytest

from tests.nameserver.harness import topic
from wakelog.nameserver.topic_queues import TopicQueues
from wakelog.protocol.bodies import QueueData
from wakelog.protocol.steps import finish

UNIT = 1


@pytest.fixture
def queues() -> Iterator[TopicQueues]:
    """Return a table of two brokers; its invariants are asserted at the end."""
    table = TopicQueues()
    table.put("a", [topic("T"), topic("only-a", perm=7)])
    table.put("b", [topic("T", 8)])
    yield table
    table.validate({"a", "b"})


def test_a_broker_is_in_a_topic_once_with_all_its_numbers(queues: TopicQueues) -> None:
    queues.put("b", [topic("T", 8, perm=4, sys_flag=UNIT)])
    assert queues.of("T") == [QueueData("a", 4, 4, 6, 0), QueueData("b", 8, 8, 4, UNIT)]


@pytest.mark.parametrize(("count", "order"), [(4, ["a", "b"]), (5, ["b", "a"])])
def test_a_change_goes_to_the_end(queues: TopicQueues, count: int, order: list[str]) -> None:
    queues.put("a", [topic("T", count)])
    assert [queue.broker_name for queue in queues.of("T")] == order


def test_a_broker_that_goes_takes_the_topics_that_only_it_has(queues: TopicQueues) -> None:
    finish(queues.remove_broker("a"))
    assert list(queues) == ["T"]
    assert [queue.broker_name for queue in queues.of("T")] == ["b"]
    assert "only-a" not in queues
    assert queues.of("only-a") == []
    finish(queues.remove_broker("b"))
    assert len(queues) == 0


def test_a_topic_can_be_forgotten_twice(queues: TopicQueues) -> None:
    queues.remove_topic("T")
    queues.remove_topic("T")
    assert list(queues) == ["only-a"]


def test_a_permission_is_changed_at_one_broker(queues: TopicQueues) -> None:
    assert queues.change_perm("a", lambda perm: perm & ~2) == 2
    assert [queue.perm for queue in queues.of("T")] == [4, 6]
    assert [queue.perm for queue in queues.of("only-a")] == [5]
    assert queues.change_perm("nobody", lambda perm: 0) == 0


def test_topics_of_some_brokers(queues: TopicQueues) -> None:
    assert finish(queues.at_brokers({"b"})) == ["T"]
    assert set(finish(queues.at_brokers({"a", "nobody"}))) == {"T", "only-a"}
    assert finish(queues.at_brokers(set())) == []
