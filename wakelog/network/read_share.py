"""ReadShare: how much of what was read is decoded before others of the loop have their turn.

A chunk of 256 KiB has up to 3,000 small requests, which take some 5 ms. One loop turn reads every
connection once: 100 clients that sent 2,000 requests each at the same moment held up everybody for
0.3 s. So once chunks have taken ``SHARE_SECONDS``, further large ones are put off, and their
connections are not read. Those are decoded in turns, slice by slice, as much in each turn of the
loop. A small chunk is decoded at once: its client does not wait for those that send much.

The time of large chunks is summed up over turns, so that each costs two looks at the clock. Now and
then one is put off that need not have been, until the end of the same turn.

Invariants: the bytes of a connection are decoded in their order; a connection is in line exactly
while it has bytes that were put off.

Source: none upstream; there each of some threads has a share of the connections.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

SHARE_SECONDS: Final = 0.004
"""Twice a turn's budget for processing; a bulk of 64 messages of 1 KiB takes a tenth of it."""

SMALL_BYTES: Final = 4_096
"""Of a chunk that is decoded at once: 40 small requests, some 0.1 ms."""

SLICE_BYTES: Final = 16_384


class ReadsLater(Protocol):
    """A connection with bytes that were put off."""

    def read_slice(self) -> bool:
        """Decode one slice; False if it was the last."""
        ...


class ReadShare:
    """The share of one server.

    is_over: whether large chunks are to be put off.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], Any]) -> None:
        """Put off nothing yet; `call_soon` runs a function after the reads of this turn."""
        self._call_soon = call_soon
        self._line: deque[ReadsLater] = deque()
        self._spent_seconds = 0.0
        self._is_scheduled = False
        self.is_over = False

    def note_spent(self, seconds: float) -> None:
        """Count the time that a large chunk took."""
        self._spent_seconds += seconds
        if self._spent_seconds >= SHARE_SECONDS:
            self.is_over = True
            self._schedule()

    def put_off(self, connection: ReadsLater) -> None:
        """Let a connection that is not in line decode later."""
        self._line.append(connection)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_scheduled = self.is_over = False
        self._spent_seconds = 0.0
        while self._line and not self.is_over:
            connection = self._line.popleft()
            if connection.read_slice():
                self._line.append(connection)
        if self._line:
            self._schedule()
