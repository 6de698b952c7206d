"""What Spark calls for `spark.readStream.format("rocketmq")` over files.

The offset of a stream is one place in each broker's log, and the begins of single queues if they
differ from that place:

    {"v": 1, "log": {"broker-a": 12345}, "tails": {"broker-a": 3141592653},
     "offsets": {"broker-a": {"topic": {"0": 7}}}, "places": {...}}

So a micro-batch is a stretch of each log, and is the same after any restart. A stream does not read
older messages again, only some bytes before its place (`log_end.tail_of`). If these bytes differ,
the log was cut off and has other messages there now.

A limit ends a micro-batch with the record that fills it; each broker gets its share of what waits.

Invariants: a returned offset is never below an earlier one; rows between two offsets do not depend
on when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from wakelog.compiled.layout import PHYSICAL_OFFSET, SIZE
from wakelog.spark.bounds import Bounds, QueueKey, Selection
from wakelog.spark.errors import DataLost
from wakelog.spark.log_end import has_tail, tail_of
from wakelog.spark.options import ReadOptions
from wakelog.spark.query import Query
from wakelog.spark.records.column_walk import RecordWalk
from wakelog.spark.records.wanted import Wanted
from wakelog.spark.starts import read_bounds
from wakelog.spark.store_view import StoreView
from wakelog.spark.stores import StoreLog
from wakelog.spark.tasks import read_messages
from wakelog.spark.trigger import Offset, TriggeredStream
from wakelog.storage.file_system import FileSystem

if TYPE_CHECKING:
    import pyarrow as pa

VERSION: Final = 1
Places = dict[str, int]
"""Broker name to physical offset."""


class LogStreamReader(TriggeredStream):
    """See the module."""

    _fs: Final = FileSystem()

    @cached_property
    def _query(self) -> Query:
        return Query(self._options)

    def initialOffset(self) -> Offset:
        """Return where the options say that a new stream begins. Raises: SourceError."""
        views = self._query.views()
        selection = self._query.select(views, stream=True)
        log = {view.store.broker: read_bounds(selection, view)[0] for view in views}
        offset = self._offset({"v": VERSION}, views, log)
        for name, field in _BEGINS.items():
            begins = {key: getattr(x, field) for key, x in selection.queues.items()}
            found = _nested({key: begin for key, begin in begins.items() if begin > 0})
            if found:
                offset[name] = found
        return offset

    def prepareForTriggerAvailableNow(self) -> None:
        """Limit this run to the messages that there are now."""
        self._target = {view.store.broker: view.end for view in self._query.views()}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the end of the next micro-batch, `start` itself if there is nothing to read."""
        views = self._query.views(start["log"])
        begins = self._begins(start, views)
        ends = {view.store.broker: max(view.end, begins[view.store.broker]) for view in views}
        ends = self._within_target(begins, ends)
        self._latest = self._offset(start, views, ends)
        if not isinstance(limit, ReadAllAvailable):
            selection = selection_of(self._options, start)
            backlog = _Backlog(views, selection, begins, ends)
            if self._must_wait(backlog.has_messages):
                return start
            ends = self._limited(backlog, ends)
        if ends == start["log"]:
            return start
        return self._latest if ends == self._latest["log"] else self._offset(start, views, ends)

    def _offset(self, start: Offset, views: Sequence[StoreView], log: Places) -> Offset:
        """Return the offset that continues `start` up to these places."""
        found = {
            view.store.broker: tail_of(self._fs, view.store, log[view.store.broker])
            for view in views
        }
        tails = {name: tail for name, tail in found.items() if tail is not None}
        return {**start, "log": log, **({"tails": tails} if tails else {})}

    def _begins(self, start: Offset, views: Sequence[StoreView]) -> Places:
        """Return where reading continues in each log. Raises: DataLost."""
        log: Mapping[str, int] = start["log"]
        begins = {}
        missing = log.keys() - {view.store.broker for view in views}
        if missing and self._options.fail_on_data_loss:
            raise DataLost(f"the stores of {', '.join(sorted(missing))} are not there any more")
        for view in views:
            store = view.store
            begin = log.get(store.broker, store.begin)
            if self._options.fail_on_data_loss:
                if begin < store.begin:
                    raise DataLost(
                        f"the log of {store.broker} begins at physical offset {store.begin} now, "
                        f"and the stream has read it only up to {begin}"
                    )
                self._check_reaches(store, start)
            begins[store.broker] = max(begin, store.begin)
        return begins

    def _check_reaches(self, store: StoreLog, offset: Offset) -> None:
        """Check that a log still reaches an offset of the stream. Raises: DataLost."""
        place = offset["log"].get(store.broker, store.begin)
        if place > store.files_end:
            raise DataLost(
                f"the log of {store.broker} ends at physical offset {store.files_end}; "
                f"the stream has read it up to {place}"
            )
        if not has_tail(self._fs, store, place, offset.get("tails", {})):
            raise DataLost(
                f"the log of {store.broker} was cut off: the stream has read it up to physical "
                f"offset {place}, and other bytes are before that place now"
            )

    def _limited(self, backlog: _Backlog, ends: Places) -> Places:
        for total, end_after in (
            (self._options.offsets_per_trigger_max, backlog.end_after_rows),
            (self._options.bytes_per_trigger_max, backlog.end_after_bytes),
        ):
            if total is not None:
                limits = {view.store.broker: end_after(view, total) for view in backlog.views}
                ends = {name: min(end, limits[name]) for name, end in ends.items()}
        return ends

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Plan a micro-batch. Raises: SourceError."""
        views = self._query.views(end["log"])
        begins = self._begins(start, views)
        if self._options.fail_on_data_loss:
            for view in views:
                self._check_reaches(view.store, end)
        bounds = {name: (begin, end["log"].get(name, begin)) for name, begin in begins.items()}
        selection = selection_of(self._options, start)
        planned = self._query.plan_bounds(views, selection, bounds)
        return [InputPartition(each) for each in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task. Raises: DataLost."""
        return read_messages(self._options, self._schema, partition.value)


