"""The clocks of the shells, as the cores are told them.

What is written down or crosses to others is of the wall clock, which may be set at any time. What
happens so often, or so long after something, is of the steady one.
"""

import time


def wall_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Return milliseconds since the machine started, those in which it slept among them."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class SteadyClock:
    """The wall clock as it is when this is made, which from then on nobody sets.

    For times that only whoever made it compares: a step of the system's clock ends nothing.
    """

    def __init__(self) -> None:
        """Read both clocks."""
        self._ahead_ms = wall_ms() - steady_ms()

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        return self._ahead_ms + steady_ms()
