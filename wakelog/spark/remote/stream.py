"""What Spark calls for a stream over the wire: how far to read each queue.

The offset of a stream is the next offset of every queue:

    {"v": 1, "t": {"orders": {"broker-a": {"0": 17, "1": 12}}}}

A queue that is not in it belongs to a later topic or broker, and is read from its first message.
Limits count messages: each queue gets its share of what waits.

Invariants: a returned offset is never below an earlier one; rows between two offsets do not depend
on when they are read.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from wakelog.client.broker_calls import BrokerCalls, open_calls
from wakelog.client.offset_commits import OffsetCommits
from wakelog.spark.bounds import QueueKey
from wakelog.spark.errors import DataLost
from wakelog.spark.options import ReadOptions
from wakelog.spark.positions import LATEST
from wakelog.spark.remote.query import Answer, Connect, ask, make_tasks
from wakelog.spark.remote.queues import QueueOffsets, Queues, find_begins, find_queues
from wakelog.spark.starts import check_there
from wakelog.spark.trigger import Offset, TriggeredStream

if TYPE_CHECKING:
    import pyarrow as pa

VERSION: Final = 1


class RemoteStreamReader(TriggeredStream):
    """See the module."""

    def __init__(
        self,
        options: ReadOptions,
        schema: StructType,
        *,
        now_s: Callable[[], float] = time.monotonic,
        connect: Connect = open_calls,
    ) -> None:
        super().__init__(options, schema, now_s=now_s)
        self._connect = connect

    def initialOffset(self) -> Offset:
        """Return where the options say that a new stream begins. Raises: SourceError."""

        async def begins(calls: BrokerCalls) -> QueueOffsets:
            queues = await find_queues(calls, self._options)
            return await find_begins(calls, self._options, queues, default=LATEST)

        return offset_of(self._ask(begins))

    def prepareForTriggerAvailableNow(self) -> None:
        """Limit this run to the messages that there are now."""
        self._target = {key: queue.range.end for key, queue in self._queues().items()}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the end of the next micro-batch, `start` itself if there is nothing to read."""
        before = places_of(start)
        begins, ends = self._spans(before, self._queues())
        ends = self._within_target(begins, ends)
        self._latest = offset_of(before | ends)
        if not isinstance(limit, ReadAllAvailable):
            waiting = sum(ends[key] - begins[key] for key in ends)
            if self._must_wait(lambda count: waiting >= count):
                return start
            if self._options.offsets_per_trigger_max is not None:
                ends = limited(begins, ends, self._options.offsets_per_trigger_max)
        if all(before.get(key, begins[key]) == end for key, end in ends.items()):
            return start
        return offset_of(before | ends)

    def _spans(self, before: QueueOffsets, queues: Queues) -> tuple[QueueOffsets, QueueOffsets]:
        """Return the begin and the end of each queue. Raises: DataLost."""
        strict = self._options.fail_on_data_loss
        missing = sorted(before.keys() - queues.keys())
        if missing and strict:
            broker, topic, queue_id = missing[0]
            raise DataLost(f"queue {queue_id} of {topic!r} at {broker} is not there any more")
        begins, ends = {}, {}
        for key, queue in queues.items():
            if key in before and strict:
                check_there(key, queue.range, before[key])
            begins[key] = before.get(key, queue.range.begin)
            ends[key] = max(begins[key], queue.range.end)
        return begins, ends

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Plan a micro-batch. Raises: SourceError."""
        options, ends, queues = self._options, places_of(end), self._queues()
        planned = {key: queues[key] for key in ends if key in queues}
        begins, _ = self._spans(places_of(start), planned)
        spans = {key: (begin, ends[key]) for key, begin in begins.items()}
        return [InputPartition(x) for x in make_tasks(options, queues, spans)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task. Raises: DataLost."""
        from wakelog.spark.remote.reader import read_pulled

        return read_pulled(self._options, self._schema, partition.value)

    def commit(self, end: Offset) -> None:
        """Commit the offsets for `commitOffsetsToGroup`; Spark keeps the checkpoint."""
        group = self._options.committing_group
        if not group:
            return

        async def commit(calls: BrokerCalls) -> None:
            queues, places = await find_queues(calls, self._options), places_of(end)
            offsets = {queues[key].at: place for key, place in places.items() if key in queues}
            for error in (await OffsetCommits(calls, group).commit(offsets)).values():
                raise error

        self._ask(commit)

    def _queues(self) -> Queues:
        return self._ask(lambda calls: find_queues(calls, self._options))

    def _ask(self, question: Callable[[BrokerCalls], Awaitable[Answer]]) -> Answer:
        return ask(self._options, question, self._connect)


def limited(begins: Mapping[QueueKey, int], ends: QueueOffsets, rows_max: int) -> QueueOffsets:
    """Return the end of each queue's share of `rows_max` messages: at least one message."""
    waiting = sum(ends[key] - begins[key] for key in ends)
    if waiting <= rows_max:
        return ends
    return {
        key: min(end, begins[key] + max(1, rows_max * (end - begins[key]) // waiting))
        for key, end in ends.items()
    }


def offset_of(places: Mapping[QueueKey, int]) -> Offset:
    """Return the offset of a stream, as JSON has it."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for (broker, topic, queue_id), place in sorted(places.items()):
        found.setdefault(topic, {}).setdefault(broker, {})[str(queue_id)] = place
    return {"v": VERSION, "t": found}


def places_of(offset: Offset) -> QueueOffsets:
    """Return the queue offsets in the offset of a stream."""
    return {
        (broker, topic, int(queue_id)): place
        for topic, brokers in offset["t"].items()
        for broker, queues in brokers.items()
        for queue_id, place in queues.items()
    }
