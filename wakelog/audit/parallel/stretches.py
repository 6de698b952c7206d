"""Reading and scanning the log in several threads, many stretches ahead of the dispatch.

Where a record begins only the one before it says. So the log is cut into stretches of one length,
and a stretch begins at the first place behind its nominal begin that looks like a record: a magic,
and behind it the offset at which it stands. Workers read and scan stretches apart; who dispatches
takes them in order, and takes one only if it begins where the last one ended. What looked like a
record and was none costs time: that stretch is read again from where it has to begin.

    nominal      |0        |16 MiB       |32 MiB
    records      [    ][      ][    ][      ][    ]
    stretches    [                  ][            ]

Invariants:
- Stretches are given out in the log's order, without overlap; what lies in them does not depend on
  how many workers there are.
- A lane belongs to one stretch at a time: to the worker that fills it, then to who dispatches it.
  Memory is that of the lanes.
- The limit does not grow while stretches are on their way: this is for logs that end somewhere.

Source: none upstream.
"""

from __future__ import annotations

import contextlib
import struct
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from wakelog.audit.parallel.turns import AT_ONCE
from wakelog.dispatchers.read_ahead import Filled, Pending, Worker
from wakelog.protocol.message_record import MAGIC_OFFSET, MESSAGE_MAGIC, PHYSICAL_OFFSET_OFFSET
from wakelog.storage.kernels.columns import SCAN_BUFFER_BYTES
from wakelog.storage.kernels.window_columns import WindowColumns

# Some milliseconds of work: what a stretch costs in Python is little beside it.
STRETCH_BYTES: Final = 16 << 20
# How far a record's begin is looked for: further only records lie that are longer. Then the
# stretch is read in turn.
LOOK_BYTES_MAX: Final = 256 << 10
_LOOK_BYTES: Final = 16 << 10

_MAGIC: Final = MESSAGE_MAGIC.to_bytes(4, "big", signed=True)
_OFFSET: Final = struct.Struct(">q")
_HEAD_BYTES: Final = PHYSICAL_OFFSET_OFFSET + _OFFSET.size


class SpanReader(Protocol):
    """What is needed of a log reader; each lane has one of its own."""

    def segment_end(self, physical_offset: int) -> int:
        """Return the offset behind the segment that `physical_offset` falls into."""
        ...

    def skip_zeros(self, physical_offset: int) -> int:
        """Return where a record may begin at or after an offset, or the segment's end."""
        ...

    def read_span(self, physical_offset: int, length_max: int) -> bytes:
        """Return up to `length_max` bytes, cut at the segment's end; empty if there are none."""
        ...

    def read_span_into(self, buffer: bytearray | memoryview, physical_offset: int) -> int:
        """Fill `buffer`, cut at the segment's end; return the count."""
        ...


class Lane(NamedTuple):
    """A reader and columns: what one stretch needs."""

    log: SpanReader
    columns: WindowColumns

    def fill(self, begin: int, end: int) -> Filled:
        """Fill the columns with what lies in [begin, end), all in one segment."""
        scan = self.columns.scan_stretch(
            self.log.read_span_into,
            begin=begin,
            end=end,
            segment_end=self.log.segment_end(begin),
        )
        if self.columns.count:
            self.columns.groups()
        return Filled(self.columns, begin, 0 if scan is None else scan.next_position, scan)


class _Stretch(NamedTuple):
    lane: Lane
    work: Pending[Filled | None]


