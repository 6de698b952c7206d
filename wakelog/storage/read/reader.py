"""Serve pulls: messages of one queue from a queue offset on, with 4.9.3's status for every case.

A get reads consume queue entries and chooses by them which records to send. If the filter needs the
records' contents it reads those too. `frames.py` then reads the chosen records from the log. The
library in C chooses where there is no filter but one by tags. If one read brings the records, it
checks and copies them too: nothing is made for a message.

With `blocking=False`, for an event loop, no call waits for the disk. The result is None where one
would have to; the caller then repeats the get in a thread.

Invariants:
- No record that ends above `LogView.dispatched` is sent, and no bytes that are not the entry's
  record.
- A get never crosses a consume queue file, even if the next one exists (fact 34).
- `next_begin_offset` is after every entry that was read, except the one that a full batch left.
- Only matching records fill a batch; what a filter leaves out takes no place.

Source: org.apache.rocketmq.store.DefaultMessageStore.getMessage, isTheBatchFull,
checkInDiskByCommitOffset, nextOffsetCorrection (4.9.3).
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec

from wakelog.compiled.library import CHOICE, Library
from wakelog.storage.config import BrokerRole, StoreConfig
from wakelog.storage.errors import LacksVerdicts
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.queue.consume_queue import ColdEntry
from wakelog.storage.queue.consume_queue_ext import is_extension_address
from wakelog.storage.queue.entries import ENTRY
from wakelog.storage.read.batch_limits import (
    LARGE_READS_MAX,
    LOOP_SCAN_COUNT_MAX,
    BatchLimits,
    limits_by_bytes,
    limits_large,
)
from wakelog.storage.read.frames import Absent, Mismatched, Place, read_frames
from wakelog.storage.read.readable import ReadableQueue, ReadableQueues
from wakelog.storage.read.recent import RecentQueue
from wakelog.storage.read.stretches import choose_stretches, join_stretches

MatchUnit = Callable[[int, bytes], bool]
MatchRecord = Callable[[bytes], bool]
Verdicts = Mapping[int, bool]
"""Whether the record at a physical offset passes the filter."""

# One get reads at least this many entries, whatever its count is (fact 31).
SCAN_COUNT_MIN: Final = 16_000 // ENTRY.size
CODES_COUNT_MAX: Final = 32
"""A pull by more tags chooses one entry after the other."""
# On an event loop: reading one and matching its properties takes about 10 us. One of more than
# a KiB counts as one for each.
LOOP_MATCHED_COUNT_MAX: Final = 100
_COUNTED_BYTES: Final = 1_024
# Filtered together: at most so many records and bytes, at least one record.
TOGETHER_COUNT_MAX: Final = 64
TOGETHER_BYTES_MAX: Final = 262_144

_library: Library | None = CHOICE.library


class GetStatus(Enum):
    """How a get ended, by the names of 4.9.3."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class GetResult(msgspec.Struct, frozen=True):
    """What a get found and where the next one begins.

    frames: records as they lie in the log, in queue order; joined they are the body of the pull
        response. Those read together share one element: there can be fewer frames than messages.
    last_physical_offset: of the last message, -1 without any.
    suggest_slave: the last entry read lies further below the log's end than 40 % of memory.
    fall_behind_bytes: the same distance in bytes, 0 when no entry was read.
    """

    status: GetStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    frames: tuple[bytes, ...] = ()
    count: int = 0
    size_bytes: int = 0
    last_physical_offset: int = -1
    suggest_slave: bool = False
    fall_behind_bytes: int = 0


class LogView(NamedTuple):
    """The log's positions, taken once so that they are the same for a whole get."""

    min_physical_offset: int
    max_physical_offset: int
    dispatched: int


class GetRequest(NamedTuple):
    """Which messages of one queue to get, from `queue_offset` on.

    codes: the 64-bit tags codes of entries that pass; None lets every entry pass.
    blocking: False never waits for the disk; the result is then None if it would have to.
    match_record: called with each record of such an entry; None reads only what is sent.
    match_unit: called with store time and bitmap of an entry's extension unit; None lets every
        entry pass. An entry without a unit passes.
    by_bytes: `count_max` and the configured bytes end the batch, not the configured counts.
    verdicts: in the place of `match_record`, what is known of records. `LacksVerdicts` has others:
        filter them, and get again with their verdicts, too. Only with `blocking`.
    recent: entries that go on where the queue's files end; from `MessageStore.recent`.
    is_large: with `by_bytes`, have several times the configured bytes where that is cheap.
    """

    topic: str
    queue_id: int
    queue_offset: int
    count_max: int
    codes: frozenset[int] | None = None
    blocking: bool = True
    match_record: MatchRecord | None = None
    match_unit: MatchUnit | None = None
    by_bytes: bool = False
    verdicts: Verdicts | None = None
    recent: RecentQueue | None = None
    is_large: bool = False


