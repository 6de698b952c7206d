"""A thread that writes to the terminal or pipe, so that the loop never waits for it.

A terminal blocks at Ctrl-S, and a pipe when its reader pauses. With `--local` the broker runs on
the loop that prints, and the loop also handles signals, so it must not wait. Output waits in a
bounded queue. What does not fit is dropped; a reader that is gone is no error.
"""

import contextlib
import queue
import threading
from collections.abc import Callable

WAITING_MAX = 1_000
"""Lines of a reader that pauses for minutes; after that the newest are dropped."""

CLOSE_SECONDS_MAX = 2.0
"""How long the end of the process waits for the reader."""


class Printer:
    """Runs small pieces of work that write, in order, in a thread of its own."""

    def __init__(self) -> None:
        """Start the thread; it does not keep the process alive."""
        self._waiting: queue.Queue[Callable[[], None] | None] = queue.Queue(WAITING_MAX)
        self._thread = threading.Thread(target=self._run, name="printer", daemon=True)
        self._thread.start()
        self.dropped_count = 0

    def put(self, write: Callable[[], None]) -> None:
        """Have `write` called soon; return at once."""
        try:
            self._waiting.put_nowait(write)
        except queue.Full:
            self.dropped_count += 1

    def close(self) -> None:
        """Return once everything was written, or when the reader took too long."""
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=CLOSE_SECONDS_MAX)
            self._thread.join(CLOSE_SECONDS_MAX)

    def _run(self) -> None:
        while (write := self._waiting.get()) is not None:
            with contextlib.suppress(OSError):
                write()
