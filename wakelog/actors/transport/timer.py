"""A timer with at most one outstanding call."""

import asyncio
from collections.abc import Callable


class Timer:
    """Calls a function later on the running loop."""

    __slots__ = ("_call", "_handle", "is_running")

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._handle: asyncio.TimerHandle | None = None
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

    def cancel(self) -> None:
        """Do not call."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self.is_running = False

    def _end(self) -> None:
        self._handle = None
        self.is_running = False
        self._call()
