"""A position in the log that moves over sound records, and the rules for everything else.

Reput has one for the built-in dispatchers, and each plug-in has its own. `read` returns the next
batch of sound records, and `passed` moves the cursor after it. A batch that could not be dispatched
is read again, because nothing has moved in between.

    at the cursor        what happens
    below the log        the cursor moves up to the log's first byte, counted
    a sound record       it is part of the batch
    the end of a file    the cursor goes on at the next segment
    a size mismatch      the record is passed over, if a record follows where its size points to
    anything else        the next sound record of the segment is searched; counted and listed

`skip_segment` (`compat.skip_segment`) replaces the last two rules with 4.9.3's. These trust a size
without a check. Anything else hides the readable rest of the segment from consumers for good.

Invariants:
- The cursor never passes the limit of `read`. It stands at a record, a segment's begin or the
  limit; during a search it stands at the next byte to search.
- One `read` searches a bounded number of bytes.
- The columns of a compiled scan are kept no longer than they are used.

Source: org.apache.rocketmq.store.DefaultMessageStore.ReputMessageService#doReput (4.9.3).
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import msgspec

from wakelog.compiled.columns import ScanFunctions
from wakelog.dispatchers.dispatcher import DispatchBatch
from wakelog.dispatchers.read_ahead import Ahead, ReadAhead, SpanReader, Worker
from wakelog.storage.columns.scan_columns import Columns
from wakelog.storage.log.record_check import CheckKind, RecordCheck
from wakelog.storage.log.record_walk import check_at, next_sound
from wakelog.storage.log.scan import scan_plain

# The compiled scan is used from this many readable bytes on. With some 10 records a step takes the
# same time both ways; with 32 of 250 bytes columns take half.
BULK_BYTES_MIN: Final = 8 << 10
# For one plain scan: some hundred records, about a millisecond.
PLAIN_BYTES_MAX: Final = 256 << 10
# For one step of the search for a sound record.
RESYNC_BYTES_MAX: Final = 512 << 10
BAD_STRETCHES_KEPT_MAX: Final = 100

COLUMNS_KEPT_MS: Final = 30_000
"""After a burst of small records the columns of both stretches have some 28 MiB."""


class LogReader(SpanReader, Protocol):
    """The part of `CommitLogReader` that a cursor needs."""

    @property
    def min_offset(self) -> int:
        """The first offset of the first segment seen so far."""
        ...

    def read_span(self, physical_offset: int, length_max: int) -> bytes:
        """Return up to `length_max` bytes, cut at the segment's end; empty if there are none."""
        ...

    def skip_zeros(self, physical_offset: int) -> int:
        """Return where a record may begin at or after an offset, or the segment's end."""
        ...

    def refresh(self) -> bool:
        """Read the directories again; return whether segments came or went."""
        ...


class BadStretch(NamedTuple):
    """Bytes [begin, end) of the log that were passed over, and the reason at `begin`."""

    begin: int
    end: int
    reason: str


class CursorStatistics(msgspec.Struct):
    """Counters of one cursor; `bad_stretches` are the last ones."""

    position: int = 0
    records_count: int = 0
    records_bytes: int = 0
    bulk_records_count: int = 0
    moved_up_count: int = 0
    moved_up_bytes: int = 0
    size_mismatches_count: int = 0
    bad_stretches_count: int = 0
    bad_bytes: int = 0
    bad_stretches: tuple[BadStretch, ...] = ()