class _Selection(NamedTuple):
    """Which records a get sends, and how many entries it read.

    places: where to read them; () if they were read together.
    last_sent, last_seen: physical offsets of the last record and the last entry, -1 without any.
    """

    status: GetStatus
    places: Sequence[Place]
    sent_count: int
    size_bytes: int
    scanned_count: int
    last_sent: int
    last_seen: int


class Reader:
    """Gets from one store. One thread at a time: each thread of a pool has a reader of its own."""

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLogReader,
        queues: ReadableQueues,
        *,
        memory_bytes: int,
        damaged: Sequence[range] = (),
    ) -> None:
        """Keep what to read from; nothing is read yet.

        memory_bytes: how far below the log's end a message counts as being in memory.
        damaged: stretches of the log without sound records; entries that point there are skipped.
        """
        self._log = log
        self._queues = queues
        self._damaged = damaged
        self._file_entries = config.consume_queue_bytes // ENTRY.size
        self._limits = BatchLimits(config, memory_bytes)
        self._limits_by_bytes = limits_by_bytes(config, memory_bytes)
        self._limits_large = limits_large(config, memory_bytes)
        self._corrects = config.broker_role is not BrokerRole.SLAVE or config.offset_check_in_slave

    def get(self, request: GetRequest, view: LogView) -> GetResult | None:
        """Read messages; None if that needs the disk and may not wait.

        Raises: LacksVerdicts, StoreFailed.
        """
        try:
            return self._get(request, view)
        except ColdEntry:
            return None

    def _get(self, request: GetRequest, view: LogView) -> GetResult | None:
        blocking = request.blocking
        queue = self._queues.find(
            request.topic, request.queue_id, view.dispatched, blocking=blocking
        )
        offset = request.queue_offset
        begin, end, recent = self._bounds(queue, request, view)
        if recent is not request.recent:
            request = request._replace(recent=recent)
        if not begin <= offset < end:
            return self._outside(offset, begin, end)
        mismatched: frozenset[int] = frozenset()
        while True:
            data = self._entries(queue, request, end, view)
            if data is None:
                return None
            found = None if mismatched else self._chosen(data, request, view)
            selection, frames = found or (
                # In Python a record costs more: a large batch is as small as any other.
                self._select(queue, request._replace(is_large=False), view, mismatched, data),
                None,
            )
            if frames is not None:
                break
            if selection.scanned_count == 0:
                next_file = offset + self._file_entries - offset % self._file_entries
                return self._empty(
                    GetStatus.OFFSET_FOUND_NULL, offset, next_file, begin=begin, end=end
                )
            log_end = view.max_physical_offset
            read = read_frames(self._log, selection.places, log_end, blocking=blocking)
            if read is None:
                return None
            if isinstance(read, Mismatched):
                mismatched |= read.physical_offsets
                continue
            if not isinstance(read, Absent):
                frames = read
                break
            # Retention removed the segment after the view was taken: its records are gone.
            gone_below = self._log.segment_end(read.physical_offset)
            view = view._replace(min_physical_offset=gone_below)
        behind_bytes = view.max_physical_offset - selection.last_seen
        return GetResult(
            selection.status,
            offset + selection.scanned_count,
            begin,
            end,
            tuple(frames),
            selection.sent_count,
            selection.size_bytes,
            selection.last_sent,
            behind_bytes > self._limits.memory_bytes,
            behind_bytes,
        )

    def _bounds(
        self, queue: ReadableQueue | None, request: GetRequest, view: LogView
    ) -> tuple[int, int, RecentQueue | None]:
        """Return the first queue offset, the one after the last, and the entries to read.

        The entries are None where those of the files are to be read. Raises: ColdEntry.
        """
        recent, blocking, offset = request.recent, request.blocking, request.queue_offset
        end = 0 if queue is None else queue.end(view.dispatched, blocking=blocking)
        if recent is not None and (0 <= offset < end or recent.begin > max(offset, 0)):
            recent = None  # the files have it, or it is in neither of them yet
        begin = 0 if recent is None else recent.begin
        if queue is not None and end:
            begin = queue.begin(view.min_physical_offset, view.dispatched, blocking=blocking)
        return begin, end if recent is None else max(end, recent.end), recent

    def _select(
        self,
        queue: ReadableQueue | None,
        request: GetRequest,
        view: LogView,
        mismatched: frozenset[int],
        data: bytes,
    ) -> _Selection:
        """Choose records by their entries.

        mismatched: places that turned out not to have their entry's record.
        """
        checks = _matches(request) or self._damaged or mismatched
        if not checks and not _filters(request):
            front = self._front(data, request, view)
            if front is not None:
                return front
        may_pass = partial(_passes, queue, request=request)
        record_filter = (
            _RecordFilter(self._log, self._damaged, mismatched, request, may_pass, data)
            if checks
            else None
        )
        return self._select_each(queue, request, view, data, record_filter)

    def _select_each(
        self,
        queue: ReadableQueue | None,
        request: GetRequest,
        view: LogView,
        data: bytes,
        record_filter: "_RecordFilter | None",
    ) -> _Selection:
        """Choose records, one entry after the other."""
        count_max, max_physical_offset = request.count_max, view.max_physical_offset
        filters = _filters(request)
        is_full = self._batch_limits(request).is_full
        status = GetStatus.NO_MATCHED_MESSAGE
        places: list[Place] = []
        scanned = total_bytes = 0
        skip_below = -1
        physical_offset = 0
        for physical_offset, size_bytes, tags_code in ENTRY.iter_unpack(data):
            if physical_offset < skip_below:
                scanned += 1
                continue
            count = len(places)
            behind_bytes = max_physical_offset - physical_offset
            if count and (
                count >= count_max or is_full(count, total_bytes, size_bytes, behind_bytes)
            ):
                break
            scanned += 1
            if filters and not _passes(queue, tags_code, request):
                status = status if places else GetStatus.NO_MATCHED_MESSAGE
                continue
            if physical_offset < view.min_physical_offset:
                status = status if places else GetStatus.MESSAGE_WAS_REMOVING
                # The other entries of a removed segment are skipped unread (fact 35).
                skip_below = self._log.segment_end(physical_offset)
                continue
            if record_filter is not None:
                refusal = record_filter.refusal(physical_offset, size_bytes)
                if refusal is not None:
                    status = status if places else refusal
                    skip_below = record_filter.skip_below
                    continue
            places.append((physical_offset, size_bytes))
            total_bytes += size_bytes
            status = GetStatus.FOUND
        last_sent = places[-1][0] if places else -1
        return _Selection(
            status, places, len(places), total_bytes, scanned, last_sent, physical_offset
        )

    def _batch_limits(self, request: GetRequest) -> BatchLimits:
        if request.is_large:
            return self._limits_large
        return self._limits_by_bytes if request.by_bytes else self._limits

    def _front(self, data: bytes, request: GetRequest, view: LogView) -> _Selection | None:
        """Choose at once, up to a count or to bytes, if all is in memory; else None."""
        entries = [(physical_offset, size) for physical_offset, size, _ in ENTRY.iter_unpack(data)]
        lowest = min(entries)[0] if entries else -1
        in_memory = view.max_physical_offset - lowest <= self._limits.memory_bytes
        if lowest < view.min_physical_offset or not in_memory:
            return None
        bytes_max, memory_count_max = self._batch_limits(request).memory
        places = entries[: max(1, min(request.count_max, memory_count_max))]
        totals = list(accumulate([size for _, size in places]))
        if max(totals) > bytes_max:  # a damaged size may be negative
            full = next((i for i, total in enumerate(totals) if i and total > bytes_max), None)
            places = places[:full]
        count, size_bytes, last_sent = len(places), totals[len(places) - 1], places[-1][0]
        last_seen = entries[: count + 1][-1][0]
        return _Selection(GetStatus.FOUND, places, count, size_bytes, count, last_sent, last_seen)

    def _chosen(
        self, data: bytes, request: GetRequest, view: LogView
    ) -> tuple[_Selection, list[bytes] | None] | None:
        """Choose as `_front` and `_select_each` do, and read sound records of the common kind.

        None where that is for Python. The records are None where `read_frames` reads them.
        """
        library = _library
        if library is None or self._damaged or _matches(request) or request.match_unit is not None:
            return None
        if request.codes is None:
            return self._stretches(library, data, request, view)
        if len(request.codes) > CODES_COUNT_MAX:
            return None
        entries = bytearray(len(data))
        count, scanned, size_bytes, last_sent, last_seen = library.filter_entries(
            data, array("q", request.codes), *self._in_memory(request, view), entries
        )
        if not scanned:
            return None
        status = GetStatus.FOUND if count else GetStatus.NO_MATCHED_MESSAGE
        del entries[count * ENTRY.size :]
        selection = _Selection(status, (), count, size_bytes, scanned, last_sent, last_seen)
        found = self._stretches(library, entries, request, view) if count else None
        if found is not None and found[0].sent_count == count:
            return selection, found[1]
        if request.is_large:
            return None
        places = [
            (physical_offset, size) for physical_offset, size, _ in ENTRY.iter_unpack(entries)
        ]
        return selection._replace(places=places), None

    def _in_memory(self, request: GetRequest, view: LogView) -> tuple[int, int, int, int]:
        """Return count, bytes, and the part of the log for a batch of records in memory."""
        limits, log_end = self._batch_limits(request), view.max_physical_offset
        bytes_max, count_max = limits.memory
        begin = max(view.min_physical_offset, log_end - limits.memory_bytes, 0)
        return max(1, min(request.count_max, count_max)), bytes_max, begin, log_end

    def _stretches(
        self, library: Library, entries: bytes | bytearray, request: GetRequest, view: LogView
    ) -> tuple[_Selection, list[bytes]] | None:
        """Choose and read as `_front` and `read_frames` do; None if that is for Python.

        A large batch ends after `LARGE_READS_MAX` reads.
        """
        reads_max = LARGE_READS_MAX if request.is_large else len(entries)
        limits = self._in_memory(request, view)
        found = choose_stretches(library, entries, limits, self._log.file_bytes, reads_max)
        if not found:
            return None
        joined = join_stretches(library, self._log, found, blocking=request.blocking)
        if joined is None:
            return None
        count = sum(each.records_count for each in found)
        size_bytes = sum(each.size_bytes for each in found)
        last_entry = min(count * ENTRY.size, len(entries) - ENTRY.size)
        last_seen, _, _ = ENTRY.unpack_from(entries, last_entry)
        last_sent = found[-1].last_sent
        selection = _Selection(GetStatus.FOUND, (), count, size_bytes, count, last_sent, last_seen)
        return selection, [joined]

    def _entries(
        self, queue: ReadableQueue | None, request: GetRequest, end: int, view: LogView
    ) -> bytes | None:
        """Read the entries that one get may use; b"" if no file has them."""
        offset = request.queue_offset
        count = min(end - offset, max(SCAN_COUNT_MIN, request.count_max))
        if request.recent is not None:
            return request.recent.cut(offset, count)
        assert queue is not None
        filters = _filters(request)
        reads_units = filters and queue.extension is not None
        if not request.blocking and (count > LOOP_SCAN_COUNT_MAX or reads_units):
            return None
        few = count
        if not filters and not _matches(request):
            # Every entry takes a place, and one more is read: the one that a full batch leaves.
            limit = self._batch_limits(request).count_max()
            few = min(count, max(request.count_max, 1) + 1, limit + 1)
        data = queue.entries(offset, few, blocking=request.blocking)
        if data and few < count and ENTRY.unpack_from(data)[0] < view.min_physical_offset:
            return queue.entries(offset, count, blocking=request.blocking)
        return data

    def _outside(self, offset: int, begin: int, end: int) -> GetResult:
        """Return the result of a get that begins before or after all that may be read."""
        if end == 0:
            return self._empty(GetStatus.NO_MESSAGE_IN_QUEUE, offset, 0, begin=0, end=0)
        if offset < begin:
            return self._empty(GetStatus.OFFSET_TOO_SMALL, offset, begin, begin=begin, end=end)
        is_far = offset > end
        one, badly = GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.OFFSET_OVERFLOW_BADLY
        corrected = 0 if is_far and begin == 0 else end
        return self._empty(badly if is_far else one, offset, corrected, begin=begin, end=end)

    def _empty(
        self, status: GetStatus, offset: int, corrected: int, *, begin: int, end: int
    ) -> GetResult:
        """Return a result without messages; a slave returns the requested offset."""
        return GetResult(status, corrected if self._corrects else offset, begin, end)