class Stretches:
    """See the module. One owner, one thread, and the worker's threads."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        worker: Worker,
        *,
        workers_count: int = 1,
        stretch_bytes: int = STRETCH_BYTES,
    ) -> None:
        """Read nothing yet. `worker` does so many pieces of work at once."""
        assert len(lanes) > 1
        self._worker = worker
        # Each has a next one waiting: none is out of work while a stretch is filled here.
        self._sent_max = 2 * workers_count
        self._stretch_bytes = stretch_bytes
        self._free = list(lanes)
        self._ahead: deque[_Stretch] = deque()
        self._ahead_end = 0
        self._given: Lane | None = None

    def fill(self, begin: int, end: int) -> Filled:
        """Return columns of some more of [begin, end), all in one segment.

        They hold until the next call. Raises: StoreFailed.
        """
        if self._given is not None:
            self._free.append(self._given)
            self._given = None
        filled, gap_end = self._take(begin, end)
        if filled is None and gap_end is None:
            self._send(begin, end, is_known=True)
            self._send_more(end)
            filled, gap_end = self._take(begin, end)
        if filled is None:
            # At least one is free: the one that was given out last.
            lane = self._given = self._free.pop()
            far = min(end, begin + max(self._stretch_bytes, SCAN_BUFFER_BYTES))
            filled = lane.fill(begin, gap_end or far)
            if gap_end is not None and filled.columns.count == 0:
                filled = lane.fill(begin, far)  # what seemed to begin there lies in a record
        self._send_more(end)
        return filled

    def settle(self) -> None:
        """Wait for what is on its way and drop it; what it raised will be raised by a `fill`."""
        while self._ahead:
            self._drop()

    def _take(self, begin: int, end: int) -> tuple[Filled | None, int | None]:
        """Take the stretch that begins here; else return where the next one begins, if any does."""
        while self._ahead:
            lane, work = self._ahead[0]
            self._send_more(end)
            while not work.done() and self._has_room(end):
                self._send(self._ahead_end, end, is_known=False, worker=AT_ONCE)
                self._send_more(end)
            try:
                filled = work.result()
            except Exception:  # the same place, read in turn, raises it where it is wanted
                filled = None
            if filled is None or not begin <= filled.begin < end:
                self._drop()
                continue
            if filled.begin > begin:
                return None, filled.begin
            self._ahead.popleft()
            self._given = lane
            return filled, None
        return None, None

    def _drop(self) -> None:
        lane, work = self._ahead.popleft()
        with contextlib.suppress(Exception):  # of a stretch that nobody wants any more
            work.result()
        self._free.append(lane)

    def _has_room(self, end: int) -> bool:
        # One lane stays free, for what lies in front of a stretch if something does.
        return len(self._free) > 1 and bool(self._ahead) and self._ahead_end < end

    def _send_more(self, end: int) -> None:
        sent_count = sum(not stretch.work.done() for stretch in self._ahead)
        while sent_count < self._sent_max and self._has_room(end):
            self._send(self._ahead_end, end, is_known=False)
            sent_count += 1

    def _send(self, begin: int, end: int, *, is_known: bool, worker: Worker | None = None) -> None:
        """Have a worker fill the stretch at `begin`, a record's begin or a nominal one."""
        nominal_end = begin - begin % self._stretch_bytes + self._stretch_bytes
        lane = self._free.pop()
        self._ahead_end = nominal_end

        def work() -> Filled | None:
            first = begin if is_known else first_record(lane.log, begin, end)
            if first is None or first >= nominal_end:
                return None  # what begins behind the stretch is another's
            stop = end
            if nominal_end < end:
                stop = first_record(lane.log, nominal_end, end) or nominal_end
            return lane.fill(first, stop)

        self._ahead.append(_Stretch(lane, (worker or self._worker).submit(work)))


def first_record(log: SpanReader, begin: int, end: int) -> int | None:
    """Return the first place of [begin, end) that looks like a record's begin, None if none near.

    Raises: StoreFailed.
    """
    at = log.skip_zeros(begin)
    look_end = min(end, at + LOOK_BYTES_MAX)
    while at < look_end:
        data = log.read_span(at, min(_LOOK_BYTES, end - at))
        place = data.find(_MAGIC, MAGIC_OFFSET) - MAGIC_OFFSET
        while 0 <= place <= len(data) - _HEAD_BYTES:
            if _OFFSET.unpack_from(data, place + PHYSICAL_OFFSET_OFFSET)[0] == at + place:
                return at + place
            place = data.find(_MAGIC, place + MAGIC_OFFSET + 1) - MAGIC_OFFSET
        if len(data) < _HEAD_BYTES:
            return None
        at += len(data) - _HEAD_BYTES + 1
    return None
