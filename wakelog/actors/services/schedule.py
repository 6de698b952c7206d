"""The Schedule actor: watches the queues of delayed messages and says which are due.

The Broker asks (`lines/delay_line.py`) and delivers; this shell reads the queues and holds the
core. It looks no further than the Broker's `dispatched`.

Source: org.apache.rocketmq.store.schedule.ScheduleMessageService (4.9.3).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from wakelog.actors.services.broker_events import AttachRequest
from wakelog.actors.services.session import Refused, ServiceSession, attached
from wakelog.actors.transport.service_plan import read_plan
from wakelog.broker.delay_level import DelayLevels
from wakelog.broker.names import SCHEDULE_TOPIC
from wakelog.broker.schedule import BATCH_MAX, Schedule
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem, RealFileSystem
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.queue.consume_queue import ConsumeQueue
from wakelog.storage.queue.consume_queue_ext import ConsumeQueueExt, is_extension_address
from wakelog.storage.queue.entries import ENTRY
from wakelog.storage.read.readable import ReadableQueue

SERVICE = "schedule"

IDLE_MS = 60_000
"""A level at the end of its queue is looked at again after this, or once the queues have grown."""

Due = tuple[list[tuple[int, int, int, int]], int]
"""(level, queue offset, physical offset, size) of what is due, and in how many ms to look again."""


class DelayQueues:
    """The queues of the schedule topic, one a level, as far as they are readable."""

    def __init__(self, fs: FileSystem, config: StoreConfig, levels: DelayLevels) -> None:
        """Look at no queue yet."""
        open_files = OpenFiles()
        paths = config.paths
        self._levels = levels
        self._log = CommitLogReader(fs, config, open_files=open_files)
        self._queues = {
            level: ReadableQueue(
                ConsumeQueue(
                    fs,
                    paths.consume_queue(SCHEDULE_TOPIC, level - 1),
                    file_bytes=config.consume_queue_bytes,
                    open_files=open_files,
                ),
                # Whether or not units are written now, there may be some of before.
                ConsumeQueueExt(
                    fs,
                    paths.consume_queue_extension(SCHEDULE_TOPIC, level - 1),
                    file_bytes=config.consume_queue_extension_file_bytes,
                    open_files=open_files,
                ),
            )
            for level in range(1, levels.level_max + 1)
        }

    def ends(self, level: int, *, log_begin: int, dispatched: int) -> tuple[int, int]:
        """Return the first and the end of the readable queue offsets of a level."""
        queue = self._queues[level]
        end = queue.end(dispatched)
        return (queue.begin(log_begin, dispatched) if end else 0), end

    def entries(self, level: int, begin: int, end: int) -> list[tuple[int, int, int]]:
        """Return (physical offset, size, deliver time) of entries in [begin, end), or the first."""
        count = min(end - begin, BATCH_MAX + 1)
        if count <= 0:
            return []
        data = self._queues[level].entries(begin, count, blocking=True)
        return [
            (physical_offset, size_bytes, self._due_ms(level, physical_offset, tags_code))
            for physical_offset, size_bytes, tags_code in ENTRY.iter_unpack(data or b"")
        ]

    def _due_ms(self, level: int, physical_offset: int, tags_code: int) -> int:
        """Return an entry's time of delivery, which may stand in its extension unit."""
        if not is_extension_address(tags_code):
            return tags_code
        extension = self._queues[level].extension
        unit = None if extension is None else extension.unit(tags_code)
        if unit is not None:
            return unit.tags_code
        return self._log.store_time(physical_offset) + self._levels.delay_ms(level)

    def close(self) -> None:
        """Close the files."""
        self._log.close()
        for queue in self._queues.values():
            queue.close()


class ScheduleService:
    """The shell of `broker.schedule.Schedule`."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """Watch nothing until attached."""
        self._plan = read_plan(plan)
        self._store = self._plan.settings.store
        self._fs = RealFileSystem()
        self._levels = DelayLevels(self._store.message_delay_level)
        self._session: ServiceSession | None = None
        self._queues: DelayQueues | None = None
        self._core: Schedule | None = None
        self._dispatched = -1

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    def attach(self, attachment: dict[str, Any]) -> dict[str, Any]:
        """Start at the Broker's positions."""
        self.release()
        known = msgspec.convert(attachment, AttachRequest)
        self._session = ServiceSession(self._plan, SERVICE, known, fs=self._fs, store=self._store)
        self._queues = DelayQueues(self._fs, self._store, self._levels)
        self._core = Schedule(self._levels, known.delay_positions)
        self._dispatched = -1
        return attached()

    def release(self) -> None:
        """Watch no more."""
        if self._queues is not None:
            self._queues.close()
        self._queues = self._core = None
        if self._session is not None:
            self._session.close()
            self._session = None

    def look(
        self, epoch: int, log_begin: int, dispatched: int, delivered: Mapping[int, int]
    ) -> Due:
        """Take over how far each level was delivered; return what is due, and in how many
        milliseconds to look again: nodes' clocks differ."""
        if self._session is None or self._core is None:
            raise Refused("not attached")
        self._session.check(epoch)
        core, now_ms = self._core, time.time_ns() // 1_000_000
        for level, position in delivered.items():
            core.delivered(level, position, now_ms)
        if dispatched > self._dispatched:
            self._dispatched = dispatched
            for level in range(1, self._levels.level_max + 1):
                core.arrived(level, now_ms)
        due: list[tuple[int, int, int, int]] = []
        try:
            for level in core.levels_to_look_at(now_ms):
                due += self._look(core, level, now_ms, log_begin)
        except StoreError as error:
            raise Refused(str(error)) from None
        return due, max(0, core.next_look_ms() - now_ms)

    def statistics(self) -> dict[str, Any]:
        """Return the core's counters."""
        if self._core is None:
            return {}
        return dict(msgspec.to_builtins(self._core.statistics(), str_keys=True))

    def _look(
        self, core: Schedule, level: int, now_ms: int, log_begin: int
    ) -> list[tuple[int, int, int, int]]:
        assert self._queues is not None
        low, high = self._queues.ends(level, log_begin=log_begin, dispatched=self._dispatched)
        core.correct(level, queue_offset_min=low, queue_offset_max=high)
        entries = self._queues.entries(level, core.position(level), high)
        due = core.look(level, entries, now_ms, idle_ms=IDLE_MS)
        return [(m.level, m.queue_offset, m.physical_offset, m.size_bytes) for m in due]
