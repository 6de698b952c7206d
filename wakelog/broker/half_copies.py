"""Which half messages of the queue are copies of earlier ones: they were put back by the check.

    find_copies     by unique key: what was put back before the Broker's start. The offsets may be
                    older than the copies, and then only the last copy may be asked about
    RenewedCopies   by the offset that a copy names: what was put back for a time of its own
                    (CHECK_IMMUNITY_TIME_IN_SECONDS). The producer ends the message that it has
                    sent. So an op message of a passed half message is kept while a copy names it

Invariant of RenewedCopies: an offset that an unpassed half message names `is_named`. Other offsets
may be named as well, at most until the next round but one.
"""

from collections.abc import Mapping
from typing import Final

from wakelog.broker.half_queue import HalfMessage, ReadHalves, read_on

COPIES_READ_MAX: Final = 100_000  # half messages that are read for copies, some 4 s
RENEWED_READ_MAX: Final = 20_000  # for one call, some 0.8 s
RENEWED_MAX: Final = 200_000  # about 25 MB

Copies = Mapping[tuple[str, int], int]
"""Of what was put back, by unique key and birth: the queue offset of the last copy."""


def find_copies(half_offset: int, copies_end: int, read_halves: ReadHalves) -> Copies:
    """Return what was put back from the half offset up to `copies_end`.

    At most COPIES_READ_MAX half messages are read; a copy behind them is not known.
    """
    found: dict[tuple[str, int], int] = {}
    offset = half_offset
    end = min(copies_end, offset + COPIES_READ_MAX)
    while offset < end:
        page = read_on(read_halves, offset)
        for half in page.messages:
            if half.unique_key and half.check_times is not None and half.queue_offset < end:
                found[half.unique_key, half.born_timestamp_ms] = half.queue_offset
        if page.next_offset <= offset:
            break
        offset = page.next_offset
    return found


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
            page = read_on(read_halves, offset)
            for half in page.messages:
                if half.first_offset is not None:
                    self._named[half.first_offset] = half.queue_offset
            if page.next_offset <= offset:
                self._is_complete = True
                break
            offset = page.next_offset
        self._end = offset

    def note_put_back(self, half: HalfMessage) -> None:
        """Note that a half message is to be put back under the offset that it was first at."""
        first = half.first_offset
        self._put_back.add(half.queue_offset if first is None else first)

    def is_named(self, half_offset: int) -> bool:
        """Return whether a half message that is not passed may name this one."""
        return not self._is_complete or half_offset in self._named or half_offset in self._put_back
