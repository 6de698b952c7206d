"""Workers for verify and rebuild: threads, or the caller's own thread.

threads()  a pool of threads that read and scan
AT_ONCE    runs the work now, in the caller's thread: for a caller that would only wait
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from wakelog.dispatchers.read_ahead import Worker

T = TypeVar("T")

WORKERS_COUNT: Final = min(4, max(1, (os.cpu_count() or 1) - 1))
"""Threads beside the one that dispatches. That one keeps pace with about four, and scans as well
when it would have to wait."""


@contextlib.contextmanager
def threads() -> Iterator[Worker]:
    """Provide WORKERS_COUNT threads."""
    with ThreadPoolExecutor(WORKERS_COUNT, thread_name_prefix="read-ahead") as pool:
        yield pool


class _CallerThread:
    def submit(self, work: Callable[[], T], /) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(work())
        except Exception as error:  # `result` raises it again
            future.set_exception(error)
        return future


AT_ONCE: Final = _CallerThread()
"""Runs each piece of work in the caller's thread, when it is submitted."""
