"""The Flush actor: makes the log durable, on time or because somebody waits.

It syncs through the Broker's own file descriptions (`links/descriptors.py`). With references the
Broker calls `sync`. With notifications it stores `committed` and rings; this shell syncs, stores
`flushed` and rings back. The timed flush of ASYNC_FLUSH needs no notification: the core says when
to look.

Source: org.apache.rocketmq.store.CommitLog.GroupCommitService, FlushRealTimeService (4.9.3).
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import msgspec

from wakelog.actors.services.broker_events import AttachRequest
from wakelog.actors.services.session import (
    BROKER_SERVICE,
    LockByte,
    Refused,
    ServiceSession,
    attached,
)
from wakelog.actors.transport.clocks import steady_ms
from wakelog.actors.transport.descriptors import DescriptorReceiver
from wakelog.actors.transport.notifications import Notifier
from wakelog.actors.transport.service_plan import read_plan
from wakelog.actors.transport.shared_watermarks import SharedWatermark, SharedWatermarks
from wakelog.storage.durability.checkpoint import Checkpoint
from wakelog.storage.durability.watermark import Watermark
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import RealFileSystem
from wakelog.storage.log.flush import Flush, SegmentSync
from wakelog.telemetry.histogram import Histogram
from wakelog.telemetry.logs import Log, logger

SERVICE = "flush"
CHECKPOINT_MS = 1_000
"""How often watermark and checkpoint are written, and the first synced: one sync a second more,
whatever the load. Both may lag behind; a second older only lengthens a recovery."""


class FlushRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How far the log goes, and whether somebody waits for it to be durable.

    flushed: up to where the Broker knows it to be durable; with Flush away it syncs by itself.
    stored_ms: the store time of a message that ends at or below `appended`, 0 if unknown.
    """

    flushed: int
    committed: int
    appended: int
    stored_ms: int
    force: bool


class FlushOutcome(msgspec.Struct, frozen=True):
    """What a sync came to.

    reach: up to where descriptors of the segments are there; below `committed`, send them again.
    noted: the watermark says so too; else ask again after CHECKPOINT_MS, if nothing else comes.
    """

    flushed: int
    failure: str | None
    reach: int
    noted: bool = True


