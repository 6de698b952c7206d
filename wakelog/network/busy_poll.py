"""BusyPoll: keeps the loop awake for a moment behind an answer, while requests follow closely.

A producer that sends one message after the other is back within a tenth of a millisecond. To put
the thread to sleep and wake it again costs as much as the request itself, and its caches besides.
So behind a turn that answered somebody the loop looks at its sockets again and again, without
sleeping, for `poll_seconds`; but only if the last answer before was followed as closely, within
`NEAR_FACTOR` such times. Requests that come now and then find the loop asleep, at no cost. Whoever
pulled looks at the messages first, and the thread that reads the disk for others needs the core.

    turn                                              behind it
    without an answer (one-way, held, in the pool)    sleep
    that answered pulls only                          sleep
    with one; the one before was followed closely     poll
    with one; the next turn came later                sleep

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

    __slots__ = (
        "_answered",
        "_call_soon",
        "_clock_seconds",
        "_is_near",
        "_poll_seconds",
        "_polling",
        "_until",
    )

    def __init__(
        self,
        poll_seconds: float,
        *,
        call_soon: Callable[[Callable[[], None]], Any],
        clock_seconds: Callable[[], float],
    ) -> None:
        """Poll nothing yet; `call_soon` runs a function behind the next look at the sockets."""
        self._poll_seconds = poll_seconds
        self._call_soon = call_soon
        self._clock_seconds = clock_seconds
        self._answered: float | None = None
        self._is_near = False
        self._until = float("-inf")
        self._polling = False

    def turn_ended(self, began_seconds: float, now_seconds: float, *, answered: bool) -> None:
        """Poll if somebody was answered who is likely to be back soon."""
        if self._answered is not None:
            gap_seconds = began_seconds - self._answered
            self._is_near = gap_seconds < NEAR_FACTOR * self._poll_seconds
        self._answered = now_seconds if answered else None
        if not (answered and self._is_near):
            self._until = now_seconds
            return
        self._until = now_seconds + self._poll_seconds
        if not self._polling:
            self._polling = True
            self._call_soon(self._poll)

    def _poll(self) -> None:
        if self._clock_seconds() < self._until:
            self._call_soon(self._poll)
        else:
            self._polling = False
