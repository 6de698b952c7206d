"""Schedule: watches the queues of delayed messages and reports which messages are due.

The service reads the queues, up to the Broker's `dispatched`, and holds the core. The Broker asks
and delivers.

Source: org.apache.rocketmq.store.schedule.ScheduleMessageService (4.9.3).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from wakelog.actors.services.client import ServiceClient, ServiceHandle, ServiceLost
from wakelog.actors.services.service import Service, Session
from wakelog.actors.transport.clocks import wall_ms
from wakelog.actors.transport.timer import Timer
from wakelog.broker.schedule import BATCH_MAX, DueMessage, Schedule
from wakelog.broker.trouble import Trouble
from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.queue.consume_queue import ConsumeQueue
from wakelog.storage.queue.consume_queue_ext import ConsumeQueueExt, is_extension_address
from wakelog.storage.queue.entries import ENTRY
from wakelog.storage.read.readable import ReadableQueue
from wakelog.telemetry.logs import Log, logger
from wakelog.typed_values import convert

IDLE_MS = 60_000
"""A level at the end of its queue is checked again after this, or when the queues have grown."""

CLOCK_STEP_SECONDS_MIN = 0.02
"""A smaller difference between the wall clock and the loop's is not a clock that was set."""

Due = tuple[list[DueMessage], int]
"""What is due; milliseconds until the next ask."""


Deliver = Callable[[Sequence[DueMessage]], Awaitable[Mapping[int, int]]]
"""Puts delayed messages that are due; returns the next queue offset of each level."""


class DelayQueues:
    """The queues of the schedule topic, one a level, as far as they are readable."""

    def __init__(self, fs: FileSystem, config: StoreConfig) -> None:
        """Open no queue yet."""
        open_files = OpenFiles()
        paths = config.paths
        self._delays_ms = config.delays_ms
        self._log = CommitLogReader(fs, config, open_files=open_files)
        self._queues = {
            level: ReadableQueue(
                ConsumeQueue(
                    fs,
                    paths.consume_queue(SCHEDULE_TOPIC, level - 1),
                    file_bytes=config.consume_queue_bytes,
                    open_files=open_files,
                ),
                # There may be units from an earlier time, even if none are written now.
                ConsumeQueueExt(
                    fs,
                    paths.consume_queue_extension(SCHEDULE_TOPIC, level - 1),
                    file_bytes=config.consume_queue_extension_file_bytes,
                    open_files=open_files,
                ),
            )
            for level in range(1, len(self._delays_ms) + 1)
        }

    def ends(self, level: int, *, log_begin: int, dispatched: int) -> tuple[int, int]:
        """Return the first and the end queue offset that are readable of a level."""
        queue = self._queues[level]
        end = queue.end(dispatched)
        return (queue.begin(log_begin, dispatched) if end else 0), end

    def entries(self, level: int, begin: int, end: int) -> list[tuple[int, int, int]]:
        """Return (physical offset, size, deliver time) of entries from `begin` on.

        They end before `end`; there is at most one more than Schedule returns at once.
        """
        count = min(end - begin, BATCH_MAX + 1)
        if count <= 0:
            return []
        data = self._queues[level].entries(begin, count, blocking=True)
        return [
            (physical_offset, size_bytes, self._due_ms(level, physical_offset, tags_code))
            for physical_offset, size_bytes, tags_code in ENTRY.iter_unpack(data or b"")
        ]

    def _due_ms(self, level: int, physical_offset: int, tags_code: int) -> int:
        """Return an entry's time of delivery, which its extension unit may hold."""
        if not is_extension_address(tags_code):
            return tags_code
        extension = self._queues[level].extension
        unit = None if extension is None else extension.unit(tags_code)
        if unit is not None:
            return unit.tags_code
        return self._log.store_time(physical_offset) + self._delays_ms[level - 1]

    def close(self) -> None:
        """Close the files."""
        self._log.close()
        for queue in self._queues.values():
            queue.close()


