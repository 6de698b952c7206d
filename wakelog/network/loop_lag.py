"""LoopLag: how late the event loop is, measured by a timer.

A request waits from the moment its bytes reach the kernel. No program can observe that. But a
timer shows that the loop was busy: it fires late. Bytes that are read while the timer is overdue,
or in the same iteration in which it fired late, may have waited as long as the timer did. libuv
runs timers before it reads sockets, asyncio's own loop after it: hence both cases.

A timer wakes an idle process. So it stops when nothing was read for a while (``is_probe_wanted``).
The next read starts it again, and an idle loop did not delay that read.

Invariants:
    - a measured wait is never negative, and is 0 on a loop that is on time.
"""

from collections.abc import Callable

import msgspec

PROBE_SECONDS = 0.05
"""A quarter of waitTimeMillsInSendQueue; 20 wake-ups a second cost 0.2 % of a core."""

QUIET_PROBES_MAX = 20
"""After so many probes without a read, that is a second, the timer stops."""


class LoopLagStatistics(msgspec.Struct, frozen=True):
    """How late the last probe was, and the worst one since the start."""

    last_seconds: float
    max_seconds: float


class LoopLag:
    """The arithmetic of the probe; ``Server`` owns the timer."""

    def __init__(self, start_probes: Callable[[], None]) -> None:
        """Measure nothing before the first read.

        start_probes: have ``on_probe`` called one interval from now, and again while
            ``is_probe_wanted``.
        """
        self.due_seconds = 0.0
        self._start_probes = start_probes
        self._fresh_seconds = 0.0
        self._last_seconds = 0.0
        self._max_seconds = 0.0
        self._quiet_probes_count = QUIET_PROBES_MAX

    @property
    def is_probe_wanted(self) -> bool:
        """Whether there was a read in the last second, so that the timer is worth its wake-ups."""
        return self._quiet_probes_count < QUIET_PROBES_MAX

    def expect_probe(self, now_seconds: float) -> None:
        """Expect the next probe one interval from now."""
        self.due_seconds = now_seconds + PROBE_SECONDS

    def on_probe(self, now_seconds: float) -> None:
        """Note that the timer fired, and expect the next one an interval later."""
        late_seconds = max(0.0, now_seconds - self.due_seconds)
        self._fresh_seconds = self._last_seconds = late_seconds
        self._max_seconds = max(self._max_seconds, late_seconds)
        self._quiet_probes_count += 1
        self.expect_probe(now_seconds)

    def end_iteration(self) -> None:
        """Note the end of the iteration in which the timer fired: later bytes arrived after it."""
        self._fresh_seconds = 0.0

    def on_read(self, now_seconds: float) -> float:
        """Note that bytes were read, and return how long they may have waited for the loop."""
        if self._quiet_probes_count >= QUIET_PROBES_MAX:
            self.expect_probe(now_seconds)
            self._start_probes()
        self._quiet_probes_count = 0
        overdue_seconds = now_seconds - self.due_seconds
        return overdue_seconds if overdue_seconds > self._fresh_seconds else self._fresh_seconds

    def statistics(self) -> LoopLagStatistics:
        """Return the measurements as a value."""
        return LoopLagStatistics(self._last_seconds, self._max_seconds)
