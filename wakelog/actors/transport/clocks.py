"""The clocks that shells pass to the cores.

Times that are stored or sent to other machines come from the wall clock, which can be set at any
time. Periods and timeouts come from the steady clock.
"""

import time

_ahead_ms = 0


def advance(milliseconds: int) -> None:
    """Move both clocks of this process, for the tests of applications. No broker calls it."""
    global _ahead_ms
    _ahead_ms += milliseconds


def restore() -> None:
    """Show the machine's time again, for the tests of applications."""
    global _ahead_ms
    _ahead_ms = 0


def wall_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000 + _ahead_ms


def steady_ms() -> int:
    """Return milliseconds since the machine started, including the time it slept."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000 + _ahead_ms
