"""The clocks of a client.

What is sent or shown is the wall clock's, which can be set at any time. What is waited for, and
what has taken how long, is the steady clock's, which is never set (docs/adr/0012).
"""

import time
from typing import Final

_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""It counts the time in which a machine slept: a broker does not wait for it with its locks."""


def wall_ms() -> int:
    """Return the time as messages have it."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Return milliseconds that only grow."""
    return time.clock_gettime_ns(_STEADY) // 1_000_000
