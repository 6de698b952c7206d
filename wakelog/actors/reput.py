"""The Reput actor: follows the log and keeps the queues and the index, in a process of its own.

With references the Broker calls `step` and passes its arrivals on to PullHold. With bells it stores
`readable` and rings; this shell dispatches, stores `dispatched`, and rings PullHold with what
arrived. Files are made durable in a thread, an interval after something was written to them.

Source: org.apache.rocketmq.store.DefaultMessageStore.ReputMessageService,
FlushConsumeQueueService (4.9.3).
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from wakelog.actors.links.bells import NoteLine
from wakelog.actors.links.links import Attachment
from wakelog.actors.links.station import LockByte, Refused, Station, attached
from wakelog.actors.links.words import Word
from wakelog.actors.pull_hold import SERVICE as PULL_HOLD
from wakelog.actors.pull_hold import HoldNote
from wakelog.actors.service_plan import read_plan
from wakelog.dispatchers import core_dispatchers
from wakelog.dispatchers.dispatcher import CoreDispatcher
from wakelog.dispatchers.reput import Arrival, DispatchDecision, FlushJob, Reput
from wakelog.storage.bulk.loader import KernelLoader
from wakelog.storage.commit_log_reader import CommitLogReader
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem, RealFileSystem
from wakelog.storage.state.checkpoint import Checkpoint
from wakelog.telemetry.logs import Log, logger

SERVICE = "reput"

STEP_BYTES_MAX = 8 << 20
"""A scan's buffer: some milliseconds of work, after which bells and calls get their turn."""

RETRY_SECONDS = 1.0
"""After a disk that was full or refused a write."""

Progress = tuple[int, int, bool]
"""How far dispatch has come, how many arrivals there were, and whether there is more to read."""


class Dispatch:
    """The core with its files and its checkpoint: what `attach` opens and `release` closes."""

    def __init__(self, fs: FileSystem, config: StoreConfig, known: Attachment) -> None:
        """Open the derived files and find where dispatch begins. Raises: StoreError."""
        self._log = CommitLogReader(fs, config)
        self._dispatchers: list[CoreDispatcher] = core_dispatchers(fs, config, self._log)
        self._checkpoint = Checkpoint(fs, config.paths.checkpoint)
        self.core = Reput(fs, self._log, self._dispatchers, config, kernels=_LOADER.kernels)
        recovered = known.dispatch_from is not None
        self.flushed = self.core.start(
            known.committed,
            clean_exit=known.clean_exit and recovered,
            dispatch_from=known.dispatch_from,
            dispatched=None if recovered else known.dispatched,
        )

    def run(self, job: FlushJob) -> None:
        """Make what a job covers durable and say so in the checkpoint; for any thread.

        Raises: StoreError; then nothing of the job is durable, and Reput has to begin anew.
        """
        job.run()
        if job.store_timestamp_ms:
            self._checkpoint.set_logics(job.store_timestamp_ms)
        if job.index_timestamp_ms:
            self._checkpoint.set_index(job.index_timestamp_ms)
        self._checkpoint.sync()
        self.flushed = job.position

    def close(self) -> None:
        """Make everything durable and close the files. Raises: StoreError."""
        try:
            self.run(self.core.prepare_flush())
        finally:
            for dispatcher in self._dispatchers:
                dispatcher.close()
            self._checkpoint.close()
            self._log.close()


