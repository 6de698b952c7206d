"""Reads a range of the log into tables by topic, with the rows of the Spark source.

It uses the same walk and columns (`records/`): user topics only, bodies decompressed, no prepared
and no rolled-back messages. Damaged parts are skipped and counted.

Invariants: memory is bounded by the limits plus one batch, even if bodies decompress to much more.
The range that was read ends between two records.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from wakelog.spark.bounds import Selection
from wakelog.spark.columns import MESSAGE_COLUMNS
from wakelog.spark.records.arrow_types import arrow_schema_of
from wakelog.spark.records.column_walk import FILE_ENDS, Damage, RecordWalk, RowOptions
from wakelog.spark.records.rows import Rows
from wakelog.storage.errors import IllegalName
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.paths import check_topic_name

SCHEMA: Final = arrow_schema_of(MESSAGE_COLUMNS)

ROWS_MAX: Final = 1 << 20
"""Rows of one range: the default size of a row group, so that a file has one group."""

_PLACE: Final = SCHEMA.get_field_index("commitLogOffset")
_SIZE: Final = SCHEMA.get_field_index("storeSize")
_TOPIC: Final = SCHEMA.get_field_index("topic")


class LogShort(Exception):
    """The log is shorter than its known end: it was truncated, and will be opened again."""


class Gathered(NamedTuple):
    """The messages of a range of the log that ends at `end`.

    counts: `rows`; `damaged_stretches`; `unnamed_rows`, of topics whose name is no legal path and
        which have no consume queue either; `missed_bytes`, which retention removed before.
    """

    end: int
    tables: dict[str, pa.Table]
    counts: Counter[str]


class Gatherer:
    """See the module. One owner, one thread; the first call allocates the buffers."""

    def __init__(self, log: CommitLogReader, broker: str, *, bytes_max: int) -> None:
        """broker: the name in the rows. bytes_max: of the rows in memory, approximately."""
        self._log = log
        self._broker = broker
        self._bytes_max = bytes_max
        self._walk: RecordWalk | None = None
        self._counts: Counter[str] = Counter()

    def gather(self, begin: int, end: int) -> Gathered:
        """Read the log from `begin`, a record's or the log's begin, up to `end` or a limit.

        Raises: StoreFailed, LogShort.
        """
        self._counts = Counter()
        found: list[pa.RecordBatch] = []
        rows_count = total_bytes = 0
        for batch in self._batches(begin, end):
            found.append(batch)
            rows_count += len(batch)
            total_bytes += batch.nbytes
            if total_bytes >= self._bytes_max or rows_count >= ROWS_MAX:
                end = batch.column(_PLACE)[-1].as_py() + batch.column(_SIZE)[-1].as_py()
                break
        tables = dict(by_topic(found))
        unnamed = [topic for topic in tables if not _is_name(topic)]
        unnamed_count = sum(len(tables.pop(topic)) for topic in unnamed)
        self._counts.update(rows=rows_count - unnamed_count, unnamed_rows=unnamed_count)
        return Gathered(end, tables, self._counts)

    def _batches(self, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        if self._walk is None:
            self._walk = RecordWalk()
        rows = Rows(self._walk, SCHEMA, Selection(), RowOptions(broker=self._broker))
        position = self._above_removed(begin)
        while position < end:
            segment = _OpenLog(self._log, self._log.segment_end(position))
            for step in self._walk.steps(segment, position, min(end, segment.end)):
                if not isinstance(step, Damage):
                    yield from rows.batches()
                    self._counts["damaged_stretches"] += len(rows.taken_damage())
                elif step.reason != FILE_ENDS:
                    self._counts["damaged_stretches"] += 1
                elif self._above_removed(step.begin) == step.begin:
                    raise LogShort(f"the log has no bytes at {step.begin}, below its known end")
            position = self._above_removed(segment.end)

    def _above_removed(self, position: int) -> int:
        """Return the position, or the log's begin if that is later; count the bytes between."""
        self._log.refresh()
        begin = max(position, self._log.min_offset)
        self._counts["missed_bytes"] += begin - position
        return begin


@dataclass
class _OpenLog:
    """One segment of the log, as `RecordWalk` reads one."""

    log: CommitLogReader
    end: int

    def read_into(self, buffer: memoryview, physical_offset: int) -> int:
        return self.log.read_span_into(buffer, physical_offset)

    def read(self, physical_offset: int, length_max: int) -> bytes:
        return self.log.read_span(physical_offset, length_max)


def by_topic(batches: list[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    """Yield a table for each topic, its rows in the order of the log."""
    table = pa.Table.from_batches(batches, SCHEMA)
    if not len(table):
        return
    topics = table.column(_TOPIC).combine_chunks().dictionary_encode()
    if len(topics.dictionary) == 1:
        yield topics.dictionary[0].as_py(), table
        return
    order = np.argsort(topics.indices.to_numpy(), kind="stable")
    ends = np.cumsum(np.bincount(topics.indices.to_numpy()))
    for i, topic in enumerate(topics.dictionary.to_pylist()):
        yield topic, table.take(pa.array(order[ends[i - 1] if i else 0 : ends[i]]))


def _is_name(topic: str) -> bool:
    try:
        check_topic_name(topic)
    except IllegalName:
        return False
    return True
