"""FreeMemory: gives the memory of a past peak back to the system.

The C library keeps what was freed between blocks that are still used. After many peers that did not
read their responses, that was four times what the broker had before. A check comes each
``CHECK_SECONDS`` in every process of a broker. It returns memory if the process has a tenth more
than at its least, and is not growing.

``malloc_trim`` leaves what is free behind the last block of a thread, and the broker's loop is in
such a thread. So the C library is told how much of that it may keep. A C library without these
functions is left as it is.

Python keeps some thousand dead tuples, numbers and lists for the next ones. Those of a peak lie
among its pages, and one of them keeps a MiB. Only a full collection lets go of them. So a return
after memory has grown or shrunk comes with one that visits no object.

Source: malloc_trim(3), mallopt(3) of the GNU C library; clear_freelists of CPython's
Modules/gcmodule.c.
"""

import asyncio
import ctypes
import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from wakelog.actors.transport.timer import Timer

CHECK_SECONDS: Final = 15.0
"""The check after a peak may still see growth, so that the memory is back after twice as long."""

GROWN_BYTES_MIN: Final = 4 * 1024 * 1024
RISING_BYTES_MIN: Final = 1024 * 1024
PAGE_BYTES: Final = 4_096

LAST_FREE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of one thread: a broker has fifteen. By default it becomes twice the largest block that was ever
freed, up to 64 MiB: after one request of 16 MiB a thread may keep 32 MiB for good.

Four large pulls (`batch_limits.py`) fit in. With a quarter of it each gave its MiB back and got it
page by page again, which was 40 % of a broker's CPU for them. So it was with a batch of 1,000
messages of 1 KiB, its frame and its records: a third."""

MAPPED_BYTES_MIN: Final = 4 * 1024 * 1024
"""A block of so many bytes has pages of its own. By default this grows, too, up to 32 MiB. The
largest message is such a block; all others are made and freed without a call of the system."""

VISITED_MAX: Final = 100_000
"""Objects that a collection may visit beside requests: some 25 ms."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_... of malloc.h


class FreeMemory:
    """When to return memory; checks come from `begin` to `end`."""

    def __init__(
        self,
        resident_bytes: Callable[[], int],
        trim: Callable[[], None],
        bound_threads: Callable[[], None] = lambda: None,
        clear_free_lists: Callable[[], None] = lambda: None,
    ) -> None:
        """Start with what the process has now.

        trim: returns free memory to the system; takes some 10 ms for each GB, in a thread.
        bound_threads: limits what each thread keeps, for the rest of the process.
        clear_free_lists: frees the dead objects that Python keeps.
        """
        self._resident_bytes = resident_bytes
        self._trim = trim
        self._bound_threads = bound_threads
        self._clear_free_lists = clear_free_lists
        self._cleared_bytes = 0
        self._least_bytes = self._last_bytes = resident_bytes()
        self._timer = Timer(self._check)
        self.returned_count = 0

    def begin(self) -> None:
        """Check by time from now on; a loop must be running."""
        self._bound_threads()
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
        clears = abs(self._last_bytes - self._cleared_bytes) > GROWN_BYTES_MIN
        if clears:
            self._clear_free_lists()
        self._trim()
        self._last_bytes = self._resident_bytes()
        if clears:
            self._cleared_bytes = self._last_bytes
        self.returned_count += 1

    def _check(self) -> None:
        if self.is_due():
            asyncio.get_running_loop().run_in_executor(None, self.give_back)
        self._timer.start(CHECK_SECONDS)


def free_memory() -> FreeMemory:
    """Return that of this process."""
    library = ctypes.CDLL(None)
    trim = getattr(library, "malloc_trim", None)
    return FreeMemory(
        _resident_bytes,
        (lambda: None) if trim is None else lambda: trim(0),
        partial(_bound_threads, library),
        clear_free_lists,
    )


def clear_free_lists() -> None:
    """Free the dead objects that Python keeps for the next ones; takes some 2 ms.

    A full collection does it. With all objects frozen it visits none. What a process has frozen for
    good stays frozen: there the collection visits the others, which came later, unless there are
    too many.
    """
    gc.collect(1)
    if gc.get_freeze_count():
        if len(gc.get_objects()) <= VISITED_MAX:
            gc.collect()
        return
    gc.freeze()
    try:
        gc.collect()
    finally:
        gc.unfreeze()


def _bound_threads(library: ctypes.CDLL) -> None:
    if (set_option := getattr(library, "mallopt", None)) is not None:
        set_option(_TRIM_THRESHOLD, LAST_FREE_BYTES_MAX)
        set_option(_MMAP_THRESHOLD, MAPPED_BYTES_MIN)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
