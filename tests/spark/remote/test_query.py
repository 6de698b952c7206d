"""The plan of a batch query: ranges and tasks."""

import pytest

from tests.client.clusters import FakeCluster, messages
from tests.spark.remote.conftest import options
from wakelog.client.options import ClientOptions
from wakelog.client.route import QueueAt
from wakelog.network.signing import Credentials
from wakelog.spark.bounds import Bounds
from wakelog.spark.remote.query import PulledRange, cut, plan_query, remote_options

QUEUES = [QueueAt("a", "T", queue_id, "a:1") for queue_id in range(3)]
CLUSTER = FakeCluster(
    {("a", "T", 0): messages(10), ("a", "T", 1): messages(4, queue_id=1), ("a", "U", 0): []}
)


def spans(**given: str) -> list[tuple[str, int, int, int]]:
    tasks = plan_query(options(**given), CLUSTER.connect)
    for task in tasks:
        bounds = Bounds(queue_begin=task.range.begin, queue_end=task.range.end)
        assert task.selection.queues == {task.range.queue.key: bounds}
    return [(x.range.queue.topic, x.range.queue.queue_id, *x.range[1:]) for x in tasks]


def test_a_queue_with_messages_is_a_task() -> None:
    assert spans() == [("T", 0, 0, 10), ("T", 1, 0, 4)]
    assert spans(maxRecordsPerPartition="6") == [("T", 0, 0, 6), ("T", 0, 6, 10), ("T", 1, 0, 4)]
    assert spans(topic="U") == []


def test_options_of_the_wire_are_those_of_the_client() -> None:
    given = {
        "consumerGroup": "g", "fetchTimeoutMs": "5", "fetchOffset.numRetries": "0",
        "fetchOffset.retryIntervalMs": "7", "pullBatchSize": "9",
        "accessKey": "a", "secretKey": "s",
    }  # fmt: skip
    expected = ClientOptions(("names:9876",), "g", 5, 0, 7, Credentials("a", "s"))
    assert remote_options(options(**given)) == expected
    assert options(**given).pull_count == 9


@pytest.mark.parametrize(
    ("records_max", "partitions_min", "sizes"),
    [
        (None, 1, [100, 10]),
        (None, 4, [28, 28, 28, 16, 10]),
        (30, 1, [30, 30, 30, 10, 10]),
        (1, 1, [1] * 110),
    ],
)
def test_pieces_cover_each_queue_once(
    records_max: int | None, partitions_min: int, sizes: list[int]
) -> None:
    spans = [(5, 105), (7, 7), (0, 10)]
    ranges = [PulledRange(at, *span) for at, span in zip(QUEUES, spans, strict=True)]
    pieces = cut(ranges, records_max=records_max, partitions_min=partitions_min)
    assert [piece.end - piece.begin for piece in pieces] == sizes
    for part in ranges:
        own = [x for piece in pieces if piece.queue == part.queue for x in range(*piece[1:])]
        assert own == list(range(*part[1:]))


def test_an_empty_range_is_no_task() -> None:
    assert cut([PulledRange(QUEUES[0], 5, 5)], records_max=None, partitions_min=4) == []
