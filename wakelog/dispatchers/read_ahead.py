"""Reads and scans the log one stretch ahead of the dispatch, if there is a worker.

Half of the time to catch up goes into reading and scanning, which need no Python, and half into
queues and index. A worker (a thread of the shell) fills a second set of columns while the first set
is dispatched. Without a worker everything runs in turn.

Invariants:
- At most one stretch is being filled, and there are two sets of columns, so that memory is bounded.
- A stretch is filled ahead only if a whole buffer of it lies below the limit. So its content does
  not depend on how far the log grows meanwhile.
- Between `fill` and the next `fill` or `cancel` only the worker uses the log's reader.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from wakelog.storage.columns.scan_columns import Columns, ColumnScan
from wakelog.storage.log.record_check import CheckKind

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Filled(NamedTuple):
    """Columns of the log's records in [begin, begin + length); no scan if length is 0."""

    columns: Columns
    begin: int
    length: int
    scan: ColumnScan | None


class SpanReader(Protocol):
    """The part of `CommitLogReader` that filling columns needs."""

    def segment_end(self, physical_offset: int) -> int:
        """Return the end of the segment that `physical_offset` falls into."""
        ...

    def read_span_into(self, buffer: bytearray | memoryview, physical_offset: int) -> int:
        """Fill `buffer`, cut at the segment's end; return the count."""
        ...


class Pending(Protocol[T_co]):
    """Submitted work, as a `Future`."""

    def done(self) -> bool:
        """Return whether `result` would not wait."""
        ...

    def result(self) -> T_co:
        """Wait for the work; return its result or raise its error."""
        ...


class Worker(Protocol):
    """Does pieces of work, as a `ThreadPoolExecutor` does."""

    def submit(self, work: Callable[[], T], /) -> Pending[T]:
        """Begin or queue a piece of work."""
        ...


class Ahead(Protocol):
    """Fills columns for a cursor: `ReadAhead`, or `audit/stretches.py`."""

    def fill(self, begin: int, end: int) -> Filled:
        """Return columns of a part of [begin, end), all in one segment, valid until the next call.

        Raises: StoreFailed.
        """
        ...

    def cancel(self) -> None:
        """Wait for the stretch that is being filled, and drop it."""
        ...


class ReadAhead:
    """See the module. One owner, one thread, and the worker's."""

    def __init__(
        self, log: SpanReader, make_columns: Callable[[], Columns], worker: Worker | None = None
    ) -> None:
        """Make the first columns; the second ones are made for the first reading ahead."""
        self._log = log
        self._make_columns = make_columns
        self._worker = worker
        self._columns = make_columns()
        self._spare: Columns | None = None
        self._pending: Pending[Filled] | None = None
        self._pending_span = (0, 0)

    def fill(self, begin: int, end: int) -> Filled:
        """Return columns of [begin, end), all in one segment, up to the size of the buffer.

        They are valid until the next call. Raises: StoreFailed.
        """
        ahead = self._taken(begin, end)
        if ahead is None:
            filled = self._fill(self._columns, begin, end)
        else:
            self._spare, self._columns = self._columns, ahead.columns
            filled = ahead
        self._begin_next(filled, end)
        return filled

    def cancel(self) -> None:
        """Wait for the stretch that is being filled, and drop it, also if it failed."""
        self._taken(-1, -1)

    def _taken(self, begin: int, end: int) -> Filled | None:
        pending, self._pending = self._pending, None
        if pending is None:
            return None
        if self._pending_span[0] == begin and self._pending_span[1] <= end:
            return pending.result()
        try:
            pending.result()
        except Exception:  # the stretch is no longer needed
            return None
        return None

    def _begin_next(self, filled: Filled, end: int) -> None:
        if self._worker is None or filled.scan is None or filled.columns.count == 0:
            return
        stopped_by = filled.scan.stopped_by
        if stopped_by is not None and stopped_by.kind is not CheckKind.INCOMPLETE:
            return
        begin = filled.begin + filled.scan.next_position
        begin_end = begin + len(filled.columns.buffer)
        if begin_end > end:
            return
        if self._spare is None:
            self._spare = self._make_columns()
        spare = self._spare
        self._pending_span = begin, begin_end
        self._pending = self._worker.submit(lambda: self._fill(spare, begin, begin_end))

    def _fill(self, columns: Columns, begin: int, end: int) -> Filled:
        view = memoryview(columns.buffer)[: end - begin]
        length = self._log.read_span_into(view, begin)
        if length == 0:
            return Filled(columns, begin, 0, None)
        scan = columns.scan(
            begin=0,
            end=length,
            physical_offset=begin,
            segment_end=self._log.segment_end(begin),
        )
        return Filled(columns, begin, length, scan)
