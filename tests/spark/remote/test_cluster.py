"""Which queues a query is about, and where a time lies in each."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.fakes.records import STORE_MS, record
from tests.spark.remote.clusters import FakeCluster, Queue, messages, options
from wakelog.client.route import QueueAt
from wakelog.spark.errors import DataLost
from wakelog.spark.remote.cluster import RemoteQueue, first_at, look, range_of
from wakelog.spark.store_view import QueueRange


def seen(cluster: FakeCluster, **given: str) -> dict[Queue, tuple[int, int]]:
    view = asyncio.run(look(cluster.calls(), options(**given)))
    return {key: (queue.range.begin, queue.range.end) for key, queue in view.items()}


def test_options_choose_topics_brokers_and_queues() -> None:
    queues: dict[Queue, list[bytes]] = {
        ("a", "T", 0): messages(3),
        ("a", "T", 1): [],
        ("b", "T", 0): messages(2, first=4),
        ("a", "U", 0): [],
        ("a", "%RETRY%g", 0): messages(1),
        ("a", "TBW102", 0): [],
    }
    cluster = FakeCluster(queues)
    cluster.first["b", "T", 0] = 4
    users = {("a", "T", 0): (0, 3), ("a", "T", 1): (0, 0), ("b", "T", 0): (4, 6)}
    users["a", "U", 0] = (0, 0)
    assert seen(cluster) == users
    assert seen(cluster, topic="U") == {("a", "U", 0): (0, 0)}
    assert seen(cluster, subscribePattern="T.*").keys() == users.keys() - {("a", "U", 0)}
    assert seen(cluster, assign='{"T":{"a":[1,7]}}').keys() == {("a", "T", 1)}
    both = {"includeRetry": "true", "includeSystemTopics": "true"}
    assert seen(cluster, **both).keys() == queues.keys()
    assert seen(FakeCluster(queues, perm=2)) == {}


def test_a_topic_that_is_not_there_is_data_lost() -> None:
    cluster = FakeCluster({("a", "orders", 0): []})
    with pytest.raises(DataLost, match=r"'order' is at no broker .* did you mean 'orders'"):
        seen(cluster, topic="orders,order")
    assert (
        seen(cluster, topic="orders,order", failOnDataLoss="false").keys() == cluster.queues.keys()
    )


def test_a_queue_that_never_had_a_message_begins_at_its_end() -> None:
    cluster = FakeCluster({("a", "T", 0): []})
    cluster.first["a", "T", 0] = -1
    at = QueueAt("a", "T", 0, "a:1")
    assert asyncio.run(range_of(cluster.calls(), at)) == QueueRange(0, 0)


def test_a_time_is_the_first_message_of_then_or_later() -> None:
    """4.9.3's own search gives a message near that time, and any of those of one millisecond."""
    choices = random.Random(5)
    times, now = [], STORE_MS
    for _ in range(200):
        now += choices.choice((0, 0, 0, 1, 50))
        times.append(now)
    cluster = FakeCluster(
        {
            ("a", "T", 0): [
                record(n * 200, queue_offset=n + 30, store_timestamp_ms=time_ms)
                for n, time_ms in enumerate(times)
            ]
        }
    )
    cluster.first["a", "T", 0] = 30
    queue = RemoteQueue(QueueAt("a", "T", 0, "a:10911"), QueueRange(30, 230))
    for time_ms in (*range(STORE_MS - 1, now + 2, 7), now, now + 1, 0, *times[::9]):
        earlier = sum(each < time_ms for each in times)
        assert asyncio.run(first_at(cluster.calls(), queue, time_ms)) == 30 + earlier
    empty = queue._replace(range=QueueRange(5, 5))
    assert asyncio.run(first_at(cluster.calls(), empty, STORE_MS)) == 5
