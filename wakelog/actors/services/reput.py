"""Reput: follows the log and keeps the queues and the index.

By reference the Broker calls `step` and passes the arrivals on to PullHold. With notifications it
stores `readable` and notifies; this service dispatches, stores `dispatched`, and sends PullHold the
arrivals. A thread makes the files durable, an interval after something was written to them.

Source: org.apache.rocketmq.store.DefaultMessageStore.ReputMessageService,
FlushConsumeQueueService (4.9.3).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, cast

import msgspec

from wakelog.actors.services.client import BrokerContext, ServiceClient, ServiceLost
from wakelog.actors.services.dispatch import Dispatch
from wakelog.actors.services.pull_hold import HoldNote, PullHoldClient
from wakelog.actors.services.service import Service
from wakelog.actors.services.session import AttachRequest, ServiceSession
from wakelog.actors.transport.batching import BatchWorker
from wakelog.actors.transport.calls import ServiceCalls
from wakelog.actors.transport.notifications import Note
from wakelog.actors.transport.shared_watermarks import SharedWatermark
from wakelog.actors.transport.timer import Timer
from wakelog.dispatchers.reput import DispatchDecision, FlushJob
from wakelog.storage.errors import StoreError
from wakelog.telemetry.logs import Log, logger

RETRY_SECONDS = 1.0
"""The pause after a disk was full or refused a write."""

PULL_HOLD = "pull_hold"

Progress = tuple[int, int, bool]
"""How far dispatch has come, how many arrivals there were, and whether there is more to read."""


class ReputService(Service):
    """The service of `dispatchers.reput.Reput`."""

    def __init__(self, plan: dict[str, Any], name: str) -> None:
        """Open nothing."""
        super().__init__(plan, name)
        self._retry_timer = Timer(lambda: self._on_notified([]))
        self._flush_timer = Timer(self._flush_in_thread)
        self._syncs = ThreadPoolExecutor(1, "sync")
        self._flushing: Future[None] | None = None
        self._log = logger(Log.STORE)
        self._errors = logger(Log.STORE_ERROR)

    def begin(self, session: ServiceSession, request: AttachRequest) -> dict[str, Any]:
        """Open the derived files and find where dispatch begins."""
        if session.watermarks is not None:
            # The watermark may have moved since the Broker read it. Readers may see the queues up
            # to it, so dispatch must not cut them below it.
            dispatched = session.watermarks.get(SharedWatermark.DISPATCHED)
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
        )
        session.on_release(self._close_files)
        session.on_release(self._retry_timer.cancel)
        session.on_release(self._flush_timer.cancel)
        self._dispatch.make_ahead()
        position = self._dispatch.core.position
        self._log.info("dispatch begins", position=position, log_end=request.committed)
        if session.has_notifications:
            self._pull_hold = session.notifier_to(PULL_HOLD)
            session.listen(self._on_notified)
            asyncio.get_running_loop().call_soon(self._on_notified, [])
        return {"position": position}

    def step(self, readable: int) -> tuple[Progress, list[tuple[Any, ...]]]:
        """Dispatch some of what is below `readable`; return progress and arrivals."""
        try:
            decision = self._step(readable)
        except StoreError as error:
            self._errors.error("dispatch failed", cause=str(error))
            raise
        arrivals = [tuple(arrival) for arrival in decision.arrivals]
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
        if readable <= min(shared.get(SharedWatermark.DISPATCHED), self._dispatch.core.position):
            return
        try:
            if self._step(readable).more:
                asyncio.get_running_loop().call_soon(self._on_notified, [])
        except StoreError as error:
            self._errors.error("dispatch failed", cause=str(error))
            self._retry_timer.start(RETRY_SECONDS)

    def _step(self, readable: int) -> DispatchDecision:
        dispatch = self._dispatch
        if dispatch.core.is_broken:
            self._wait_flushed()
        decision = dispatch.step(readable)
        shared = self.watermarks
        if shared is not None:
            # In this order: a pull that is woken must find the queues readable.
            dispatched = max(decision.dispatched, shared.get(SharedWatermark.DISPATCHED))
            shared.set(SharedWatermark.DISPATCHED, dispatched)
            if decision.arrivals:
                kind = int(HoldNote.ARRIVAL)
                self._pull_hold.send((kind, *arrival) for arrival in decision.arrivals)
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
        self._flushing = self._syncs.submit(self._run_or_end, self._dispatch, job)

    def _wait_flushed(self) -> None:
        """Wait for the job that runs: a later job that ends first would report too much durable."""
        if self._flushing is not None:
            wait([self._flushing])

    def _run_or_end(self, dispatch: Dispatch, job: FlushJob) -> None:
        try:
            dispatch.run(job)
            dispatch.make_ahead()
        except StoreError as error:
            if dispatch is not self._dispatch or self.session is None:
                return  # released meanwhile, and its files closed
            # What the kernel holds of the files is unknown now; a new process reads them again.
            self._errors.error("derived files not durable", cause=str(error))
            os._exit(1)


class ReputClient(ServiceClient):
    """Has the log dispatched, and reports how far the queues reach.

    By reference the next step is called when the result of the last one is there. With
    notifications, and while no pull is held, one is sent only every `pace_seconds`. If each message
    woke Reput's process, no reader would see the queues earlier. For a held pull, or a request that
    waits for the queues (`dispatch_now`), the notification is sent at once.

    Source: org.apache.rocketmq.store.DefaultMessageStore.ReputMessageService.run (4.9.3), which
    sleeps 1 ms between two checks.
    """

    pace_seconds: float = 0.02
    """A step costs Reput as much as 10 messages. A reader of queues waits for what was acknowledged
    before it asked, and has the notification sent."""

    recheck_seconds: float = 1.0
    """After so long without progress, with work outstanding, a notification was lost."""

    def __init__(self, name: str, calls: ServiceCalls, broker: BrokerContext) -> None:
        """Request nothing yet."""
        super().__init__(name, calls, broker)
        self._events = broker.events
        self._watermarks = broker.watermarks
        self._notifier = broker.notifier_to(name)
        self._readable = self._dispatched = self._rechecked_at = 0
        if broker.watermarks is not None:
            self._dispatched = broker.watermarks.get(SharedWatermark.DISPATCHED)
            broker.watermark_readers.append(self.read_dispatched)
        self._worker = BatchWorker("dispatch", self._step)
        self._pace_timer = Timer(self._notify)
        self._recheck_timer = Timer(self._recheck)
        self._wakes: set[asyncio.Task[None]] = set()

    def request_dispatch(self, physical_offset: int) -> None:
        """Have the log dispatched up to here, soon."""
        self._readable = physical_offset
        if self._watermarks is None:
            self._worker.request()
            return
        self._watermarks.set(SharedWatermark.READABLE, physical_offset)
        if self._events.is_awaited():
            self._notify()
        elif not self._pace_timer.is_running:
            self._pace_timer.start(self.pace_seconds)
        if not self._recheck_timer.is_running:
            self._recheck_later()

    def dispatch_now(self) -> None:
        """Have the log dispatched now: a request waits for the queues."""
        if self._pace_timer.is_running:
            self._notify()

    def read_dispatched(self) -> None:
        """Read the shared watermark `dispatched`; by reference progress comes with the results."""
        if self._watermarks is not None:
            dispatched = self._watermarks.get(SharedWatermark.DISPATCHED)
            if dispatched > self._dispatched:
                self._dispatched = dispatched
                self._events.dispatched(dispatched)

    def on_attached(self, answer: Mapping[str, Any]) -> None:
        """Continue where Reput begins; with notifications it reads the watermarks by itself."""
        if self._watermarks is None:
            self._dispatched = answer["position"]
            self._worker.request()

    async def stop_work(self) -> None:
        """Request nothing more."""
        await self._worker.stop()
        for wake in list(self._wakes):
            wake.cancel()
        self._pace_timer.cancel()
        self._recheck_timer.cancel()

    def _notify(self) -> None:
        self._pace_timer.cancel()
        assert self._notifier is not None
        self._notifier.notify()

    async def _step(self) -> bool:
        if not self.is_attached or self._dispatched >= self._readable:
            return False
        step, arrivals = self.calls.call_two(
            "dispatch", "call", self.broker.epoch, "step", self._readable
        )
        try:
            progress: Progress = await self.wait_result(step)
        except ServiceLost:
            return False
        self._dispatched, arrivals_count, more = progress
        self._events.dispatched(self._dispatched)
        if arrivals_count:
            # The reference goes on as it is: the arrivals never come to this process.
            pull_hold = cast(PullHoldClient, self.broker.clients[PULL_HOLD])
            wake = asyncio.get_running_loop().create_task(pull_hold.wake(arrivals))
            self._wakes.add(wake)
            wake.add_done_callback(self._wakes.discard)
        return more or self._dispatched < self._readable

    def _recheck_later(self) -> None:
        self._rechecked_at = self._dispatched
        self._recheck_timer.start(self.recheck_seconds)

    def _recheck(self) -> None:
        """Call for a step if notifications have brought no progress."""
        self.read_dispatched()
        if self._dispatched >= self._readable:
            return
        if self._dispatched == self._rechecked_at:
            self._worker.request()
        self._recheck_later()