class _Backlog(NamedTuple):
    """The records that wait in each log, between two places."""

    views: Sequence[StoreView]
    selection: Selection
    begins: Places
    ends: Places

    def has_messages(self, rows_min: int) -> bool:
        """Return whether at least so many wanted records wait."""
        count = 0
        for view in self.views:
            wanted = Wanted(self.selection, view.store.broker)
            for walk in self._walk(view):
                count += len(wanted.rows(walk))
                if count >= rows_min:
                    return True
        return False

    def end_after_rows(self, view: StoreView, total: int) -> int:
        """Return the end of a log's share of so many wanted records."""
        left = self._share(view, total)
        wanted = Wanted(self.selection, view.store.broker)
        for walk in self._walk(view):
            rows = wanted.rows(walk)
            if len(rows) > left:
                return int(walk.numbers[rows[left], PHYSICAL_OFFSET])
            left -= len(rows)
        return self.ends[view.store.broker]

    def end_after_bytes(self, view: StoreView, total: int) -> int:
        """Return the end of a log's share of so many bytes: at least one record."""
        share = self._share(view, total)
        begin, end = self.begins[view.store.broker], self.ends[view.store.broker]
        if end - begin <= share:
            return end
        for walk in self._walk(view):
            numbers = walk.numbers[: walk.count]
            ends = numbers[:, PHYSICAL_OFFSET] + numbers[:, SIZE]
            over = ends > begin + share
            if over.any():
                first = int(over.argmax())
                place = int(numbers[first, PHYSICAL_OFFSET])
                return place if place > begin else int(ends[first])
        return end

    def _walk(self, view: StoreView) -> Iterator[RecordWalk]:
        name = view.store.broker
        return view.walk_records(self.begins[name], self.ends[name])

    def _share(self, view: StoreView, total: int) -> int:
        waiting = {name: end - self.begins[name] for name, end in self.ends.items()}
        return max(1, total * waiting[view.store.broker] // max(sum(waiting.values()), 1))


_BEGINS: Final = {"offsets": "queue_begin", "places": "physical_begin"}


def selection_of(options: ReadOptions, offset: Offset) -> Selection:
    """Return the selection of a stream with this offset, without the ends of micro-batches."""
    queues: dict[QueueKey, Bounds] = {}
    for name, field in _BEGINS.items():
        for broker, topics in offset.get(name, {}).items():
            for topic, begins in topics.items():
                for queue_id, begin in begins.items():
                    key = broker, topic, int(queue_id)
                    queues[key] = queues.get(key, Bounds())._replace(**{field: begin})
    return Selection(options.topics, queues=queues, tags=options.tags, sql=options.sql)


def _nested(begins: Mapping[QueueKey, int]) -> dict[str, dict[str, dict[str, int]]]:
    found: dict[str, dict[str, dict[str, int]]] = {}
    for (broker, topic, queue_id), begin in begins.items():
        found.setdefault(broker, {}).setdefault(topic, {})[str(queue_id)] = begin
    return found