class FlushService:
    """The shell of `storage.flush`."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """Sync nothing until attached."""
        self._plan = read_plan(plan)
        self._store = self._plan.settings.store
        self._fs = RealFileSystem()
        self._session: ServiceSession | None = None
        self._core: Flush | None = None
        self._segments = SegmentSync(self._fs, self._store.commit_log_file_bytes)
        self._receiver: DescriptorReceiver | None = None
        self._broker: Notifier | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._checkpoint: Checkpoint | None = None
        self._watermark: Watermark | None = None
        self._checkpoint_ms = 0
        self._reach = 0
        self._durable: tuple[int, int] | None = None
        self._sync_seconds = Histogram()
        self._errors = logger(Log.STORE_ERROR)

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    def attach(self, attachment: dict[str, Any]) -> dict[str, Any]:
        """Work for this incarnation of the Broker, from what it knows to be durable."""
        self.release()
        known = msgspec.convert(attachment, AttachRequest)
        session = ServiceSession(
            self._plan,
            SERVICE,
            known,
            fs=self._fs,
            store=self._store,
            lock_byte=LockByte.FLUSH,
            answer=self._answer,
        )
        self._session = session
        self._core = Flush(self._store, known.flushed, steady_ms())
        self._reach = 0
        self._segments = SegmentSync(self._fs, self._store.commit_log_file_bytes)
        self._receiver = DescriptorReceiver(descriptor_path(self._plan.runtime_directory))
        self._checkpoint = Checkpoint(self._fs, self._store.paths.checkpoint)
        self._watermark = Watermark(self._fs, self._store.paths.watermark)
        if session.has_notifications:
            self._broker = session.notifier_to(BROKER_SERVICE)
            loop = asyncio.get_running_loop()
            loop.add_reader(self._receiver, self._received)
            loop.call_soon(self._answer, [])
        return attached(flushed=known.flushed)

    def release(self) -> None:
        """Let everything go; what is not durable stays so."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._receiver is not None:
            if self._session is not None and self._session.has_notifications:
                asyncio.get_running_loop().remove_reader(self._receiver)
            self._receiver.close()
            self._receiver = None
        self._segments.close()
        if self._checkpoint is not None:
            self._checkpoint.close()
            self._checkpoint = None
        if self._watermark is not None:
            self._watermark.close()
            self._watermark = None
        self._durable = None
        self._core = self._broker = None
        if self._session is not None:
            self._session.close()
            self._session = None

    def sync(self, epoch: int, request: dict[str, Any]) -> dict[str, Any]:
        """Flush what a FlushRequest makes due; return a FlushOutcome."""
        if self._session is None:
            raise Refused("not attached")
        self._session.check(epoch)
        outcome, _ = self._sync(msgspec.convert(request, FlushRequest))
        self._note_durable()
        page = self._session.page
        if page is not None:
            page.set(
                SharedWatermark.FLUSHED, max(outcome.flushed, page.get(SharedWatermark.FLUSHED))
            )
            asyncio.get_running_loop().call_soon(self._answer, [])
        outcome = msgspec.structs.replace(outcome, noted=self._durable is None)
        return dict(msgspec.to_builtins(outcome))

    def statistics(self) -> dict[str, Any]:
        """Return the core's counters, and how long syncs took."""
        if self._core is None:
            return {}
        counters = msgspec.to_builtins(self._core.statistics())
        return {**counters, "sync_seconds": self._sync_seconds.statistics()}

    def _sync(self, request: FlushRequest) -> tuple[FlushOutcome, int | None]:
        core = self._core
        assert core is not None and self._receiver is not None
        core.known_durable(request.flushed)
        if request.committed > self._reach:
            self._take_descriptors(core.flushed_offset)
        reach = max(self._reach, core.flushed_offset)
        now_ms = steady_ms()
        decision = core.step(
            committed_offset=max(core.flushed_offset, min(request.committed, reach)),
            appended_offset=max(core.flushed_offset, request.appended),
            now_ms=now_ms,
            force=request.force,
        )
        if decision.flush_to is not None:
            began_seconds = time.perf_counter()
            try:
                self._segments.sync(core.flushed_offset, decision.flush_to)
            except StoreError as error:
                core.failed(str(error))
                self._errors.error("flush failed", begin=core.flushed_offset, cause=str(error))
            else:
                self._sync_seconds.observe(time.perf_counter() - began_seconds)
                core.succeeded(decision.flush_to)
                # What is written down is the end of a record, whose time is known.
                if decision.flush_to >= request.appended and request.stored_ms:
                    self._durable = (decision.flush_to, request.stored_ms)
        return FlushOutcome(core.flushed_offset, core.failure, reach), decision.next_step_ms

    def _take_descriptors(self, begin_offset: int) -> None:
        """Adopt what has come, and see up to where every segment's is there from `begin_offset`."""
        assert self._receiver is not None
        for start_offset, descriptor in self._receiver.drain():
            self._segments.adopt(start_offset, descriptor)
        segment_bytes = self._store.commit_log_file_bytes
        held = set(self._segments.start_offsets)
        end = begin_offset - begin_offset % segment_bytes
        while end in held:
            end += segment_bytes
        self._reach = end

    def _note_durable(self) -> None:
        """Write down how far the log is durable, once in a while, after who waits was answered."""
        if self._durable is None or (now_ms := steady_ms()) < self._checkpoint_ms + CHECKPOINT_MS:
            return
        assert self._watermark is not None and self._checkpoint is not None
        physical_offset, stored_ms = self._durable
        self._durable, self._checkpoint_ms = None, now_ms
        try:
            self._watermark.note(physical_offset, stored_ms)
            self._checkpoint.set_physic(stored_ms)
        except StoreError as error:
            # An older one is true as well; the log itself is durable.
            self._errors.error("watermark not written", offset=physical_offset, cause=str(error))

    def _received(self) -> None:
        """Take descriptors off the socket, which would be readable for ever, and use them."""
        if self._core is not None:
            self._take_descriptors(self._core.flushed_offset)
            self._answer([])

    def _answer(self, _notes: list[tuple[Any, ...]]) -> None:
        """Answer the notification, or the timer: flush until nothing is left that is due."""
        page = None if self._session is None else self._session.page
        if page is None:
            return  # another Broker is starting: it will attach this service
        self._set_timer(self._flush(page))

    def _flush(self, page: SharedWatermarks) -> int | None:
        while True:
            before = page.get(SharedWatermark.FLUSHED)
            # Each before the one it may not pass.
            stored_ms = page.get(SharedWatermark.STORED_MS)
            committed = page.get(SharedWatermark.COMMITTED)
            appended = page.get(SharedWatermark.APPENDED)
            outcome, next_step_ms = self._sync(
                FlushRequest(
                    flushed=0,
                    committed=committed,
                    appended=appended,
                    stored_ms=stored_ms,
                    force=False,
                )
            )
            if outcome.flushed == before:
                self._note_durable()
                return self._next_look_ms(next_step_ms)
            page.set(SharedWatermark.FLUSHED, outcome.flushed)
            assert self._broker is not None
            self._broker.notify()
            self._note_durable()
            if next_step_ms is None and page.get(SharedWatermark.COMMITTED) == outcome.flushed:
                return self._next_look_ms(None)  # what comes later is rung for

    def _next_look_ms(self, next_step_ms: int | None) -> int | None:
        """Return when to look again: for the core, or for what is not written down yet."""
        if self._durable is None:
            return next_step_ms
        note_ms = self._checkpoint_ms + CHECKPOINT_MS
        return note_ms if next_step_ms is None else min(note_ms, next_step_ms)

    def _timed(self) -> None:
        self._timer = None
        self._answer([])

    def _set_timer(self, next_step_ms: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if next_step_ms is not None:
            seconds = max(1, next_step_ms - steady_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(seconds, self._timed)


def descriptor_path(runtime_directory: str) -> Path:
    """Return where Flush receives descriptors."""
    return Path(runtime_directory, "flush.descriptors")
