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

Neither is alone on its machine. Nothing is polled for a while if other programs need the
processor: they take more of the time of polls than `LOST_SHARE_MAX`. Nor is it after
`VAIN_COUNT_MAX` polls in a row that found nothing. Such a poll takes a processor that the other end
may need, and the thread sleeps nevertheless.

    turn                                                  after it
    without a response (one-way, held, in the pool)       sleep
    with responses to pulls only                          sleep
    with responses; the one before was followed closely   poll
    with responses; the next turn came later              sleep

Invariants:
- between two turns the loop polls for at most `poll_seconds`.
"""

import os
import time
from collections.abc import Callable
from typing import Any, Final

POLL_SECONDS: Final = 0.0003 if (os.cpu_count() or 1) > 1 else 0.0
"""One by one, a producer has its response, and a broker the next request, within 0.1 ms. In a
virtual machine, whose threads wake slowly, it is 0.2 to 0.3 ms.

None on a single processor: the other end needs it.
"""

LOST_SHARE_MAX: Final = 0.25
"""Of the time of polls, what other threads may take. Programs that fill all cores take half of it,
and the small ones that every machine has some hundredths."""

SPARE_SECONDS_MAX: Final = 0.003
"""How much more may be lost at once: about what a program that computes takes in one go."""

PAUSE_SECONDS_MIN: Final = 0.1
PAUSE_SECONDS_MAX: Final = 0.4
"""How long nothing is polled after such polls; twice as long if they go wrong again soon."""

VAIN_COUNT_MAX: Final = 8
"""Polls in a row that find nothing. One in two may: a wake-up takes as long as half a poll."""

NEAR_FACTOR = 3
"""A measured gap is longer than a poll would need: it includes the wake-up. Gaps also vary."""


class LostTime:
    """Says when polls are of no use: they lose the processor to others, or find nothing."""

    def __init__(self) -> None:
        """Nothing is lost yet."""
        self._spare_seconds = SPARE_SECONDS_MAX
        self._vain_count = 0
        self._pause_seconds = PAUSE_SECONDS_MIN
        self.pause_end_seconds = float("-inf")

    def note(
        self, polled_seconds: float, own_seconds: float, now_seconds: float, *, has_found: bool
    ) -> None:
        """Note a time of polls, and how much of it this thread had the processor.

        has_found: whether what it waited for came within this time.
        """
        spare_seconds = self._spare_seconds + polled_seconds * LOST_SHARE_MAX
        lost_seconds = polled_seconds - own_seconds
        self._spare_seconds = min(spare_seconds, SPARE_SECONDS_MAX) - lost_seconds
        self._vain_count = 0 if has_found else self._vain_count + 1
        if self._spare_seconds < 0 or self._vain_count >= VAIN_COUNT_MAX:
            self._spare_seconds, self._vain_count = SPARE_SECONDS_MAX, 0
            is_soon = now_seconds - self.pause_end_seconds < self._pause_seconds
            longer_seconds = min(2 * self._pause_seconds, PAUSE_SECONDS_MAX)
            self._pause_seconds = longer_seconds if is_soon else PAUSE_SECONDS_MIN
            self.pause_end_seconds = now_seconds + self._pause_seconds


class BusyPoll:
    """Decides after each turn whether the loop polls; with `poll_seconds` 0 it never does."""

    def __init__(
        self,
        poll_seconds: float,
        *,
        call_soon: Callable[[Callable[[], None]], Any],
        clock_seconds: Callable[[], float],
        cpu_seconds: Callable[[], float] = time.thread_time,
    ) -> None:
        """Poll nothing yet; `call_soon` runs a function after the next read of the sockets.

        cpu_seconds: this thread's own time.
        """
        self._poll_seconds = poll_seconds
        self._call_soon = call_soon
        self._clock_seconds = clock_seconds
        self._answered_seconds: float | None = None
        self._is_near = False
        self._poll_end_seconds = float("-inf")
        self._is_polling = False
        self._cpu_seconds = cpu_seconds
        self._lost_time = LostTime()
        self._began: tuple[float, float] | None = None  # the polls under way, with the own time

    def turn_ended(self, began_seconds: float, now_seconds: float, *, answered: bool) -> None:
        """Poll if the turn answered a client that probably sends its next request soon."""
        if self._answered_seconds is not None:
            gap_seconds = began_seconds - self._answered_seconds
            self._is_near = gap_seconds < NEAR_FACTOR * self._poll_seconds
        self._answered_seconds = now_seconds if answered else None
        if self._began is not None:
            self._end(now_seconds, has_found=True)
        is_paused = now_seconds < self._lost_time.pause_end_seconds
        if is_paused or not (answered and self._is_near):
            self._poll_end_seconds = now_seconds
            return
        self._poll_end_seconds = now_seconds + self._poll_seconds
        if not self._is_polling:
            self._is_polling = True
            self._call_soon(self._poll)
        self._began = now_seconds, self._cpu_seconds()

    def stop(self, now_seconds: float) -> None:
        """Poll no longer: what was waited for is there."""
        self._poll_end_seconds = now_seconds
        if self._began is not None:
            self._end(now_seconds, has_found=True)

    def _poll(self) -> None:
        now_seconds = self._clock_seconds()
        if now_seconds < self._poll_end_seconds:
            self._call_soon(self._poll)
            return
        self._is_polling = False
        if self._began is not None:
            self._end(now_seconds, has_found=False)

    def _end(self, now_seconds: float, *, has_found: bool) -> None:
        """Note how much of the polls since the last turn others took; a turn in it counts, too."""
        assert self._began is not None
        (began_seconds, own_seconds), self._began = self._began, None
        own_seconds = self._cpu_seconds() - own_seconds
        polled_seconds = now_seconds - began_seconds
        self._lost_time.note(polled_seconds, own_seconds, now_seconds, has_found=has_found)
