"""The wall clock of the shells, as the cores are told it."""

import time


def wall_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000


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


def steady_ms() -> int:
    """Return milliseconds of a clock that goes on and is never set."""
    return time.monotonic_ns() // 1_000_000
