"""A timer with at most one outstanding call.

Many timers are set again by the function that they call. So one whose call failed calls again.
"""

import asyncio
from collections.abc import Callable

from wakelog.network.background import AGAIN_SECONDS
from wakelog.telemetry.logs import Log, logger


class Timer:
    """Calls a function later on the running loop."""

    __slots__ = ("_call", "_due_ms", "_handle", "is_running")

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._handle: asyncio.TimerHandle | None = None
        self._due_ms = 0
        self.is_running = False  # whether a call is outstanding; read only

    def start(self, seconds: float) -> None:
        """Call after `seconds`, unless a call is outstanding."""
        if not self.is_running:
            self.is_running = True
            self._handle = asyncio.get_running_loop().call_later(seconds, self._end)

    def restart(self, seconds: float) -> None:
        """Call after `seconds` instead of at the time that was set before."""
        self.cancel()
        self.start(seconds)

    def restart_at(self, due_ms: int | None, now_ms: int) -> None:
        """Call when the clock that shows `now_ms` shows `due_ms`; do not call if that is None."""
        self.cancel()
        if due_ms is not None:
            self.start(max(0, due_ms - now_ms) / 1000)

    def start_by(self, due_ms: int, now_ms: int) -> None:
        """Call when the clock shows `due_ms`, or before: a call that is due earlier stays.

        For a function that sets the timer again. It costs nothing while the time moves on.
        """
        if not self.is_running or due_ms < self._due_ms:
            self._due_ms = due_ms
            self.restart_at(due_ms, now_ms)

    def cancel(self) -> None:
        """Do not call."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self.is_running = False

    def _end(self) -> None:
        self._handle = None
        self.is_running = False
        try:
            self._call()
        except Exception as error:
            logger(Log.BROKER).error("timer failed", call=repr(self._call), exc_info=error)
            self.start(AGAIN_SECONDS)
