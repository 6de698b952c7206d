"""BusyPoll: keeps the loop awake for a moment behind a turn, while turns follow each other closely.

A producer that sends one message after the other is back within a tenth of a millisecond. To put
the thread to sleep and wake it again costs as much as the request itself, and its caches besides.
So behind a turn the loop looks at its sockets again and again, without sleeping, for
`poll_seconds`; but only if that turn began within `NEAR_FACTOR` such times of the one before.
Requests that come now and then find the loop asleep, at no cost.

    gap before this turn         behind this turn
    below NEAR_FACTOR polls      poll
    longer                       sleep

Invariants:
- between two turns no more than `poll_seconds` are polled.
"""

from collections.abc import Callable
from typing import Any

NEAR_FACTOR = 3
"""A gap that was slept through has the wake in it, which is what a poll saves; and one gap in
a few is longer than the others."""


class BusyPoll:
    """Decides behind each turn; `poll_seconds` 0 never polls."""

    __slots__ = ("_call_soon", "_clock_seconds", "_ended", "_near_seconds", "_polling", "_until")

    def __init__(
        self,
        poll_seconds: float,
        *,
        call_soon: Callable[[Callable[[], None]], Any],
        clock_seconds: Callable[[], float],
    ) -> None:
        """Poll nothing yet; `call_soon` runs a function behind the next look at the sockets."""
        self._near_seconds = NEAR_FACTOR * poll_seconds
        self._call_soon = call_soon
        self._clock_seconds = clock_seconds
        self._ended = self._until = float("-inf")
        self._polling = False

    def turn_ended(self, began_seconds: float, now_seconds: float) -> None:
        """Poll if the turn that ends now began closely behind the one before."""
        gap_seconds = began_seconds - self._ended
        self._ended = now_seconds
        if gap_seconds >= self._near_seconds:
            self._until = now_seconds
            return
        self._until = now_seconds + self._near_seconds / NEAR_FACTOR
        if not self._polling:
            self._polling = True
            self._call_soon(self._poll)

    def _poll(self) -> None:
        if self._clock_seconds() < self._until:
            self._call_soon(self._poll)
        else:
            self._polling = False
