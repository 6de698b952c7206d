"""The wall clock of the shells, as the cores are told it."""

import time


def wall_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000
