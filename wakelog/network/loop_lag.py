"""LoopLag: how late the event loop is, from a timer that says when it should have fired.

A request's wait begins when its bytes reached the kernel, which nobody sees. What can be seen is
that the loop was away: the timer is overdue. A read that happens while the timer is overdue, or
in the very iteration in which it fired late, may have waited as long as the timer did.

libuv runs timers before it reads sockets, asyncio's own loop after; hence both cases.

A timer wakes an idle process for nothing, so it is let go when nothing has been read for a while
(``is_wanted``) and set again by the next read, which an idle loop did not keep waiting.

Invariants:
    - ``behind_seconds`` is never negative and is 0 on a loop that is on time.
"""

import msgspec

PROBE_SECONDS = 0.05
"""A quarter of waitTimeMillsInSendQueue; 20 wake-ups a second cost 0.2 % of a core."""

QUIET_PROBES_MAX = 20
"""How many probes without a read are enough: a second."""


class LoopLagStatistics(msgspec.Struct, frozen=True):
    """How late the probe was: last, worst since the start, and sum over all probes."""

    last_seconds: float
    max_seconds: float
    sum_seconds: float
    probes_count: int


class LoopLag:
    """The arithmetic of the probe; ``Server`` owns the timer."""

    def __init__(self, now_seconds: float) -> None:
        """Expect the first probe one interval from now."""
        self.expect(now_seconds)
        self._fresh_seconds = 0.0
        self._last_seconds = 0.0
        self._max_seconds = 0.0
        self._sum_seconds = 0.0
        self._probes_count = 0
        self._quiet_probes_count = 0

    @property
    def is_wanted(self) -> bool:
        """Whether something was read lately, so that the timer is worth its wake-ups."""
        return self._quiet_probes_count < QUIET_PROBES_MAX

    def note_read(self) -> None:
        """Note that bytes were read."""
        self._quiet_probes_count = 0

    def expect(self, now_seconds: float) -> None:
        """Expect the next probe one interval from now."""
        self.due_seconds = now_seconds + PROBE_SECONDS

    def fire(self, now_seconds: float) -> None:
        """Note that the timer fired, and expect the next one an interval later."""
        late_seconds = max(0.0, now_seconds - self.due_seconds)
        self._fresh_seconds = late_seconds
        self._last_seconds = late_seconds
        self._max_seconds = max(self._max_seconds, late_seconds)
        self._sum_seconds += late_seconds
        self._probes_count += 1
        self._quiet_probes_count += 1
        self.expect(now_seconds)

    def settle(self) -> None:
        """Note that the iteration in which the timer fired is over: what is read now came later."""
        self._fresh_seconds = 0.0

    def behind_seconds(self, now_seconds: float) -> float:
        """Return how long bytes that are read now may have waited for the loop."""
        overdue_seconds = now_seconds - self.due_seconds
        return overdue_seconds if overdue_seconds > self._fresh_seconds else self._fresh_seconds

    def statistics(self) -> LoopLagStatistics:
        """Return the measurements as a value."""
        return LoopLagStatistics(
            last_seconds=self._last_seconds,
            max_seconds=self._max_seconds,
            sum_seconds=self._sum_seconds,
            probes_count=self._probes_count,
        )