class ScheduleService(Service):
    """The service of `broker.schedule.Schedule`."""

    def __init__(self, session: Session) -> None:
        """Begin at the Broker's positions."""
        super().__init__(session)
        self._queues = self.closing(DelayQueues(self.fs, self.store))
        self._core = Schedule(self.store.delays_ms, session.request.delay_positions)
        self._dispatched = -1

    def take_due(self, log_begin: int, dispatched: int, delivered: Mapping[int, int]) -> Due:
        """Note how far each level was delivered, and return what is due.

        The answer says in how many milliseconds to ask again: clocks of nodes differ.
        """
        core, now_ms = self._core, wall_ms()
        for level, position in delivered.items():
            core.delivered(level, position, now_ms)
        if dispatched > self._dispatched:
            self._dispatched = dispatched
            for level in range(1, len(self.store.delays_ms) + 1):
                core.arrived(level, now_ms)
        due: list[DueMessage] = []
        for level in core.levels_to_read(now_ms):
            if len(due) >= BATCH_MAX:
                break  # all 18 levels take 40 ms of the Broker's loop
            due += self._due_of_level(level, now_ms, log_begin)
        return due, max(0, core.next_read_ms() - now_ms)

    def counters(self) -> dict[str, Any]:
        """Return the core's counters."""
        return self._core.statistics()

    def _due_of_level(self, level: int, now_ms: int, log_begin: int) -> list[DueMessage]:
        core = self._core
        low, high = self._queues.ends(level, log_begin=log_begin, dispatched=self._dispatched)
        core.correct(level, queue_offset_min=low, queue_offset_max=high)
        entries = self._queues.entries(level, core.position(level), high)
        return core.take_due(level, entries, now_ms, idle_ms=IDLE_MS)


class ScheduleClient(ServiceClient):
    """Has due messages delivered.

    It asks Schedule at the time that Schedule named. It also asks when delayed messages have
    reached the queues, at most every `grown_seconds`, which is the period of 4.9.3's own checks.
    And it asks when the wall clock was set, because the named time belongs to the clock before.
    """

    grown_seconds: float = 0.1
    failed_seconds: float = 1.0
    """The pause after a disk that could not read a due message; Schedule reports it again then."""
    clock_seconds: float = 1.0
    """How often the clock is checked: after it was set, a message is at most this late."""

    def __init__(self, handle: ServiceHandle, *, deliver: Deliver) -> None:
        """Ask nothing until attached. A slave never asks: its master delivers."""
        super().__init__(handle)
        self._deliver = deliver
        self._delivers = handle.broker.plan.settings.store.appends
        self._asked_dispatched = -1
        # Below the log's end there may be delayed messages that are not in queues yet.
        self._delayed_end = handle.broker.store.max_physical_offset
        self._positions: dict[int, int] = {}
        self._timer_at = 0.0
        self._clock_timer = Timer(self._check_clock)
        self._clock_ahead_seconds = 0.0
        self._errors = logger(Log.STORE_ERROR)

    def on_delayed(self, log_end: int) -> None:
        """Note that a delayed message was put below `log_end`."""
        self._delayed_end = log_end

    def on_dispatched(self) -> None:
        """Note that the store's `dispatched` may have grown."""
        if self._delivers and not self.worker.is_running:
            self._ask_for_delayed()

    def on_attached(self, answer: Mapping[str, Any]) -> None:
        """Ask what is due."""
        self._asked_dispatched = -1
        if self._delivers:
            self.worker.request()
            self.timer.cancel()
            self._clock_timer.cancel()
            self._check_clock()

    async def stop_work(self) -> None:
        """Ask for nothing more, and wait for the delivery that is under way."""
        self._delivers = False
        self.timer.cancel()
        self._clock_timer.cancel()
        await self.worker.wait_idle()

    async def work(self) -> bool:
        """Have delivered what is due."""
        positions, self._positions = self._positions, {}
        store = self.broker.store
        self._asked_dispatched = store.dispatched
        log_begin = store.min_physical_offset
        try:
            answer = await self.call("delay", "take_due", log_begin, store.dispatched, positions)
        except ServiceLost:
            return False  # the next Schedule begins at the Broker's positions
        found, wait = answer
        due, wait_ms = convert(found, list[DueMessage]), convert(wait, int)
        if due:
            try:
                self._positions = dict(await self._deliver(due))
            except StoreError as error:
                self._errors.error("delayed messages not delivered", cause=str(error))
                self.set_trouble("deliver", Trouble(str(error)))
                self._ask_in(self.failed_seconds)
                return False
            self.clear_trouble("deliver")
            return True
        self._ask_in(wait_ms / 1000)
        self._ask_for_delayed()
        return False

    def _ask_for_delayed(self) -> None:
        asked = self._asked_dispatched
        if asked < self._delayed_end and asked < self.broker.store.dispatched:
            self._ask_in(self.grown_seconds)

    def _ask_in(self, seconds: float) -> None:
        """Ask after `seconds`, unless that is due earlier or the client was stopped."""
        at = asyncio.get_running_loop().time() + seconds
        if self._delivers and not (self.timer.is_running and self._timer_at <= at):
            self._timer_at = at
            self.timer.restart(seconds)

    def _check_clock(self) -> None:
        """Ask if the wall clock moved against the loop's clock, which cannot be set."""
        ahead_seconds = time.time() - asyncio.get_running_loop().time()
        if abs(ahead_seconds - self._clock_ahead_seconds) > CLOCK_STEP_SECONDS_MIN:
            self._clock_ahead_seconds = ahead_seconds
            self.worker.request()
        self._clock_timer.start(self.clock_seconds)
