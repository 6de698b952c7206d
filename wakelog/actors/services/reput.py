"""Reput: follows the log and keeps the queues and the index.

By reference the Broker calls `step` and passes the arrivals on to PullHold. With notifications it
stores `readable` and notifies; this service dispatches, stores `dispatched`, and sends PullHold the
arrivals. A thread makes the files durable, an interval after something was written to them.

Source: org.apache.rocketmq.store.DefaultMessageStore.ReputMessageService,
FlushConsumeQueueService (4.9.3).
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

import msgspec

from wakelog.actors.services.client import ServiceHandle, ServiceLost, WatermarkClient
from wakelog.actors.services.dispatch import Dispatch
from wakelog.actors.services.pull_hold import arrival_notes
from wakelog.actors.services.service import Service, Session
from wakelog.actors.transport.notifications import Note
from wakelog.actors.transport.shared_watermarks import SharedWatermark
from wakelog.actors.transport.timer import Timer
from wakelog.dispatchers.reput import DispatchDecision, FlushJob
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.deleted_topics import QueueRemoval
from wakelog.storage.errors import StoreError
from wakelog.telemetry.logs import Log, News, logger

RETRY_SECONDS = 1.0
"""The pause after a disk was full or refused a write; it doubles up to `RETRY_SECONDS_MAX`."""

RETRY_SECONDS_MAX = 5.0

STEP = "step"

PULL_HOLD = "pull_hold"

Progress = tuple[int, int, bool]
"""How far dispatch has come, how many arrivals there were, and whether there is more to read."""


class ReputService(Service):
    """The service of `dispatchers.reput.Reput`."""

    def __init__(self, session: Session) -> None:
        """Open the derived files and find where dispatch begins."""
        super().__init__(session)
        request = session.request
        self._retry_timer = Timer(lambda: self._on_notified([]))
        self._retry_seconds = RETRY_SECONDS
        self._failures = News()
        self._flush_timer = Timer(self._flush_in_thread)
        self._syncs = ThreadPoolExecutor(1, "sync")
        self._flushing: Future[None] | None = None
        self._log = logger(Log.STORE)
        self._errors = logger(Log.STORE_ERROR)
        self.on_release(self._syncs.shutdown)
        if self.watermarks is not None:
            # The watermark may have moved since the Broker read it. Readers may see the queues up
            # to it, so dispatch must not cut them below it.
            dispatched = self.watermarks.get(SharedWatermark.DISPATCHED)
            request = msgspec.structs.replace(
                request,
                dispatched=max(request.dispatched, dispatched),
                committed=max(request.committed, dispatched),
            )
        self._dispatch = Dispatch(
            self.fs,
            self.store,
            request,
            calculates_bitmaps=self.plan.settings.broker.enable_calc_filter_bit_map,
            has_process=not self.plan.in_one_process,
        )
        self.on_release(self._close_files)
        self.on_release(self._retry_timer.cancel)
        self.on_release(self._flush_timer.cancel)
        self._dispatch.make_ahead()
        position = self._dispatch.core.position
        self._log.info("dispatch begins", position=position, log_end=request.committed)
        self.answer = {"position": position, "troubles": self._dispatch.refused_plugins}
        self._pull_hold = self.notifier_to(PULL_HOLD)
        if self.has_notifications:
            self.listen(self._on_notified)
            asyncio.get_running_loop().call_soon(self._on_notified, [])

    def settings_changed(self, before: StoreConfig) -> bool:
        """Have the index opened or closed by an attach."""
        return self.store.message_index_enable != before.message_index_enable

    def step(self, readable: int) -> tuple[Progress, Note]:
        """Dispatch some of what is below `readable`; return progress, and notes of arrivals."""
        decision = self._step(readable)
        arrivals = arrival_notes(decision.arrivals)
        return (decision.dispatched, len(arrivals), decision.more), arrivals

    def trim(self, physical_offset: int) -> int | None:
        """Remove queue and index files of the log below; return how many.

        None while files are being made durable, because those must not vanish: ask again later.
        """
        if self._is_flushing:
            return None
        removed_count = self._dispatch.core.trim(physical_offset)
        self._log.info("derived files removed", before=physical_offset, count=removed_count)
        return removed_count

    def remove_queues(
        self, topics: Sequence[str], queues: Sequence[tuple[str, int]], physical_offset: int
    ) -> str:
        """Remove queues for good, as `QueueRemoval` says; return why not, "" if they are gone."""
        keys = tuple((topic, queue_id) for topic, queue_id in queues)
        try:
            count = self._dispatch.core.remove_queues(
                QueueRemoval(tuple(topics), keys, physical_offset)
            )
        except StoreError as error:
            self._errors.error("queues not removed", cause=str(error))
            return str(error)
        self._log.info("queues removed", topics=topics, count=count, before=physical_offset)
        return ""

    def follow_deleted(self, ends: Mapping[str, int]) -> tuple[str, int]:
        """Have the queues that a master has after its deletions.

        Returns: why not, "" if that is so; and where dispatch goes on.
        """
        self._wait_flushed()
        try:
            count = self._dispatch.follow_deleted(ends)
        except StoreError as error:
            return str(error), self._dispatch.core.position
        position = self._dispatch.core.position
        if count is None:
            return "dispatch is behind", position
        if count:
            self._log.info("queues of deleted topics removed", count=count, position=position)
            if self.watermarks is not None:
                asyncio.get_running_loop().call_soon(self._on_notified, [])
        return "", position

    def floor(self) -> int:
        """Return the first physical offset that a dispatcher still needs."""
        return self._dispatch.plugins.floor(self._dispatch.core.position)

    def counters(self) -> dict[str, Any]:
        """Return the counters of everything that dispatches."""
        return self._dispatch.statistics()

    @property
    def _is_flushing(self) -> bool:
        return self._flushing is not None and not self._flushing.done()

    def _close_files(self) -> None:
        """Make what was dispatched durable and close the files."""
        self._wait_flushed()
        try:
            self._dispatch.close()
        except StoreError as error:
            self._errors.error("derived files not durable", cause=str(error))

    def _on_notified(self, _notes: Note) -> None:
        """Dispatch a step, and the next one after other work of the loop."""
        shared = self.watermarks
        if shared is None:
            return  # released, or another Broker is starting and will attach this service
        readable = shared.get(SharedWatermark.READABLE)
        # After a failed sync records below the watermark are dispatched again; it does not fall.
        core = self._dispatch.core
        dispatched = min(shared.get(SharedWatermark.DISPATCHED), core.position)
        if readable <= dispatched and not core.is_behind:
            return
        try:
            if self._step(readable).more:
                asyncio.get_running_loop().call_soon(self._on_notified, [])
        except StoreError:
            self._retry_timer.start(self._retry_seconds)
            self._retry_seconds = min(2 * self._retry_seconds, RETRY_SECONDS_MAX)

    def _step(self, readable: int) -> DispatchDecision:
        dispatch = self._dispatch
        position = dispatch.core.position
        if dispatch.core.is_broken:
            self._wait_flushed()
        try:
            decision = dispatch.step(readable)
        except StoreError as error:
            if self._failures.is_news(str(error)):
                self._errors.error("dispatch failed", cause=str(error))
            raise
        if decision.dispatched > position:
            self._failures.clear()
            self._retry_seconds = RETRY_SECONDS
        shared = self.watermarks
        if shared is not None:
            # In this order: a pull that is woken must find the queues readable.
            dispatched = max(decision.dispatched, shared.get(SharedWatermark.DISPATCHED))
            shared.set(SharedWatermark.DISPATCHED, dispatched)
            if self._pull_hold is not None:
                self._pull_hold.send(arrival_notes(decision.arrivals))
        if decision.dispatched > dispatch.flushed:
            self._flush_later()
        return decision

    def _flush_later(self) -> None:
        # In one process this service has no loop; its files are made durable when it is released.
        if not self.plan.in_one_process:
            self._flush_timer.start(self.store.flush_interval_consume_queue_ms / 1000)

    def _flush_in_thread(self) -> None:
        if self._is_flushing:
            self._flush_later()
            return
        job = self._dispatch.core.prepare_flush()
        self._flushing = self._syncs.submit(self._run_or_end, job)

    def _wait_flushed(self) -> None:
        """Wait for the job that runs: a later job that ends first would report too much durable."""
        if self._flushing is not None:
            wait([self._flushing])

    def _run_or_end(self, job: FlushJob) -> None:
        try:
            self._dispatch.run(job)
            self._dispatch.make_ahead()
        except StoreError as error:
            if self.is_released:
                return
            # What the kernel holds of the files is unknown now; a new process reads them again.
            self._errors.error("derived files not durable", cause=str(error))
            os._exit(1)


class ReputClient(WatermarkClient):
    """Has the log dispatched, and reports how far the queues reach.

    By reference a step is called, and the next one when its result is there. Else a notification is
    sent. Either is done only every `pace_seconds`: the Broker itself wakes the pulls that wait for
    few messages. For pulls that it leaves to Reput, or a request that waits for the queues
    (`dispatch_now`), it is done at once.

    Source: org.apache.rocketmq.store.DefaultMessageStore.ReputMessageService.run (4.9.3), which
    sleeps 1 ms between two checks.
    """

    watermark = SharedWatermark.DISPATCHED

    pace_seconds: float = 0.02
    """A step costs Reput as much as 10 messages. A reader of queues waits for what was acknowledged
    before it asked, and has the notification sent."""

    removal_seconds_max: float = 2.0
    """How long Reput may take to be attached, and then to answer; an mqadmin waits for 5 s."""

    def __init__(
        self,
        handle: ServiceHandle,
        *,
        wake_pulls: Callable[[int], bool],
        on_dispatched: Callable[[int], None],
        on_arrivals: Callable[[Awaitable[Note]], None],
    ) -> None:
        """Begin at what is dispatched.

        wake_pulls: called with how far messages may be read now. It wakes the pulls that wait for
            what became readable, and returns whether some are left to Reput.
        on_dispatched: called with how far the queues reach.
        on_arrivals: called, by reference, with notes of which queues have grown.
        """
        super().__init__(handle)
        self._wake_pulls, self._on_dispatched = wake_pulls, on_dispatched
        self._on_arrivals = on_arrivals
        # `reached` is dispatched, and `wanted` is readable.
        self._has_more = False
        if self.watermarks is not None:
            self.reached = self.watermarks.get(self.watermark)
        self._pace_timer = Timer(self._notify)

    async def remove_queues(self, removal: QueueRemoval) -> str:
        """Have queues removed for good; return why that failed, "" if they are gone."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.removal_seconds_max):
                await self.wait_attached()
        try:
            why_not = await self.call(
                "remove", "remove_queues", *removal, seconds_max=self.removal_seconds_max
            )
        except ServiceLost as error:
            return str(error)
        return str(why_not)

    async def follow_deleted(self, ends: Mapping[str, int]) -> str:
        """Have the queues that a master has after its deletions; return why not, "" if so."""
        try:
            why_not, position = await self.call(
                "remove", "follow_deleted", dict(ends), seconds_max=self.removal_seconds_max
            )
        except ServiceLost as error:
            return str(error)
        if self.watermarks is None and position < self.reached:
            self.reached = position
            self.worker.request()
        return str(why_not)

    def request_dispatch(self, physical_offset: int) -> None:
        """Have the log dispatched up to here, soon."""
        self.wanted = physical_offset
        if self.watermarks is not None:
            self.watermarks.set(SharedWatermark.READABLE, physical_offset)
            self.recheck_later()
        if self._wake_pulls(physical_offset):
            self._notify()
        elif not self._pace_timer.is_running:
            self._pace_timer.start(self.pace_seconds)

    def dispatch_now(self) -> None:
        """Have the log dispatched now: a request waits for the queues."""
        if self._pace_timer.is_running:
            self._notify()

    def on_reached(self, position: int) -> None:
        """Report to the Broker how far the queues reach."""
        if position > self.reached:
            self.reached = position
            self.clear_trouble(STEP)
            self._on_dispatched(position)

    def request_call(self) -> None:
        """Call for a step."""
        self.worker.request()

    def on_attached(self, answer: Mapping[str, Any]) -> None:
        """Continue where Reput begins; with notifications it reads the watermarks by itself."""
        if self.watermarks is None:
            self.reached = answer["position"]
            self.worker.request()

    async def stop_work(self) -> None:
        """Request nothing more."""
        self._pace_timer.cancel()
        await super().stop_work()

    def _notify(self) -> None:
        self._pace_timer.cancel()
        if self.notifier is None:
            self.worker.request()
        else:
            self.notifier.notify()

    async def work(self) -> bool:
        """Call for one step, and have its arrivals wake pulls."""
        if not self.is_attached or (self.reached >= self.wanted and not self._has_more):
            return False
        self._has_more = False
        step, arrivals = self.calls.call_two(
            "dispatch", "call", self.broker.epoch, STEP, self.wanted
        )
        try:
            progress: Progress = await self.wait_result(step, method=STEP)
        except ServiceLost:
            return False
        self.reached, arrivals_count, self._has_more = progress
        self._on_dispatched(self.reached)
        if arrivals_count:
            # The reference goes on as it is: the arrivals never come to this process.
            self._on_arrivals(arrivals)
        is_paced = self._pace_timer.is_running  # what came meanwhile is called for then
        return self._has_more or (self.reached < self.wanted and not is_paced)
