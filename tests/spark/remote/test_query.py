"""A batch query's plan: bounds, filters, tasks."""

from __future__ import annotations

import asyncio

from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, LessThan

from tests.spark.remote.clusters import FakeCluster, messages, options
from wakelog.client.options import ClientOptions
from wakelog.network.signing import Credentials
from wakelog.spark.bounds import Bounds, Selection
from wakelog.spark.pushdown import push
from wakelog.spark.remote.query import plan_by, remote_options

CLUSTER = FakeCluster(
    {("a", "T", 0): messages(10), ("a", "T", 1): messages(4, queue_id=1), ("a", "U", 0): []}
)


def spans(narrow: Selection | None = None, **given: str) -> list[tuple[str, int, int, int]]:
    read = options(**given)

    def narrowed(selection: Selection) -> Selection:
        return push(selection, FILTERS) if narrow else selection

    tasks = asyncio.run(plan_by(CLUSTER.calls(), read, narrowed))
    for task in tasks:
        bounds = Bounds(queue_begin=task.range.begin, queue_end=task.range.end)
        assert task.selection.queues == {task.range.queue.key: bounds}
    return [(x.range.queue.topic, x.range.queue.queue_id, *x.range[1:]) for x in tasks]


FILTERS = [
    EqualTo(("queueId",), 0),
    GreaterThanOrEqual(("queueOffset",), 3),
    LessThan(("queueOffset",), 7),
]


def test_a_queue_with_messages_is_a_task() -> None:
    assert spans() == [("T", 0, 0, 10), ("T", 1, 0, 4)]
    assert spans(maxRecordsPerPartition="6") == [("T", 0, 0, 6), ("T", 0, 6, 10), ("T", 1, 0, 4)]
    assert spans(topic="U") == []


def test_filters_narrow_what_is_pulled() -> None:
    assert spans(Selection()) == [("T", 0, 3, 8)]


def test_how_to_ask_is_what_the_options_say() -> None:
    given = {
        "consumerGroup": "g", "fetchTimeoutMs": "5", "fetchOffset.numRetries": "0",
        "fetchOffset.retryIntervalMs": "7", "pullBatchSize": "9",
        "accessKey": "a", "secretKey": "s",
    }  # fmt: skip
    expected = ClientOptions(("names:9876",), "g", 5, 0, 7, Credentials("a", "s"))
    assert remote_options(options(**given)) == expected
    assert options(**given).pull_count == 9
