"""Signals that ask for an ordered stop, heard from the first moment of the process to its last.

The handlers are installed before the slow imports: a signal that comes while nothing runs yet is
remembered. SIGINT may have been inherited as ignored (a shell starts background jobs so); we hear
it all the same. SIGHUP, the end of a terminal, is a stop too, unless nohup has it ignored.

Imports little, because it is imported first.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


class StopSignals:
    """Counts the signals that ask for a stop and wakes who waits for the first."""

    def __init__(self) -> None:
        """Hear nothing yet."""
        self.count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event: asyncio.Event | None = None
        self._on_repeat: Callable[[], None] = lambda: None

    def install(self) -> None:
        """Take over the signals; for the main thread."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._handle)

    def attach(self, on_repeat: Callable[[], None]) -> None:
        """Tell the running loop from now on; `on_repeat` hears of each signal but the first."""
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._on_repeat = on_repeat
        if self.count:
            self._event.set()

    async def wait(self) -> None:
        """Return once a stop was asked for, at once if that was long ago."""
        assert self._event is not None, "attach comes first"
        await self._event.wait()

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        # Runs between any two instructions of the main thread, so it touches nothing but this.
        self.count += 1
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: the process is ending
                self._loop.call_soon_threadsafe(self._tell, self.count)

    def _tell(self, count: int) -> None:
        assert self._event is not None
        if count == 1:
            self._event.set()
        else:
            self._on_repeat()
