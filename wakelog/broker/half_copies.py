"""Which half messages of the queue are copies of earlier ones: they were put back by the check.

    EarlierCopies   by unique key: what was put back before the Broker's start. The offsets may be
                    older than the copies, and then only the last copy may be asked about
    RenewedCopies   by the offset that a copy names: what was put back for a time of its own
                    (CHECK_IMMUNITY_TIME_IN_SECONDS). The producer ends the message that it has
                    sent. So an op message of a passed half message is kept while a copy names it

Both read the queue in steps. EarlierCopies has a window of half messages and searches the whole
queue for their copies. So its memory is bounded, and no copy is missed however far behind it is.

Invariant of EarlierCopies: below `known_end` each copy is known.
Invariant of RenewedCopies: an offset that an unpassed half message names `is_named`. Other offsets
may be named as well, at most until the next round but one.
"""

from typing import Final

from wakelog.broker.half_queue import HalfMessage, ReadHalves, next_page
from wakelog.protocol.java import LONG_MAX

COPIES_WINDOW: Final = 200_000  # half messages whose copies are known at a time, some 60 MB
COPIES_READ_MAX: Final = 20_000  # half messages for one call, some 0.8 s
RENEWED_READ_MAX: Final = 20_000  # for one call, some 0.8 s
RENEWED_MAX: Final = 200_000  # about 25 MB


class EarlierCopies:
    """Which half messages were put back before the Broker's start, and are in the queue again.

    Kept for as long as the Broker runs.
    """

    def __init__(self) -> None:
        """Know nothing."""
        self._last: dict[tuple[str, int], int] = {}  # by key and birth: the last copy's offset
        self._begin = self._end = 0  # the window
        self._next = 0  # what is to be read next, for copies of what is in the window
        self.known_end = 0

    def begin_call(self, half_offset: int, copies_end: int, read_halves: ReadHalves) -> None:
        """Read the next part of the queue, until the copies of what comes next are known.

        half_offset: the first half message that is not passed.
        copies_end: the end of the half queue when the Broker started.
        """
        if half_offset >= copies_end:
            self._last.clear()
            self.known_end = LONG_MAX
            return
        if not self._begin <= half_offset < self._end:
            self._last.clear()
            self._begin = self._next = self.known_end = half_offset
            self._end = min(copies_end, half_offset + COPIES_WINDOW)
        if self._read_next(copies_end, read_halves):
            self.known_end = LONG_MAX if self._end == copies_end else self._end

    def _read_next(self, copies_end: int, read_halves: ReadHalves) -> bool:
        """Read at most COPIES_READ_MAX half messages; return whether there are no more."""
        stop = min(copies_end, self._next + COPIES_READ_MAX)
        while self._next < stop:
            page = next_page(read_halves, self._next)
            for half in page.messages:
                if half.queue_offset < copies_end:
                    self._note(half)
            if page.next_offset <= self._next:
                self._next = copies_end  # the queue ends before
                break
            self._next = page.next_offset
        return self._next >= copies_end

    def _note(self, half: HalfMessage) -> None:
        key = _key(half)
        if key in self._last:
            if half.check_times is not None:
                self._last[key] = half.queue_offset
        elif half.unique_key and half.queue_offset < self._end:
            self._last[key] = half.queue_offset

    def has_copy(self, half: HalfMessage) -> bool:
        """Return whether a half message below `known_end` was put back."""
        return self._last.get(_key(half), -1) > half.queue_offset


def _key(half: HalfMessage) -> tuple[str, int]:
    """Return what a half message and its copies have in common."""
    return half.unique_key or "", half.born_timestamp_ms


class RenewedCopies:
    """Which offsets the unpassed half messages name as the one they were first at.

    The queue is read for them once, and later only what is new, and only while there are copies.
    """

    def __init__(self) -> None:
        """Know nothing: every offset is named until the queue was read to its end."""
        self._named: dict[int, int] = {}  # by the named offset: the last copy's
        self._put_back: set[int] = set()  # named by what this round has put back
        self._begin = self._end = 0  # what was read
        self._is_complete = False
        self._round_ms: int | None = None

    def begin_call(self, half_offset: int, started_ms: int, read_halves: ReadHalves) -> None:
        """Read what is new in the queue, at the begin of a round or where reading has stopped.

        half_offset: the first half message that is not passed.
        started_ms: when the round began.
        """
        if started_ms != self._round_ms:
            self._round_ms = started_ms
            if half_offset < self._begin:
                self._named.clear()
                self._end = half_offset
                self._is_complete = False
            elif self._put_back or self._named:
                self._is_complete = False
            self._put_back.clear()
            self._begin = half_offset
            self._named = {of: copy for of, copy in self._named.items() if copy >= half_offset}
        if not self._is_complete:
            self._read_new(half_offset, read_halves)

    def _read_new(self, half_offset: int, read_halves: ReadHalves) -> None:
        offset = begin = max(self._end, half_offset)
        while offset - begin < RENEWED_READ_MAX and len(self._named) < RENEWED_MAX:
            page = next_page(read_halves, offset)
            for half in page.messages:
                if half.first_offset is not None:
                    self._named[half.first_offset] = half.queue_offset
            if page.next_offset <= offset:
                self._is_complete = True
                break
            offset = page.next_offset
        self._end = offset

    def add_put_back(self, half: HalfMessage) -> None:
        """Note that a half message is to be put back under the offset that it was first at."""
        first = half.first_offset
        self._put_back.add(half.queue_offset if first is None else first)

    def is_named(self, half_offset: int) -> bool:
        """Return whether a half message that is not passed may name this one."""
        return not self._is_complete or half_offset in self._named or half_offset in self._put_back
