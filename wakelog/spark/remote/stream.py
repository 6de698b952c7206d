"""What Spark calls for a stream over the wire: how far to read each queue.

A stream's offset is the next offset of every queue:

    {"v": 1, "t": {"orders": {"broker-a": {"0": 17, "1": 12}}}}

A queue that is not in it, of a topic or a broker that came later, is read from its first message.
Limits are counts of messages: each queue gets its share of what waits.

Invariants: an offset that was given is never below one given before; rows between two offsets do
not depend on when they are read.

Source: Spark's Kafka source for the options' meaning.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from wakelog.client.broker_calls import BrokerCalls, open_calls
from wakelog.client.options import ClientOptions
from wakelog.spark.bounds import QueueKey, Selection
from wakelog.spark.errors import DataLost
from wakelog.spark.options import LATEST, ReadOptions
from wakelog.spark.remote.cluster import ClusterView, look
from wakelog.spark.remote.plan import PulledPartition
from wakelog.spark.remote.query import make_tasks, remote_options
from wakelog.spark.remote.starts import Places, find_begins
from wakelog.spark.starts import check_there
from wakelog.spark.stream import TriggerHold, default_limit

if TYPE_CHECKING:
    import pyarrow as pa

VERSION: Final = 1
Offset = dict[str, Any]
Answer = TypeVar("Answer")


class RemoteStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module. Lives in one Python process of the driver while the stream runs."""

    def __init__(
        self,
        options: ReadOptions,
        schema: StructType,
        *,
        now_s: Callable[[], float] = time.monotonic,
        connect: Callable[[ClientOptions], AbstractAsyncContextManager[BrokerCalls]] = open_calls,
    ) -> None:
        """Ask nobody yet."""
        self._connect = connect
        self._options = options
        self._schema = schema
        self._hold = TriggerHold(options, now_s)
        self._target: Places | None = None
        self._latest: Offset | None = None

    def initialOffset(self) -> Offset:
        """Return where the options say that a new stream begins. Raises: SourceError."""

        async def begins(calls: BrokerCalls) -> Places:
            view = await look(calls, self._options)
            return await find_begins(calls, self._options, view, default=LATEST)

        return offset_of(self._ask(begins))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of the options."""
        return default_limit(self._options)

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what there is now for all that this run will read."""
        self._target = {key: queue.range.end for key, queue in self._look().items()}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return how far the next micro-batch goes, `start` itself if there is nothing for it."""
        before = places_of(start)
        begins, ends = self._spans(before, self._look())
        if self._target is not None:
            ends = {key: min(end, self._target.get(key, begins[key])) for key, end in ends.items()}
            ends = {key: max(end, begins[key]) for key, end in ends.items()}
        self._latest = offset_of(before | ends)
        if not isinstance(limit, ReadAllAvailable):
            waiting = sum(ends[key] - begins[key] for key in ends)
            if self._target is None and self._hold.holds_back(lambda count: waiting >= count):
                return start
            if self._options.offsets_per_trigger_max is not None:
                ends = limited(begins, ends, self._options.offsets_per_trigger_max)
        if all(before.get(key, begins[key]) == end for key, end in ends.items()):
            return start
        return offset_of(before | ends)

    def _spans(self, before: Places, view: ClusterView) -> tuple[Places, Places]:
        """Return where each queue is read from, and up to. Raises: DataLost."""
        strict = self._options.fail_on_data_loss
        missing = sorted(before.keys() - view.keys())
        if missing and strict:
            broker, topic, queue_id = missing[0]
            raise DataLost(f"queue {queue_id} of {topic!r} at {broker} is not there any more")
        begins, ends = {}, {}
        for key, queue in view.items():
            if key in before and strict:
                check_there(key, queue.range, before[key])
            begins[key] = before.get(key, queue.range.begin)
            ends[key] = max(begins[key], queue.range.end)
        return begins, ends

    def reportLatestOffset(self) -> Offset | None:
        """Return the end of all that was there at the last look."""
        return self._latest

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Plan a micro-batch. Raises: SourceError."""
        before, behind = places_of(start), places_of(end)
        view = self._look()
        begins, _ = self._spans(before, {key: view[key] for key in behind if key in view})
        spans = {key: (begin, behind[key]) for key, begin in begins.items()}
        options = self._options
        selection = Selection(options.topics, tags=options.tags, sql=options.sql)
        return [PulledPartition(x) for x in make_tasks(self._options, view, selection, spans)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task. Raises: DataLost."""
        from wakelog.spark.remote.reader import read_pulled

        return read_pulled(self._options, self._schema, partition)

    def commit(self, end: Offset) -> None:
        """Tell brokers how far the stream is, if it has a group; the checkpoint is Spark's."""
        group = self._options.committing_group
        if not group:
            return

        async def commit(calls: BrokerCalls) -> None:
            view = await look(calls, self._options)
            places = places_of(end)
            asked = (
                calls.commit_offset(view[key].at, group, place)
                for key, place in places.items()
                if key in view
            )
            await asyncio.gather(*asked)

        self._ask(commit)

    def stop(self) -> None:
        """Do nothing: no connection stays open."""

    def _look(self) -> ClusterView:
        return self._ask(lambda calls: look(calls, self._options))

    def _ask(self, question: Callable[[BrokerCalls], Awaitable[Answer]]) -> Answer:
        async def asked() -> Answer:
            async with self._connect(remote_options(self._options)) as calls:
                return await question(calls)

        return asyncio.run(asked())


def limited(begins: Mapping[QueueKey, int], ends: Places, rows_max: int) -> Places:
    """Return where each queue's share of so many messages ends, one message at least."""
    waiting = sum(ends[key] - begins[key] for key in ends)
    if waiting <= rows_max:
        return ends
    return {
        key: min(end, begins[key] + max(1, rows_max * (end - begins[key]) // waiting))
        for key, end in ends.items()
    }


def offset_of(places: Mapping[QueueKey, int]) -> Offset:
    """Return a stream's offset, as JSON has it."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for (broker, topic, queue_id), place in sorted(places.items()):
        found.setdefault(topic, {}).setdefault(broker, {})[str(queue_id)] = place
    return {"v": VERSION, "t": found}


def places_of(offset: Offset) -> Places:
    """Return the places of a stream's offset."""
    return {
        (broker, topic, int(queue_id)): place
        for topic, brokers in offset["t"].items()
        for broker, queues in brokers.items()
        for queue_id, place in queues.items()
    }
