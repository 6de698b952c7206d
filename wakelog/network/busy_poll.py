"""BusyPoll: keeps the loop awake for a moment after a response, while requests are close together.

A producer that waits for each response sends its next request within a tenth of a millisecond.
Putting the thread to sleep and waking it costs as much as the request, and the thread loses its
caches. So after a turn with responses the loop polls its sockets without sleeping, for
`poll_seconds`. It does so only if the turn before was followed by the next one within
`NEAR_FACTOR * poll_seconds`. Requests at long intervals find the loop asleep, at no cost. Pulls do
not count: their consumer first processes the messages, and the thread that reads the disk needs the
core.

A client that has one request under way waits in the same way: each request that it sends is to it
what a turn is to a server.

    turn                                                  after it
    without a response (one-way, held, in the pool)       sleep
    with responses to pulls only                          sleep
    with responses; the one before was followed closely   poll
    with responses; the next turn came later              sleep

Invariants:
- between two turns the loop polls for at most `poll_seconds`.
"""

import os
import resource
import sys
from collections.abc import Callable
from typing import Any, Final

POLL_SECONDS: Final = 0.00015 if (os.cpu_count() or 1) > 1 else 0.0
"""One by one, a producer has its response, and a broker the next request, within 0.1 ms.

None on a single processor: the other end needs it.
"""

PREEMPTED_SECONDS: Final = 0.1
"""How long a client does not poll after it has lost its processor to another thread."""

NEAR_FACTOR = 3
"""A measured gap is longer than a poll would need: it includes the wake-up. Gaps also vary."""


def count_preempted() -> int:
    """Return how often this thread has lost its processor while it had work; 0 without Linux."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw if sys.platform == "linux" else 0


class BusyPoll:
    """Decides after each turn whether the loop polls; with `poll_seconds` 0 it never does."""

    def __init__(
        self,
        poll_seconds: float,
        *,
        call_soon: Callable[[Callable[[], None]], Any],
        clock_seconds: Callable[[], float],
    ) -> None:
        """Poll nothing yet; `call_soon` runs a function after the next read of the sockets."""
        self._poll_seconds = poll_seconds
        self._call_soon = call_soon
        self._clock_seconds = clock_seconds
        self._answered_seconds: float | None = None
        self._is_near = False
        self._poll_end_seconds = float("-inf")
        self._is_polling = False

    def turn_ended(self, began_seconds: float, now_seconds: float, *, answered: bool) -> None:
        """Poll if the turn answered a client that probably sends its next request soon."""
        if self._answered_seconds is not None:
            gap_seconds = began_seconds - self._answered_seconds
            self._is_near = gap_seconds < NEAR_FACTOR * self._poll_seconds
        self._answered_seconds = now_seconds if answered else None
        if not (answered and self._is_near):
            self._poll_end_seconds = now_seconds
            return
        self._poll_end_seconds = now_seconds + self._poll_seconds
        if not self._is_polling:
            self._is_polling = True
            self._call_soon(self._poll)

    def stop(self, now_seconds: float) -> None:
        """Poll no longer: what was waited for is there."""
        self._poll_end_seconds = now_seconds

    def _poll(self) -> None:
        if self._clock_seconds() < self._poll_end_seconds:
            self._call_soon(self._poll)
        else:
            self._is_polling = False