class ReputService:
    """The shell of `dispatchers.reput.Reput`."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """Open nothing until attached."""
        self._plan = read_plan(plan)
        self._store = self._plan.settings.store
        self._fs = RealFileSystem()
        self._station: Station | None = None
        self._dispatch: Dispatch | None = None
        self._holds: NoteLine | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._flush_timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Future[None] | None = None
        self._log = logger(Log.STORE)

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    def attach(self, attachment: dict[str, Any]) -> dict[str, Any]:
        """Open the derived files and dispatch for this incarnation of the Broker from now on."""
        self.release()
        known = msgspec.convert(attachment, Attachment)
        station = Station(
            self._plan,
            SERVICE,
            known,
            fs=self._fs,
            store=self._store,
            lock_byte=LockByte.REPUT,
            answer=self._answer,
        )
        try:
            self._dispatch = Dispatch(self._fs, self._store, known)
        except StoreError as error:
            station.close()
            raise Refused(str(error)) from None
        self._station = station
        position = self._dispatch.core.position
        self._log.info("dispatch begins", position=position, log_end=known.committed)
        if station.has_bells:
            self._holds = station.line_to(PULL_HOLD)
            asyncio.get_running_loop().call_soon(self._answer, [])
        return attached(position=position)

    def release(self) -> None:
        """Make what was dispatched durable, close the files and give the store's byte back."""
        station, self._station = self._station, None
        dispatch, self._dispatch = self._dispatch, None
        self._holds = None
        for timer in (self._timer, self._flush_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._flush_timer = None
        try:
            if dispatch is not None:
                dispatch.close()
        except StoreError as error:
            self._log.error("derived files not durable", cause=str(error))
        finally:
            if station is not None:
                station.close()

    def step(self, epoch: int, readable: int) -> tuple[Progress, list[tuple[Any, ...]]]:
        """Dispatch some of what is below `readable`; return progress and arrivals."""
        dispatch = self._checked(epoch)
        try:
            decision = self._step(dispatch, readable)
        except StoreError as error:
            self._log.error("dispatch failed", cause=str(error))
            raise Refused(str(error)) from None
        arrivals = [tuple(arrival) for arrival in decision.arrivals]
        return (decision.dispatched, len(arrivals), decision.more), arrivals

    def flush(self, epoch: int) -> int:
        """Make everything dispatched durable; return the position that now is."""
        dispatch = self._checked(epoch)
        try:
            dispatch.run(dispatch.core.prepare_flush())
        except StoreError as error:
            raise Refused(str(error)) from None
        return dispatch.flushed

    def statistics(self) -> dict[str, Any]:
        """Return the core's counters."""
        if self._dispatch is None:
            return {}
        return dict(msgspec.to_builtins(self._dispatch.core.statistics()._asdict()))

    def _checked(self, epoch: int) -> Dispatch:
        if self._station is None or self._dispatch is None:
            raise Refused("not attached")
        self._station.check(epoch)
        return self._dispatch

    def _answer(self, _notes: list[tuple[Any, ...]]) -> None:
        """Answer the bell: dispatch up to the word, a step at a time."""
        if self._station is None or self._dispatch is None:
            return
        page = self._station.page
        if page is None:
            return  # another Broker is starting: it will attach this service
        readable = page.get(Word.READABLE)
        if readable <= page.get(Word.DISPATCHED):
            return
        loop = asyncio.get_running_loop()
        try:
            if self._step(self._dispatch, readable).more:
                loop.call_soon(self._answer, [])
        except StoreError as error:
            self._log.error("dispatch failed", cause=str(error))
            if self._timer is None:
                self._timer = loop.call_later(RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        self._timer = None
        self._answer([])

    def _step(self, dispatch: Dispatch, readable: int) -> DispatchDecision:
        decision = dispatch.core.step(readable, STEP_BYTES_MAX, time.time_ns() // 1_000_000)
        page = None if self._station is None else self._station.page
        if page is not None and self._holds is not None:
            # In this order: who is woken must find the queues readable.
            page.set(Word.DISPATCHED, max(decision.dispatched, page.get(Word.DISPATCHED)))
            if decision.arrivals:
                self._holds.send(_arrival_notes(decision.arrivals))
        if self._flush_timer is None and decision.dispatched > dispatch.flushed:
            self._flush_later()
        return decision

    def _flush_later(self) -> None:
        if self._station is None or not self._station.has_loop:
            return  # in one process there is no loop of this service: durable when released
        seconds = self._store.flush_interval_consume_queue_ms / 1000
        self._flush_timer = asyncio.get_running_loop().call_later(seconds, self._flush_timed)

    def _flush_timed(self) -> None:
        self._flush_timer = None
        if self._dispatch is not None and (self._flushing is None or self._flushing.done()):
            job = self._dispatch.core.prepare_flush()
            loop = asyncio.get_running_loop()
            self._flushing = loop.run_in_executor(None, self._run_or_end, self._dispatch, job)

    def _run_or_end(self, dispatch: Dispatch, job: FlushJob) -> None:
        try:
            dispatch.run(job)
        except StoreError as error:
            if dispatch is not self._dispatch:
                return  # released meanwhile, and its files closed
            # What the kernel holds of the files is unknown now; a new process reads them again.
            self._log.error("derived files not durable", cause=str(error))
            os._exit(1)


def _spawn(work: Any) -> None:
    threading.Thread(target=work, name="compile", daemon=True).start()


_LOADER = KernelLoader(_spawn)
"""One for the process: what is compiled serves every attachment."""


def _arrival_notes(arrivals: Iterable[Arrival]) -> Iterable[tuple[Any, ...]]:
    return ((int(HoldNote.ARRIVAL), *arrival) for arrival in arrivals)
