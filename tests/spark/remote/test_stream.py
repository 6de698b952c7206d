"""Offsets of a stream over the wire: its begin, its micro-batches, and lost messages."""

import asyncio
import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StringType, StructField, StructType

from tests.client.clusters import FakeCluster, Queue, messages
from tests.spark.remote.conftest import options
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand
from wakelog.spark.errors import DataLost
from wakelog.spark.remote.stream import RemoteStreamReader, limited, offset_of, places_of

A0, A1, B0 = ("a", "T", 0), ("a", "T", 1), ("b", "T", 0)
SCHEMA = StructType([StructField("topic", StringType())])
ALL = ReadAllAvailable()


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def cluster() -> FakeCluster:
    found = FakeCluster({A0: messages(30, first=5), A1: messages(10, queue_id=1)})
    found.first[A0] = 5
    return found


def reader(cluster: FakeCluster, clock: Clock | None = None, **given: str) -> RemoteStreamReader:
    read = options(startingOffsets="earliest", **given)
    return RemoteStreamReader(read, SCHEMA, now_s=clock or Clock(), connect=cluster.connect)


def spans(
    reader: RemoteStreamReader, start: dict[str, object], end: dict[str, object]
) -> list[tuple[Queue, int, int]]:
    found = []
    for each in reader.partitions(start, end):
        part = each.value.range
        found.append((part.queue.key, part.begin, part.end))
    return found


def test_offsets_are_json_and_back() -> None:
    places = {A1: 7, A0: 5, B0: 0}
    text = {"v": 1, "t": {"T": {"a": {"0": 5, "1": 7}, "b": {"0": 0}}}}
    assert offset_of(places) == text
    assert places_of(text) == places


def test_a_micro_batch_has_the_messages_between_two_offsets() -> None:
    found = cluster()
    stream = reader(found)
    start = stream.initialOffset()
    assert places_of(start) == {A0: 5, A1: 0}
    end = stream.latestOffset(start, ALL)
    assert places_of(end) == {A0: 35, A1: 10}
    assert spans(stream, start, end) == [(A0, 5, 35), (A1, 0, 10)]
    assert stream.latestOffset(end, ALL) is end
    found.queues[B0] = messages(3)  # a broker that comes later
    found.queues[A1] += messages(2, queue_id=1, first=10)
    later = stream.latestOffset(end, ALL)
    assert spans(stream, end, later) == [(A1, 10, 12), (B0, 0, 3)]
    # As after a restart: a batch that was planned is planned again, whatever came since.
    assert spans(reader(found), start, end) == [(A0, 5, 35), (A1, 0, 10)]
    assert stream.reportLatestOffset() == later
    newest = RemoteStreamReader(options(), SCHEMA, connect=found.connect)
    assert places_of(newest.initialOffset()) == {A0: 35, A1: 12, B0: 3}


def test_a_limit_is_shared_by_waiting_messages() -> None:
    stream = reader(cluster(), maxOffsetsPerTrigger="8")
    limit = stream.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows) and limit.max_rows == 8
    offset = stream.initialOffset()
    seen = []
    while (end := stream.latestOffset(offset, limit)) is not offset:
        found = spans(stream, offset, end)
        assert sum(high - low for _, low, high in found) <= 8
        seen += found
        offset = end
    assert places_of(offset) == {A0: 35, A1: 10}
    for key, begin, end_ in ((A0, 5, 35), (A1, 0, 10)):
        read = [x for queue, low, high in seen if queue == key for x in range(low, high)]
        assert read == list(range(begin, end_))
    assert limited({A0: 0, A1: 0}, {A0: 1, A1: 1}, 1) == {A0: 1, A1: 1}  # one each at least


def test_too_little_waits_but_not_for_long() -> None:
    found, clock = cluster(), Clock()
    stream = reader(found, clock, minOffsetsPerTrigger="50", maxTriggerDelay="10s")
    start, limit = stream.initialOffset(), stream.getDefaultReadLimit()
    assert stream.latestOffset(start, limit) is start
    # A query that wants all there is says so, and waits for nothing.
    assert stream.latestOffset(start, ALL) is not start
    clock.now_s = 11
    assert places_of(stream.latestOffset(start, limit)) == {A0: 35, A1: 10}


def test_available_now_ends_where_the_queues_ended_at_its_start() -> None:
    found = cluster()
    stream = reader(found)
    start = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    found.queues[A0] += messages(5, first=35)
    found.queues[B0] = messages(1)
    end = stream.latestOffset(start, ALL)
    assert places_of(end) == {A0: 35, A1: 10, B0: 0}
    assert stream.latestOffset(end, ALL) is end


def test_expired_offsets_and_missing_queues_are_data_lost() -> None:
    found = cluster()
    stream, lenient = reader(found), reader(found, failOnDataLoss="false")
    start = stream.initialOffset()
    found.first[A0], found.queues[A0] = 20, messages(15, first=20)
    with pytest.raises(DataLost, match=r"offset 5 of queue 0 .* has expired"):
        stream.latestOffset(start, ALL)
    end = lenient.latestOffset(start, ALL)
    assert spans(lenient, start, end) == [(A0, 5, 35), (A1, 0, 10)]
    del found.queues[A1]
    with pytest.raises(DataLost, match="queue 1 of 'T' at a is not there any more"):
        stream.latestOffset({**start, "t": {"T": {"a": {"0": 20, "1": 0}}}}, ALL)
    assert spans(lenient, start, lenient.latestOffset(start, ALL)) == [(A0, 5, 35)]


def test_the_offsets_of_a_group_follow_the_stream() -> None:
    found = cluster()
    stream = reader(found, commitOffsetsToGroup="dashboards")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    stream.commit(end)
    assert found.committed == {("dashboards", *A0): 35, ("dashboards", *A1): 10}
    reader(found).commit(end)
    assert len(found.committed) == 2


def test_the_first_offset_is_answered_before_the_others_are_sent() -> None:
    found = FakeCluster({("a", "T", n): messages(1, queue_id=n) for n in range(3)})
    invoke, beside = found.invoke, list[int]()
    under_way = 0

    async def slow(address: str, command: RemotingCommand, *, timeout_ms: int) -> RemotingCommand:
        nonlocal under_way
        if command.code != RequestCode.UPDATE_CONSUMER_OFFSET:
            return await invoke(address, command, timeout_ms=timeout_ms)
        under_way += 1
        await asyncio.sleep(0)
        beside.append(under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return await invoke(address, command, timeout_ms=timeout_ms)

    found.invoke = slow  # type: ignore[method-assign]
    stream = reader(found, commitOffsetsToGroup="dashboards")
    stream.commit(stream.latestOffset(stream.initialOffset(), ALL))
    assert beside == [1, 2, 2] and len(found.committed) == 3


def test_it_goes_to_tasks_as_it_is() -> None:
    stream = RemoteStreamReader(options(), SCHEMA)
    assert pickle.loads(pickle.dumps(stream)).getDefaultReadLimit() is not None
    stream.stop()
