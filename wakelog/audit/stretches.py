"""Reads and scans the log in parallel, in stretches, ahead of the dispatch in order.

Only the record before says where a record begins. The log is therefore cut into stretches of one
length. A stretch begins at the first sound record after its nominal begin. Workers read and scan
stretches independently. The dispatch consumes them in order, and accepts one only if it begins
where the last one ended. Bytes of a body may look like a record: then that stretch is read again
from its true begin.

    nominal      |0        |16 MiB       |32 MiB
    records      [    ][      ][    ][      ][    ]
    stretches    [                  ][            ]

A worker is a thread, or a task that ran before and left its stretches in files (`parts.py`).

Invariants:
- Stretches come in the log's order, without overlap. Their content does not depend on the number
  of workers.
- A lane belongs to one stretch at a time: to the worker that fills it, then to the dispatch.
  The lanes bound the memory.
- The limit does not grow while stretches are in flight: this is for logs that have an end.

Source: none upstream.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from wakelog.audit.workers import AT_ONCE
from wakelog.dispatchers.log_cursor import LogReader
from wakelog.dispatchers.read_ahead import Filled, Pending, Worker
from wakelog.storage.columns.scan_columns import SCAN_BUFFER_BYTES
from wakelog.storage.columns.window_columns import WindowColumns
from wakelog.storage.log.record_walk import next_sound

# Some milliseconds of work: the Python cost of a stretch is small beside it.
STRETCH_BYTES: Final = 16 << 20
# The search for a record's begin ends here: only a longer record can begin further on. Then the
# stretch is read in turn.
SEARCH_BYTES_MAX: Final = 256 << 10
_PIECE_BYTES: Final = 16 << 10


class StretchReader(NamedTuple):
    """The reader and the columns for one stretch."""

    log: LogReader
    columns: WindowColumns

    def fill(self, begin: int, end: int) -> Filled:
        """Fill the columns with the records of [begin, end), all in one segment."""
        scan = self.columns.scan_stretch(
            self.log.read_span_into, begin=begin, end=end, segment_end=self.log.segment_end(begin)
        )
        if self.columns.count:
            self.columns.groups()
        return Filled(self.columns, begin, 0 if scan is None else scan.next_position, scan)


class _Stretch(NamedTuple):
    lane: StretchReader
    work: Pending[Filled | None]


FillStretch = Callable[[StretchReader, int, int], Filled | None]
"""Fills a lane with the stretch at a nominal begin, below an end; see `fill_stretch`."""


def next_nominal(begin: int, stretch_bytes: int = STRETCH_BYTES) -> int:
    """Return the nominal begin of the stretch after the one that contains `begin`."""
    return begin - begin % stretch_bytes + stretch_bytes


def fill_stretch(
    lane: StretchReader,
    begin: int,
    end: int,
    *,
    stretch_bytes: int = STRETCH_BYTES,
    is_known: bool = False,
) -> Filled | None:
    """Fill a lane with the stretch at nominal `begin`; None if no record begins in it.

    end: of the segment, or of its readable part. is_known: a record begins at `begin` exactly.
    Raises: StoreFailed.
    """
    nominal_end = next_nominal(begin, stretch_bytes)
    first = begin if is_known else first_record(lane.log, begin, end)
    if first is None or first >= nominal_end:
        return None  # a record that begins after the stretch belongs to another one
    stop = end
    if nominal_end < end:
        stop = first_record(lane.log, nominal_end, end) or nominal_end
    return lane.fill(first, stop)


class Stretches:
    """See the module. One owner in one thread, beside the worker's threads."""

    def __init__(
        self,
        lanes: Sequence[StretchReader],
        worker: Worker,
        *,
        workers_count: int = 1,
        stretch_bytes: int = STRETCH_BYTES,
        load: FillStretch = lambda lane, begin, end: None,
    ) -> None:
        """Read nothing yet. `worker` runs `workers_count` pieces of work at once.

        load: returns a stretch that a task has scanned; None if there is none.
        """
        assert len(lanes) > 1
        self._worker = worker
        # Each worker has a next stretch queued, so that none is idle while one is filled here.
        self._sent_max = 2 * workers_count
        self._stretch_bytes = stretch_bytes
        self._load = load
        self._free = list(lanes)
        self._ahead: deque[_Stretch] = deque()
        self._ahead_end = 0
        self._given: StretchReader | None = None

    def fill(self, begin: int, end: int) -> Filled:
        """Return columns of some more of [begin, end), all in one segment.

        The columns are valid until the next call. Raises: StoreFailed.
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
            # At least one lane is free: the one that was returned last.
            lane = self._given = self._free.pop()
            far = min(end, begin + max(self._stretch_bytes, SCAN_BUFFER_BYTES))
            filled = lane.fill(begin, gap_end or far)
            if gap_end is not None and filled.columns.count == 0:
                filled = lane.fill(begin, far)  # the apparent begin lies inside a record
        self._send_more(end)
        return filled

    def cancel(self) -> None:
        """Wait for the stretches in flight and drop them; a later `fill` raises their errors."""
        while self._ahead:
            self._drop()

    def _take(self, begin: int, end: int) -> tuple[Filled | None, int | None]:
        """Return the stretch that begins at `begin`, else the begin of the next one, if any."""
        while self._ahead:
            lane, work = self._ahead[0]
            self._send_more(end)
            while not work.done() and self._has_room(end):
                self._send(self._ahead_end, end, is_known=False, worker=AT_ONCE)
                self._send_more(end)
            try:
                filled = work.result()
            except Exception:  # reading the same place in turn raises it again, in order
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
        with contextlib.suppress(Exception):  # the stretch is not needed any more
            work.result()
        self._free.append(lane)

    def _has_room(self, end: int) -> bool:
        # One lane stays free for records that lie before a stretch.
        return len(self._free) > 1 and bool(self._ahead) and self._ahead_end < end

    def _send_more(self, end: int) -> None:
        sent_count = sum(not stretch.work.done() for stretch in self._ahead)
        while sent_count < self._sent_max and self._has_room(end):
            self._send(self._ahead_end, end, is_known=False)
            sent_count += 1

    def _send(self, begin: int, end: int, *, is_known: bool, worker: Worker | None = None) -> None:
        """Submit the stretch at `begin`, a record's begin or a nominal one, to a worker."""
        lane = self._free.pop()
        self._ahead_end = next_nominal(begin, self._stretch_bytes)

        def work() -> Filled | None:
            loaded = self._load(lane, begin, end)
            if loaded is not None:
                return loaded
            return fill_stretch(
                lane, begin, end, stretch_bytes=self._stretch_bytes, is_known=is_known
            )

        self._ahead.append(_Stretch(lane, (worker or self._worker).submit(work)))


def first_record(log: LogReader, begin: int, end: int) -> int | None:
    """Return where the first sound record of [begin, end) begins; None if none is near.

    Raises: StoreFailed.
    """
    at = log.skip_zeros(begin)
    found = next_sound(
        log.read_span,
        at,
        min(end, at + SEARCH_BYTES_MAX),
        readable_end=end,
        segment_end=log.segment_end(begin),
        piece_bytes=_PIECE_BYTES,
    )
    return None if found is None else found[0]
