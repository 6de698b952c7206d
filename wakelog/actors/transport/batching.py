"""Natural batching: one piece of work at a time, again as long as somebody asked meanwhile.

What gathers while a crossing is in flight goes with the next one. There is no timer and no queue:
who asks says only that there is something to do, and the work looks at what that is when it
starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from wakelog.telemetry.logs import Log, logger


class BatchWorker:
    """Runs `work` on the loop of whoever asks; `work` says whether there is more to do."""

    __slots__ = ("_log", "_name", "_task", "_wanted", "_work", "run_count")

    def __init__(self, name: str, work: Callable[[], Awaitable[bool]]) -> None:
        """Run nothing yet.

        work: returns True to be run again at once. If it raises, that is logged, and it runs again
            when somebody asks, or did so meanwhile.
        """
        self._name = name
        self._work = work
        self._wanted = False
        self._task: asyncio.Task[None] | None = None
        self._log = logger(Log.BROKER)
        self.run_count = 0

    @property
    def is_running(self) -> bool:
        """Whether the work is under way."""
        return self._task is not None

    def ask(self) -> None:
        """Have the work done, once more after the run under way if there is one."""
        self._wanted = True
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def wait_idle(self) -> None:
        """Return once nothing is under way."""
        while (task := self._task) is not None:
            await asyncio.wait([task])
            if self._task is task:
                self._task = None  # given up before its first step: nothing of `_run` ran

    async def stop(self) -> None:
        """Give up the run under way; `ask` starts anew."""
        self._wanted = False
        if self._task is not None:
            self._task.cancel()
            await self.wait_idle()

    async def _run(self) -> None:
        try:
            while self._wanted:
                self._wanted = False
                self.run_count += 1
                if await self._work():
                    self._wanted = True
        except Exception as error:
            self._log.error("work failed", work=self._name, exc_info=error)
        finally:
            self._task = None
        if self._wanted:
            self.ask()
