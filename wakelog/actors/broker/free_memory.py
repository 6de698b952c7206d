"""FreeMemory: gives the memory of a past peak back to the system.

The C library keeps what was freed between blocks that are still used. After many peers that did not
read their responses, that was four times what the broker had before. A check comes each
``CHECK_SECONDS``. It returns memory if the process has a tenth more than at its least, and is not
growing. Where the C library has no ``malloc_trim``, nothing is done.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Final

CHECK_SECONDS: Final = 30.0
GROWN_BYTES_MIN: Final = 4 * 1024 * 1024
PAGE_BYTES: Final = 4_096


class FreeMemory:
    """When to return memory; `check` may run on any thread, one at a time."""

    def __init__(self, resident_bytes: Callable[[], int], trim: Callable[[], None]) -> None:
        """Start with what the process has now.

        trim: returns free memory to the system; takes some 10 ms for each GB.
        """
        self._resident_bytes = resident_bytes
        self._trim = trim
        self._least_bytes = self._last_bytes = resident_bytes()

    def check(self) -> bool:
        """Return memory if it is due, and whether it was."""
        found_bytes = self._resident_bytes()
        is_rising = found_bytes > self._last_bytes
        self._last_bytes = found_bytes
        self._least_bytes = min(self._least_bytes, found_bytes)
        if is_rising or found_bytes <= self._least_bytes * 11 // 10 + GROWN_BYTES_MIN:
            return False
        self._trim()
        self._last_bytes = self._resident_bytes()
        return True


def free_memory() -> FreeMemory:
    """Return that of this process."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return FreeMemory(_resident_bytes, (lambda: None) if trim is None else lambda: trim(0))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
