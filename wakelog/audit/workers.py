"""Workers for verify and rebuild: threads, or the caller's own thread.

threads()  a pool of threads that read and scan
InTurn     runs the work when its result is requested: for a single core
AT_ONCE    runs the work now: for a caller that would only wait for other workers
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, TypeVar

from wakelog.dispatchers.read_ahead import Worker

T = TypeVar("T")

WORKERS_COUNT: Final = min(4, max(1, (os.cpu_count() or 1) - 1))
"""Threads beside the one that dispatches. That one keeps pace with about four, and scans as well
when it would have to wait."""


@contextlib.contextmanager
def threads() -> Iterator[Worker]:
    """Provide WORKERS_COUNT threads; a rebuild may freeze the garbage collector meanwhile."""
    was_frozen = gc.get_freeze_count() > 0
    try:
        with ThreadPoolExecutor(WORKERS_COUNT, thread_name_prefix="read-ahead") as pool:
            yield pool
    finally:
        if not was_frozen:
            gc.unfreeze()


class InTurn:
    """Begins no work before its result is requested."""

    def submit(self, work: Callable[[], T], /) -> Later[T]:
        """Keep the work for later."""
        return Later(work)


class Later(Generic[T]):
    """Work that runs once, when its result is requested."""

    __slots__ = ("_results", "_work")

    def __init__(self, work: Callable[[], T]) -> None:
        """Do nothing yet."""
        self._work = work
        self._results: list[T] = []

    def done(self) -> bool:
        """Return True: there is no other thread to wait for."""
        return True

    def result(self) -> T:
        """Run the work unless it ran; return its result or raise its error."""
        if not self._results:
            self._results.append(self._work())
        return self._results[0]


class AtOnce:
    """Runs each piece of work in the caller's thread."""

    def submit(self, work: Callable[[], T], /) -> Later[T]:
        """Run the work; `result` raises its error again."""
        later = Later(work)
        with contextlib.suppress(Exception):
            later.result()
        return later


AT_ONCE: Final = AtOnce()