class LogCursor:
    """See the module. One owner, one thread."""

    def __init__(
        self,
        log: LogReader,
        delays_ms: tuple[int, ...],
        *,
        functions: ScanFunctions | None = None,
        skip_segment: bool = False,
        worker: Worker | None = None,
        ahead: Callable[[ScanFunctions], Ahead] | None = None,
    ) -> None:
        """Stand at 0.

        delays_ms: `StoreConfig.delays_ms`.
        functions: of the compiled library; without them records are read as values.
        worker: reads and scans the next stretch while one is dispatched; see `read_ahead.py`.
        ahead: makes the `Ahead` for compiled scans, instead of a `ReadAhead`.
        """
        self.position = 0
        self._log = log
        self._delays_ms = delays_ms
        self._functions = functions
        self._skip_segment = skip_segment
        self._make_ahead = ahead or (
            lambda functions: ReadAhead(log, lambda: Columns(functions, delays_ms), worker)
        )
        self._ahead: Ahead | None = None
        self._filled_ms = 0
        self._bad: BadStretch | None = None
        self._bad_stretches: deque[BadStretch] = deque(maxlen=BAD_STRETCHES_KEPT_MAX)
        self._counters = CursorStatistics()

    def move_to(self, position: int, log_end: int) -> None:
        """Move to `position`, or to the log's begin if that is higher, counted.

        If no record begins at `position`, the cursor moves back to the segment's begin. Another
        broker may have cut and continued the log, so that the position lies inside a record.
        """
        self.cancel_read_ahead()
        self.position = position
        self._bad = None
        self._log.refresh()
        self._move_up()
        segment_end = self._log.segment_end(self.position)
        end = min(segment_end, log_end)
        if self.position < end and not self._record_at(self.position, end, segment_end):
            size = self._log.segment_end(segment_end) - segment_end
            self.position = segment_end - size

    def read(self, limit: int, now_ms: int) -> DispatchBatch | None:
        """Return the next sound records below `limit`, None if there are none.

        The cursor passes over anything else at once, but moves after the batch only in `passed`. An
        empty batch means that something was passed over: read again.
        """
        if self._ahead is not None and now_ms - self._filled_ms > COLUMNS_KEPT_MS:
            self.cancel_read_ahead()
            self._ahead = None
        self._move_up()
        if self.position >= limit:
            return None
        segment_end = self._log.segment_end(self.position)
        end = min(segment_end, limit)
        if self._bad is not None:
            return self._find_record(end, segment_end, now_ms)
        if end - self.position >= BULK_BYTES_MIN:
            if self._ahead is None and self._functions is not None:
                self._ahead = self._make_ahead(self._functions)
            if self._ahead is not None:
                self._filled_ms = now_ms
                return self._read_columns(self._ahead, end, segment_end, limit, now_ms)
        return self._read_plain(PLAIN_BYTES_MAX, end, segment_end, limit, now_ms)

    def passed(self, batch: DispatchBatch) -> None:
        """Move after a batch that every dispatcher has consumed."""
        assert batch.begin == self.position <= batch.end
        self.position = batch.end
        self._counters.records_count += len(batch)
        self._counters.records_bytes += batch.end - batch.begin
        if batch.columns is not None:
            self._counters.bulk_records_count += len(batch)

    @property
    def last_bad_stretch(self) -> BadStretch | None:
        """The last stretch that was passed over."""
        return self._bad_stretches[-1] if self._bad_stretches else None

    def statistics(self) -> CursorStatistics:
        """Return a copy of the counters."""
        return msgspec.structs.replace(
            self._counters, position=self.position, bad_stretches=tuple(self._bad_stretches)
        )

    def _move_up(self) -> None:
        begin = self._log.min_offset
        if self.position < begin:
            self._counters.moved_up_count += 1
            self._counters.moved_up_bytes += begin - self.position
            self.position = begin
            self._bad = None

    def cancel_read_ahead(self) -> None:
        """Wait for the stretch that is read ahead, and drop it, to free the log's reader."""
        if self._ahead is not None:
            self._ahead.cancel()

    def _read_columns(
        self, ahead: Ahead, end: int, segment_end: int, limit: int, now_ms: int
    ) -> DispatchBatch | None:
        begin = self.position
        columns, _, _, scan = ahead.fill(begin, end)
        if scan is None:
            return self._nothing_there(now_ms)
        if columns.count == 0:
            assert scan.stopped_by is not None
            if scan.stopped_by.kind is CheckKind.INCOMPLETE:
                # A record larger than the buffer.
                return self._read_plain(PLAIN_BYTES_MAX, end, segment_end, limit, now_ms)
            return self._pass_over(scan.stopped_by, end, segment_end, limit, now_ms)
        batch_end = begin + scan.next_position
        return DispatchBatch(
            begin, batch_end, now_ms, columns=columns, caught_up=batch_end >= limit
        )

    def _read_plain(
        self, length_max: int, end: int, segment_end: int, limit: int, now_ms: int
    ) -> DispatchBatch | None:
        begin = self.position
        data = self._log.read_span(begin, min(length_max, end - begin))
        if not data:
            return self._nothing_there(now_ms)
        scan = scan_plain(data, begin, segment_end, self._delays_ms)
        if scan.requests:
            batch_end = scan.next_physical_offset
            return DispatchBatch(
                begin, batch_end, now_ms, requests=scan.requests, caught_up=batch_end >= limit
            )
        assert scan.stopped_by is not None
        check = scan.stopped_by
        if check.kind is CheckKind.INCOMPLETE and begin + len(data) < end:
            # Its size fits the segment: read as much, or the head first if that was cut off.
            needed = max(check.size_bytes, 2 * len(data))
            return self._read_plain(needed, end, segment_end, limit, now_ms)
        return self._pass_over(check, end, segment_end, limit, now_ms)

    def _nothing_there(self, now_ms: int) -> DispatchBatch | None:
        # The segment was removed meanwhile, or does not exist yet.
        self._log.refresh()
        if self.position < self._log.min_offset:
            self._move_up()
            return self._no_record(now_ms)
        return None

    def _no_record(self, now_ms: int) -> DispatchBatch:
        return DispatchBatch(self.position, self.position, now_ms, requests=[])

    def _pass_over(
        self, check: RecordCheck, end: int, segment_end: int, limit: int, now_ms: int
    ) -> DispatchBatch | None:
        """Apply the module's table to anything that is no sound record."""
        if check.kind is CheckKind.END_OF_FILE:
            if segment_end > limit:
                return None  # the log goes on after the blank, above the limit
            self.position = segment_end
            return self._no_record(now_ms)
        if check.kind is CheckKind.SIZE_MISMATCH:
            self._counters.size_mismatches_count += 1
            next_position = self.position + check.size_bytes
            if next_position <= end and (
                self._skip_segment or self._record_at(next_position, end, segment_end)
            ):
                self.position = next_position
                return self._no_record(now_ms)
        reason = check.reason
        if check.kind is CheckKind.INCOMPLETE:
            reason = f"size {check.size_bytes} with {end - self.position} bytes readable"
        self._counters.bad_stretches_count += 1
        self._bad = BadStretch(self.position, self.position, reason)
        self.position = end if self._skip_segment else self.position + 1
        if self.position >= end:
            self._end_bad_stretch()
        return self._no_record(now_ms)

    def _record_at(self, position: int, end: int, segment_end: int) -> bool:
        """Return whether a record or a blank begins here, or what is readable ends here."""
        if position == end:
            return True
        check = check_at(self._log.read_span, position, end, segment_end=segment_end)
        return check.kind in (CheckKind.SOUND, CheckKind.END_OF_FILE)

    def _find_record(self, end: int, segment_end: int, now_ms: int) -> DispatchBatch | None:
        """Search a bounded number of bytes for the next sound record of the segment."""
        # A segment's unwritten part takes no time, however long it is.
        self.position = min(self._log.skip_zeros(self.position), end)
        if self.position < end and not self._log.read_span(self.position, 1):
            return self._nothing_there(now_ms)
        search_end = min(self.position + RESYNC_BYTES_MAX, end)
        found = next_sound(
            self._log.read_span,
            self.position,
            search_end,
            readable_end=end,
            segment_end=segment_end,
        )
        self.position = search_end if found is None else found[0]
        if found is not None or search_end == end:
            self._end_bad_stretch()
        return self._no_record(now_ms)

    def _end_bad_stretch(self) -> None:
        assert self._bad is not None
        stretch = self._bad._replace(end=self.position)
        self._bad_stretches.append(stretch)
        self._counters.bad_bytes += stretch.end - stretch.begin
        self._bad = None
