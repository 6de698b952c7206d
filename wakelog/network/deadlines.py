"""Deadlines: which calls have waited long enough, with one timer for all of them.

A timer of the loop for each call costs more than its response takes to decode. So the calls are in
a table, and the client's one timer is for the earliest deadline that it was set for. Most calls
end long before; when it goes off, it is set for the earliest of those that are left.

    add       a call waits; the timer has to go off at its deadline at the latest
    remove    the call ended
    expire    end the calls whose time is over; the return value says when to come again

Invariants:
    - no call ends before its deadline, and none later than `SWEEP_SECONDS_MIN` behind it while the
      loop turns.
    - no clock: `now_seconds` is the loop's time.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingAbstract#scanResponseTable (4.9.3), which
sweeps every second.
"""

from typing import Final

from wakelog.network.errors import CallTimeout
from wakelog.network.peer import Waiter

SWEEP_SECONDS_MIN: Final = 0.01
"""Between two sweeps of the table: 65,535 calls that end one by one must not take a sweep each."""

NEVER: Final = float("inf")


class Deadlines:
    """See the module. One thread."""

    def __init__(self) -> None:
        """No call waits."""
        self._waits: dict[Waiter, tuple[float, str, int]] = {}

    def __len__(self) -> int:
        """How many calls wait."""
        return len(self._waits)

    def add(self, waiter: Waiter, deadline_seconds: float, address: str, timeout_ms: int) -> None:
        """Add a call."""
        self._waits[waiter] = deadline_seconds, address, timeout_ms

    def remove(self, waiter: Waiter) -> None:
        """Forget a call that ended."""
        self._waits.pop(waiter, None)

    def expire(self, now_seconds: float) -> float:
        """End the calls whose time is over by CallTimeout, and return when to come again."""
        next_seconds = NEVER
        for waiter, (deadline_seconds, address, timeout_ms) in self._waits.items():
            if deadline_seconds > now_seconds:
                next_seconds = min(next_seconds, deadline_seconds)
            elif not waiter.done():
                waiter.set_exception(CallTimeout.after(address, timeout_ms))
        return max(next_seconds, now_seconds + SWEEP_SECONDS_MIN)
