"""LoopThread: a thread with an event loop of its own, for a service that has sockets.

A service is called in the loop of its actor's process, or in a thread without a loop when all
services are objects of one process. With a loop of its own it works the same in both, and a call
that waits for it holds up no socket.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from wakelog.network.background import log_failure, start_thread
from wakelog.telemetry.logs import Log, logger

Result = TypeVar("Result")

RUN_SECONDS_MAX = 10.0
"""How long a caller waits for what runs in the loop."""


class LoopThread:
    """Runs from the start until `stop`; what it watches can be closed after that, then `close`."""

    def __init__(self, name: str) -> None:
        """Start the thread."""
        self.loop = asyncio.new_event_loop()
        on_failed = log_failure(logger(Log.BROKER), name)
        self._thread = start_thread(self._run, on_failed, name=name)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in the loop, wait for it and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(RUN_SECONDS_MAX)

    def call_soon(self, call: Callable[[], object]) -> None:
        """Have a function called in the loop; do not wait for it."""
        self.loop.call_soon_threadsafe(call)

    def stop(self) -> None:
        """End the thread; timers and sockets of the loop do nothing more."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def close(self) -> None:
        """Close the loop of a thread that has ended."""
        self.loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
