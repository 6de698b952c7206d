"""The Reput actor: follows the log and keeps the queues and the index, in a process of its own.

With references the Broker calls `step` and passes its arrivals on to PullHold. With notifications
it stores `readable` and rings; this shell dispatches, stores `dispatched`, and rings PullHold with
what arrived. Files are made durable in a thread, an interval after something was written to them.

Source: org.apache.rocketmq.store.DefaultMessageStore.ReputMessageService,
FlushConsumeQueueService (4.9.3).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import msgspec

from wakelog.actors.services.broker_events import AttachRequest
from wakelog.actors.services.dispatch import Dispatch
from wakelog.actors.services.pull_hold import SERVICE as PULL_HOLD
from wakelog.actors.services.pull_hold import HoldNote
from wakelog.actors.services.session import LockByte, Refused, ServiceSession, attached
from wakelog.actors.transport.notifications import Notifier
from wakelog.actors.transport.service_plan import read_plan
from wakelog.actors.transport.shared_watermarks import SharedWatermark
from wakelog.dispatchers.reput import Arrival, DispatchDecision, FlushJob
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import RealFileSystem
from wakelog.telemetry.logs import Log, logger

SERVICE = "reput"

RETRY_SECONDS = 1.0
"""After a disk that was full or refused a write."""

Progress = tuple[int, int, bool]
"""How far dispatch has come, how many arrivals there were, and whether there is more to read."""


class ReputService:
    """The shell of `dispatchers.reput.Reput`."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """Open nothing until attached."""
        self._plan = read_plan(plan)
        self._store = self._plan.settings.store
        self._fs = RealFileSystem()
        self._session: ServiceSession | None = None
        self._dispatch: Dispatch | None = None
        self._holds: Notifier | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._flush_timer: asyncio.TimerHandle | None = None
        self._flushing: Future[None] | None = None
        self._syncs = ThreadPoolExecutor(1, "sync")
        self._log = logger(Log.STORE)
        self._errors = logger(Log.STORE_ERROR)

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    def attach(self, attachment: dict[str, Any]) -> dict[str, Any]:
        """Open the derived files and dispatch for this incarnation of the Broker from now on."""
        self.release()
        known = msgspec.convert(attachment, AttachRequest)
        session = ServiceSession(
            self._plan,
            SERVICE,
            known,
            fs=self._fs,
            store=self._store,
            lock_byte=LockByte.REPUT,
            answer=self._answer,
        )
        known = _as_of_now(known, session)
        try:
            self._dispatch = Dispatch(
                self._fs,
                self._store,
                known,
                calculates_bitmaps=self._plan.settings.broker.enable_calc_filter_bit_map,
            )
        except StoreError as error:
            session.close()
            raise Refused(str(error)) from None
        self._session = session
        self._dispatch.make_ahead()
        position = self._dispatch.core.position
        self._log.info("dispatch begins", position=position, log_end=known.committed)
        if session.has_notifications:
            self._holds = session.notifier_to(PULL_HOLD)
            asyncio.get_running_loop().call_soon(self._answer, [])
        return attached(position=position)

    def release(self) -> None:
        """Make what was dispatched durable, close the files and give the store's byte back."""
        session, self._session = self._session, None
        dispatch, self._dispatch = self._dispatch, None
        self._holds = None
        for timer in (self._timer, self._flush_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._flush_timer = None
        try:
            if dispatch is not None:
                self._settle()
                dispatch.close()
        except StoreError as error:
            self._errors.error("derived files not durable", cause=str(error))
        finally:
            if session is not None:
                session.close()

    def step(self, epoch: int, readable: int) -> tuple[Progress, list[tuple[Any, ...]]]:
        """Dispatch some of what is below `readable`; return progress and arrivals."""
        dispatch = self._checked(epoch)
        try:
            decision = self._step(dispatch, readable)
        except StoreError as error:
            self._errors.error("dispatch failed", cause=str(error))
            raise Refused(str(error)) from None
        arrivals = [tuple(arrival) for arrival in decision.arrivals]
        return (decision.dispatched, len(arrivals), decision.more), arrivals

    def flush(self, epoch: int) -> int:
        """Make everything dispatched durable; return the position that now is."""
        dispatch = self._checked(epoch)
        self._settle()
        try:
            dispatch.run(dispatch.core.prepare_flush())
        except StoreError as error:
            raise Refused(str(error)) from None
        return dispatch.flushed

    def trim(self, epoch: int, physical_offset: int) -> int | None:
        """Remove queue and index files of the log below; return how many.

        None while files are being made durable, which must not vanish meanwhile: ask again later.
        """
        dispatch = self._checked(epoch)
        if self._flushing is not None and not self._flushing.done():
            return None
        try:
            removed_count = dispatch.core.trim(physical_offset)
        except StoreError as error:
            raise Refused(str(error)) from None
        self._log.info("derived files removed", before=physical_offset, count=removed_count)
        return removed_count

    def floor(self, epoch: int) -> int:
        """Return the first physical offset that a dispatcher still needs."""
        dispatch = self._checked(epoch)
        return dispatch.plugins.floor(dispatch.core.position)

    def statistics(self) -> dict[str, Any]:
        """Return the counters of everything that dispatches."""
        return {} if self._dispatch is None else self._dispatch.statistics()

    def _checked(self, epoch: int) -> Dispatch:
        if self._session is None or self._dispatch is None:
            raise Refused("not attached")
        self._session.check(epoch)
        return self._dispatch

    def _answer(self, _notes: list[tuple[Any, ...]]) -> None:
        """Answer the notification: dispatch up to the word, a step at a time."""
        if self._session is None or self._dispatch is None:
            return
        page = self._session.page
        if page is None:
            return  # another Broker is starting: it will attach this service
        readable = page.get(SharedWatermark.READABLE)
        # Behind a failed sync there is something to repeat, below the word, which does not fall.
        if readable <= min(page.get(SharedWatermark.DISPATCHED), self._dispatch.core.position):
            return
        loop = asyncio.get_running_loop()
        try:
            if self._step(self._dispatch, readable).more:
                loop.call_soon(self._answer, [])
        except StoreError as error:
            self._errors.error("dispatch failed", cause=str(error))
            if self._timer is None:
                self._timer = loop.call_later(RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        self._timer = None
        self._answer([])

    def _step(self, dispatch: Dispatch, readable: int) -> DispatchDecision:
        if dispatch.core.is_broken:
            self._settle()
        decision = dispatch.step(readable)
        page = None if self._session is None else self._session.page
        if page is not None and self._holds is not None:
            # In this order: who is woken must find the queues readable.
            page.set(
                SharedWatermark.DISPATCHED,
                max(decision.dispatched, page.get(SharedWatermark.DISPATCHED)),
            )
            if decision.arrivals:
                self._holds.send(_arrival_notes(decision.arrivals))
        if self._flush_timer is None and decision.dispatched > dispatch.flushed:
            self._flush_later()
        return decision

    def _flush_later(self) -> None:
        if self._session is None or not self._session.has_loop:
            return  # in one process there is no loop of this service: durable when released
        seconds = self._store.flush_interval_consume_queue_ms / 1000
        self._flush_timer = asyncio.get_running_loop().call_later(seconds, self._flush_timed)

    def _flush_timed(self) -> None:
        self._flush_timer = None
        if self._dispatch is None:
            return
        if self._flushing is not None and not self._flushing.done():
            self._flush_later()
            return
        job = self._dispatch.core.prepare_flush()
        self._flushing = self._syncs.submit(self._run_or_end, self._dispatch, job)

    def _settle(self) -> None:
        """Wait for the job that runs: a later one, done before it, would say more than is true."""
        if self._flushing is not None:
            wait([self._flushing])

    def _run_or_end(self, dispatch: Dispatch, job: FlushJob) -> None:
        try:
            dispatch.run(job)
            dispatch.make_ahead()
        except StoreError as error:
            if dispatch is not self._dispatch:
                return  # released meanwhile, and its files closed
            # What the kernel holds of the files is unknown now; a new process reads them again.
            self._errors.error("derived files not durable", cause=str(error))
            os._exit(1)


def _as_of_now(known: AttachRequest, session: ServiceSession) -> AttachRequest:
    """Return an attachment with the word, which may have moved since the Broker looked at it.

    The Broker lets readers see as much as soon as it looks again: that must not be cut.
    """
    word = 0 if session.page is None else session.page.get(SharedWatermark.DISPATCHED)
    return msgspec.structs.replace(
        known, dispatched=max(known.dispatched, word), committed=max(known.committed, word)
    )


def _arrival_notes(arrivals: Iterable[Arrival]) -> Iterable[tuple[Any, ...]]:
    return ((int(HoldNote.ARRIVAL), *arrival) for arrival in arrivals)
