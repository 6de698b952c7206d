"""ScheduleService: watches the 18 delay queues and hands the Broker what is due.

The shell of `broker.schedule`, the same in the Broker's process and in an actor: only the reader of
the queues and the way to the Broker differ.

Source: org.apache.rocketmq.store.schedule.ScheduleMessageService (4.9.3).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from wakelog.broker.delay_level import DelayLevels
from wakelog.broker.schedule import BATCH_MAX, DueMessage, Schedule, ScheduleStatistics
from wakelog.telemetry.logs import Log, logger

IDLE_MS = 1_000
"""A queue that is believed to be empty is looked at so often: arrivals come earlier as hints."""


class DelayQueues(Protocol):
    """Entries of the schedule topic's queues."""

    def entries(self, queue_id: int, begin: int, count_max: int) -> Sequence[tuple[int, int, int]]:
        """Return (physical offset, size, deliver timestamp) of readable entries from `begin`."""
        ...

    def ends(self, queue_id: int) -> tuple[int, int]:
        """Return the queue's minimum and maximum offset."""
        ...


class ScheduleService:
    """A loop around the core; it sleeps until the next message is due or arrives."""

    def __init__(
        self,
        queues: DelayQueues,
        deliver: Callable[[Sequence[DueMessage]], Awaitable[Mapping[int, int]]],
        levels: DelayLevels,
        positions: Mapping[int, int],
        *,
        wall_ms: Callable[[], int],
    ) -> None:
        """Start at the Broker's positions; nothing runs yet."""
        self._queues = queues
        self._deliver = deliver
        self._schedule = Schedule(levels, positions)
        self._wall_ms = wall_ms
        self._rung = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._log = logger(Log.STORE)

    def start(self) -> None:
        """Begin to watch."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def arrived(self, queue_ids: Sequence[int]) -> None:
        """Look at queues of the schedule topic that have grown."""
        for queue_id in queue_ids:
            self._schedule.arrived(queue_id + 1, self._wall_ms())
        self._rung.set()

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except Exception as error:
                self._log.error("delayed messages not delivered", exc_info=error)
            self._rung.clear()
            delay_ms = max(1, self._schedule.next_look_ms() - self._wall_ms())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_ms / 1000):
                    await self._rung.wait()

    async def _look(self) -> None:
        due: list[DueMessage] = []
        now_ms = self._wall_ms()
        for level in self._schedule.levels_to_look_at(now_ms):
            queue_id = level - 1
            low, high = self._queues.ends(queue_id)
            self._schedule.correct(level, queue_offset_min=low, queue_offset_max=high)
            begin = self._schedule.position(level)
            entries = self._queues.entries(queue_id, begin, BATCH_MAX + 1)
            due += self._schedule.look(level, entries, now_ms, idle_ms=IDLE_MS)
        if due:
            for level, position in (await self._deliver(due)).items():
                self._schedule.delivered(level, position, self._wall_ms())

    async def stop(self) -> None:
        """End; what was under way at the Broker is finished there."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def statistics(self) -> ScheduleStatistics:
        """Return the core's counters."""
        return self._schedule.statistics()
