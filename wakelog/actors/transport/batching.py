"""Natural batching: one run of a piece of work at a time, and another if requested meanwhile.

What gathers during a run goes into the next one. There is no queue and no delay: a request only
says that there is work, and the run finds out what it is.
"""

import asyncio
from collections.abc import Awaitable, Callable

from wakelog.actors.transport.timer import Timer
from wakelog.network.background import AGAIN_SECONDS, awaited
from wakelog.telemetry.logs import Log, logger


class BatchWorker:
    """Runs `work` on the loop of the caller; `work` returns whether there is more to do."""

    __slots__ = ("_again", "_log", "_name", "_requested", "_task", "_work")

    def __init__(self, name: str, work: Callable[[], Awaitable[bool]]) -> None:
        """Run nothing yet.

        work: returns True to be run again at once. If it raises, the error is logged, and the work
            runs again after a pause, or at the next request.
        """
        self._name = name
        self._work = work
        self._requested = False
        self._task: asyncio.Future[None] | None = None
        self._again = Timer(self.request)
        self._log = logger(Log.BROKER)

    @property
    def is_running(self) -> bool:
        """Whether the work is under way."""
        return self._task is not None

    def request(self) -> None:
        """Run the work now, or once more after the run that is under way."""
        self._requested = True
        if self._task is None:
            self._task = awaited(self._run())

    async def wait_idle(self) -> None:
        """Return when no run is under way."""
        while (task := self._task) is not None:
            await asyncio.wait([task])
            if self._task is task:
                self._task = None  # it was cancelled before its first step, so `_run` never ran

    async def stop(self) -> None:
        """Cancel the run under way; a later `request` starts another."""
        self._requested = False
        self._again.cancel()
        if self._task is not None:
            self._task.cancel()
            await self.wait_idle()

    async def _run(self) -> None:
        try:
            while self._requested:
                self._requested = False
                if await self._work():
                    self._requested = True
        except Exception as error:
            self._log.error("work failed", work=self._name, exc_info=error)
            self._again.start(AGAIN_SECONDS)
        finally:
            self._task = None
        if self._requested:
            self.request()
