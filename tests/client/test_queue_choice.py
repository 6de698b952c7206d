"""Which queue a message goes to, without a cluster."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.client.clusters import NAME_SERVER, FakeCluster, message
from wakelog.client import queue_choice
from wakelog.client.errors import ClientError, InvalidArgument
from wakelog.client.options import ClientOptions
from wakelog.client.queue_choice import QueueChoice
from wakelog.client.route import QueueAt, Routes


def routes(**queues: int) -> tuple[Routes, list[QueueAt]]:
    """Return routes of a topic T with queues by broker, and these."""
    made = Routes(FakeCluster(routes={"T": queues}), ClientOptions((NAME_SERVER,)))
    return made, asyncio.run(made.writable("T"))


def chosen(choice: QueueChoice, queues: list[QueueAt], **fields: Any) -> tuple[str, int]:
    queue = choice.choose(message(**fields), queues)
    return queue.broker, queue.queue_id


def test_each_topic_takes_its_queues_in_turn() -> None:
    known, queues = routes(a=2, b=1)
    choice = QueueChoice(known, first_queue=0)
    found = [chosen(choice, queues, topic=topic) for topic in "TUTUTUTU"]
    turn = [("a", 0), ("a", 1), ("b", 0), ("a", 0)]
    assert found[::2] == found[1::2] == turn


def test_it_begins_anywhere() -> None:
    known, queues = routes(a=16)
    assert len({chosen(QueueChoice(known), queues) for _ in range(64)}) > 1


def test_the_topics_that_are_counted_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_choice, "TOPICS_COUNTED_MAX", 3)
    known, queues = routes(a=2)
    choice = QueueChoice(known, first_queue=0)
    for n in range(9):
        chosen(choice, queues, topic=f"T{n}")
    assert list(choice._next_queues) == ["T6", "T7", "T8"]


def test_brokers_that_failed_are_left_out_while_another_is_there() -> None:
    known, queues = routes(a=2, b=2)
    choice = QueueChoice(known, first_queue=0)

    def brokers(*avoided: set[str]) -> Counter[str]:
        return Counter(choice.choose(message(), queues, avoided).broker for _ in range(8))

    assert brokers() == {"a": 4, "b": 4}
    assert brokers({"a"}) == {"b": 8}
    assert brokers({"a"}, {"b"}) == {"b": 8}, "the first that leaves any"
    assert brokers({"a", "b"}, {"b"}) == {"a": 8}, "of those that failed, not the last one"
    assert brokers({"a", "b"}, {"a", "b"}) == {"a": 4, "b": 4}


def test_a_named_queue_and_a_sharding_key_do_not_move_the_turn_on() -> None:
    known, queues = routes(a=4, b=4)
    choice = QueueChoice(known, first_queue=0)
    assert chosen(choice, queues, queue=("b", 3)) == ("b", 3)
    assert chosen(choice, queues, queue=("", 2)) == ("a", 2)
    chosen(choice, queues, sharding_key="order-7")
    assert chosen(choice, queues) == ("a", 0)


def test_a_sharding_key_chooses_one_queue_as_java_would() -> None:
    known, queues = routes(a=4, b=4)
    # "order-7".hashCode() is -1207111304.
    expected = queues[1207111304 % 8][::2]
    choice = QueueChoice(known, first_queue=0)
    assert [chosen(choice, queues, sharding_key="order-7") for _ in range(3)] == [expected] * 3


def test_a_queue_that_is_not_there_is_named() -> None:
    known, queues = routes(a=1)
    for queue in (("", 1), ("a", 1), ("b", 0)):
        with pytest.raises(InvalidArgument, match=f"no queue {queue[1]} to write to"):
            chosen(QueueChoice(known), queues, queue=queue)


def test_a_broker_without_a_master_is_waited_for() -> None:
    cluster = FakeCluster(routes={"T": {"a": 1, "b": 1}})
    cluster.addresses["b"] = {1: "b:10911"}
    known = Routes(cluster, ClientOptions((NAME_SERVER,)))
    queues = asyncio.run(known.writable("T"))
    with pytest.raises(ClientError, match="master") as failure:
        chosen(QueueChoice(known), queues, queue=("b", 0))
    assert failure.value.passes
