"""Which topic has which queues, in which order."""

from collections.abc import Iterator

import pytest

from tests.calls import calls_of_steps, count_calls
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
    assert list(queues.change_perm("a", lambda perm: perm & ~2)) == [["T", "only-a"]]
    assert [queue.perm for queue in queues.of("T")] == [4, 6]
    assert [queue.perm for queue in queues.of("only-a")] == [5]
    assert list(queues.change_perm("nobody", lambda perm: 0)) == [[]]


def test_topics_of_some_brokers(queues: TopicQueues) -> None:
    assert finish(queues.at_brokers({"b"})) == ["T"]
    assert set(finish(queues.at_brokers({"a", "nobody"}))) == {"T", "only-a"}
    assert finish(queues.at_brokers(set())) == []


def test_what_a_broker_of_many_does_costs_no_more_for_the_others() -> None:
    """A list of 500 entries a topic took some 500 comparisons for each."""

    def calls_beside(brokers_count: int) -> tuple[int, int, int]:
        table = TopicQueues()
        topics = [topic(f"T{number}") for number in range(100)]
        for number in range(brokers_count):
            table.put(f"b{number}", topics)
        names = {f"b{number}" for number in range(0, brokers_count, 2)}
        steps, _ = calls_of_steps(table.at_brokers(names))
        puts = count_calls(lambda: table.put("last", topics))
        return max(steps), puts, count_calls(lambda: finish(table.remove_broker("last")))

    few, many = calls_beside(1), calls_beside(500)
    assert many[0] < few[0] * 1.2
    assert many[1:] == few[1:]
