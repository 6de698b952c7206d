"""FreeMemory: gives the memory of a past peak back to the system.

The C library keeps what was freed between blocks that are still used. After many peers that did not
read their responses, that was four times what the broker had before. A check comes each
``CHECK_SECONDS`` in every process of a broker. It returns memory if the process has a tenth more
than at its least, and is not growing. Where the C library has no ``malloc_trim``, nothing is done.
"""

import asyncio
import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Final

from wakelog.actors.transport.timer import Timer

CHECK_SECONDS: Final = 15.0
"""The check after a peak may still see growth, so that the memory is back after twice as long."""

GROWN_BYTES_MIN: Final = 4 * 1024 * 1024
RISING_BYTES_MIN: Final = 1024 * 1024
PAGE_BYTES: Final = 4_096


class FreeMemory:
    """When to return memory; checks come from `begin` to `end`."""

    def __init__(self, resident_bytes: Callable[[], int], trim: Callable[[], None]) -> None:
        """Start with what the process has now.

        trim: returns free memory to the system; takes some 10 ms for each GB, in a thread.
        """
        self._resident_bytes = resident_bytes
        self._trim = trim
        self._least_bytes = self._last_bytes = resident_bytes()
        self._timer = Timer(self._check)
        self.returned_count = 0

    def begin(self) -> None:
        """Check by time from now on; a loop must be running."""
        self._timer.start(CHECK_SECONDS)

    def end(self) -> None:
        """Check no more."""
        self._timer.cancel()

    def is_due(self) -> bool:
        """Note what the process has, and return whether to return memory now."""
        found_bytes = self._resident_bytes()
        is_rising = found_bytes > self._last_bytes + RISING_BYTES_MIN
        self._last_bytes = found_bytes
        self._least_bytes = min(self._least_bytes, found_bytes)
        return not is_rising and found_bytes > self._least_bytes * 11 // 10 + GROWN_BYTES_MIN

    def give_back(self) -> None:
        """Return memory; for any thread."""
        self._trim()
        self._last_bytes = self._resident_bytes()
        self.returned_count += 1

    def _check(self) -> None:
        if self.is_due():
            asyncio.get_running_loop().run_in_executor(None, self.give_back)
        self._timer.start(CHECK_SECONDS)


def free_memory() -> FreeMemory:
    """Return that of this process."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return FreeMemory(_resident_bytes, (lambda: None) if trim is None else lambda: trim(0))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