class _RecordFilter:
    """Refuses records for reasons that their entries do not show: damage, and their contents.

    skip_below: after a refusal entries below are skipped; -1 if none are.
    """

    __slots__ = (
        "_blocking",
        "_damaged",
        "_data",
        "_left",
        "_log",
        "_match",
        "_may_pass",
        "_mismatched",
        "_verdicts",
        "skip_below",
    )

    def __init__(
        self,
        log: CommitLogReader,
        damaged: Sequence[range],
        mismatched: frozenset[int],
        request: GetRequest,
        may_pass: Callable[[int], bool],
        data: bytes,
    ) -> None:
        """Judge by the request.

        may_pass: whether an entry with this tags code is not refused by itself.
        data: the entries, of which records are read ahead that have no verdict yet.
        """
        self.skip_below = -1
        self._mismatched = mismatched
        self._log = log
        self._damaged = damaged
        self._match = request.match_record
        self._verdicts = request.verdicts
        self._blocking = request.blocking
        self._left = LOOP_MATCHED_COUNT_MAX
        self._may_pass = may_pass
        self._data = data

    def refusal(self, physical_offset: int, size_bytes: int) -> GetStatus | None:
        """Return the status of a get that found only this record, None to send it.

        Raises: ColdEntry, LacksVerdicts.
        """
        if self._is_damaged(physical_offset):
            return GetStatus.NO_MATCHED_MESSAGE
        if self._verdicts is not None:
            verdict = self._verdicts.get(physical_offset)
            if verdict is not None:
                return _status(passes=verdict)
            records = self._read_ahead(physical_offset)
            if physical_offset not in records:
                return self._removed(physical_offset)
            raise LacksVerdicts(records)
        if self._match is None:
            return None
        if not self._blocking:
            if self._left <= 0:
                raise ColdEntry
            self._left -= 1 + size_bytes // _COUNTED_BYTES
        record = self._log.view(physical_offset, size_bytes, blocking=self._blocking)
        if record is not None:
            return _status(passes=self._match(bytes(record)))
        if not self._blocking:
            raise ColdEntry  # without waiting, absent and not cached are the same
        return self._removed(physical_offset)

    def _is_damaged(self, physical_offset: int) -> bool:
        return physical_offset in self._mismatched or any(
            physical_offset in stretch for stretch in self._damaged
        )

    def _removed(self, physical_offset: int) -> GetStatus:
        self.skip_below = self._log.segment_end(physical_offset)
        return GetStatus.MESSAGE_WAS_REMOVING

    def _read_ahead(self, first_offset: int) -> dict[int, bytes]:
        """Return a record, and those of the next entries that may pass; without absent ones."""
        records: dict[int, bytes] = {}
        left_count, left_bytes = TOGETHER_COUNT_MAX, TOGETHER_BYTES_MAX
        is_ahead = False
        for physical_offset, size_bytes, tags_code in ENTRY.iter_unpack(self._data):
            is_ahead = is_ahead or physical_offset == first_offset
            if not is_ahead or self._is_damaged(physical_offset) or not self._may_pass(tags_code):
                continue
            record = self._log.view(physical_offset, size_bytes, blocking=True)
            if record is not None:
                records[physical_offset] = bytes(record)
            left_count -= 1
            left_bytes -= size_bytes
            if not left_count or left_bytes <= 0:
                break
        return records


def _filters(request: GetRequest) -> bool:
    return request.codes is not None or request.match_unit is not None


def _matches(request: GetRequest) -> bool:
    return request.match_record is not None or request.verdicts is not None


def _status(*, passes: bool) -> GetStatus | None:
    return None if passes else GetStatus.NO_MATCHED_MESSAGE


def _passes(queue: ReadableQueue | None, tags_code: int, request: GetRequest) -> bool:
    """Apply the filters, with the extension unit's tags code where the entry points to one."""
    unit = None
    if is_extension_address(tags_code):
        if queue is not None and queue.extension is not None:
            unit = queue.extension.unit(tags_code)
        if unit is None:
            # Without the unit the client checks the message's tags or properties itself.
            return True
        tags_code = unit.tags_code
    if request.codes is not None and tags_code not in request.codes:
        return False
    if unit is None or request.match_unit is None:
        return True
    return request.match_unit(unit.store_timestamp_ms, unit.bitmap)
