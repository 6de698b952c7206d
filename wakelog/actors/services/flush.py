"""Flush: makes the log durable, after a time or because a producer waits.

It syncs through the Broker's own file descriptions (`transport/descriptors.py`). By reference the
Broker calls `sync`. With notifications the Broker stores `committed` and notifies; this service
syncs, stores `flushed` and notifies the Broker. The timed flush of ASYNC_FLUSH needs no
notification: the core says when the next step is due.

Source: org.apache.rocketmq.store.CommitLog.GroupCommitService, FlushRealTimeService (4.9.3).
"""

import asyncio
import time
from typing import Any

import msgspec

from wakelog.actors.services.service import Service, Session
from wakelog.actors.services.session import BROKER
from wakelog.actors.transport.clocks import steady_ms
from wakelog.actors.transport.descriptors import DescriptorReceiver, descriptor_path
from wakelog.actors.transport.notifications import Note
from wakelog.actors.transport.shared_watermarks import SharedWatermark
from wakelog.actors.transport.timer import Timer
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import Checkpoint
from wakelog.storage.durability.watermark import Watermark
from wakelog.storage.errors import StoreError
from wakelog.storage.log.flush import Flush, SegmentSync
from wakelog.telemetry.histogram import Histogram
from wakelog.telemetry.logs import Log, logger
from wakelog.typed_values import convert

CHECKPOINT_MS = 1_000
"""How often watermark and checkpoint are written, and the watermark synced: one sync more a second
at any load. Both may be older than the log; one more second only makes a recovery longer."""


class FlushRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How far the log reaches, and whether a caller waits for it to be durable.

    flushed: how far the Broker knows the log to be durable; without Flush it syncs by itself.
    stored_ms: the store time of a message that ends at or below `appended`, 0 if unknown.
    """

    flushed: int
    committed: int
    appended: int
    stored_ms: int
    force: bool


class FlushOutcome(msgspec.Struct, frozen=True):
    """The result of a sync.

    reach: how far Flush has descriptors of the segments; below `committed`, send them again.
    noted: whether the watermark file says so too; if not, ask again after CHECKPOINT_MS.
    """

    flushed: int
    failure: str | None
    reach: int
    noted: bool = True


class FlushService(Service):
    """The service of `storage.log.flush`."""

    def __init__(self, session: Session) -> None:
        """Begin where the Broker knows the log to be durable."""
        super().__init__(session)
        paths, flushed = self.store.paths, session.request.flushed
        self.answer = {"flushed": flushed}
        self._timer = Timer(lambda: self._on_notified([]))
        self._checkpoint_ms = 0
        self._sync_seconds = Histogram()
        self._errors = logger(Log.STORE_ERROR)
        self._core = Flush(self.store, flushed, steady_ms())
        self._reach = 0
        self._durable: tuple[int, int] | None = None
        self.on_release(self._timer.cancel)
        self._watermark = self.closing(Watermark(self.fs, paths.watermark))
        self._checkpoint = self.closing(Checkpoint(self.fs, paths.checkpoint))
        self._segments = self.closing(SegmentSync(self.fs, self.store.commit_log_file_bytes))
        receiver = DescriptorReceiver(descriptor_path(self.plan.runtime_directory))
        self._receiver = self.closing(receiver)
        self._broker = self.notifier_to(BROKER)
        if self.has_notifications:
            self.listen(self._on_notified)
            receiver.watch(self._adopt_received)
            asyncio.get_running_loop().call_soon(self._on_notified, [])

    def settings_changed(self, before: StoreConfig) -> bool:
        """Sync by the new times."""
        self._core.use_settings(self.store)
        return False

    def sync(self, request: dict[str, Any]) -> FlushOutcome:
        """Flush what a FlushRequest makes due."""
        known = convert(request, FlushRequest)
        core, shared = self._core, self.watermarks
        core.known_durable(known.flushed)
        self._step(known.committed, known.appended, known.stored_ms, force=known.force)
        self._write_durable()
        if shared is not None:
            flushed = max(core.flushed_offset, shared.get(SharedWatermark.FLUSHED))
            shared.set(SharedWatermark.FLUSHED, flushed)
            asyncio.get_running_loop().call_soon(self._on_notified, [])
        reach = max(self._reach, core.flushed_offset)
        return FlushOutcome(core.flushed_offset, core.failure, reach, self._durable is None)

    def counters(self) -> dict[str, Any]:
        """Return the core's counters, and how long syncs took."""
        return {**self._core.statistics(), "sync_seconds": self._sync_seconds.statistics()}

    def _step(
        self, committed: int, appended: int, stored_ms: int, *, force: bool = False
    ) -> int | None:
        """Flush what is due; return when the next step is, None if only news can make it due."""
        core, begin = self._core, self._core.flushed_offset
        if committed > self._reach:
            self._adopt_descriptors()
        decision = core.step(
            committed_offset=max(begin, min(committed, self._reach)),
            appended_offset=max(begin, appended),
            now_ms=steady_ms(),
            force=force,
        )
        if decision.flush_to is not None:
            began_seconds = time.perf_counter()
            try:
                self._segments.sync(begin, decision.flush_to)
            except StoreError as error:
                core.failed(str(error))
                self._errors.error("flush failed", begin=begin, cause=str(error))
            else:
                self._sync_seconds.observe(time.perf_counter() - began_seconds)
                core.succeeded(decision.flush_to)
                # Write down only the end of a record whose store time is known.
                if decision.flush_to >= appended and stored_ms:
                    self._durable = (decision.flush_to, stored_ms)
        return decision.next_step_ms

    def _adopt_descriptors(self) -> None:
        """Adopt the received descriptors, and find how far they reach without a gap."""
        for start_offset, descriptor in self._receiver.drain():
            self._segments.adopt(start_offset, descriptor)
        segment_bytes = self.store.commit_log_file_bytes
        held = set(self._segments.start_offsets)
        end = self._core.flushed_offset // segment_bytes * segment_bytes
        while end in held:
            end += segment_bytes
        self._reach = end

    def _write_durable(self) -> None:
        """Write down how far the log is durable, once a period, after callers were answered."""
        if self._durable is None or (now_ms := steady_ms()) < self._checkpoint_ms + CHECKPOINT_MS:
            return
        physical_offset, stored_ms = self._durable
        self._durable, self._checkpoint_ms = None, now_ms
        try:
            self._watermark.note(physical_offset, stored_ms)
            self._checkpoint.set_physic(stored_ms)
        except StoreError as error:
            # The older one on disk is still true, and the log itself is durable.
            self._errors.error("watermark not written", offset=physical_offset, cause=str(error))

    def _adopt_received(self) -> None:
        """Adopt descriptors at once: until they are read, the loop calls this again and again."""
        self._adopt_descriptors()
        self._on_notified([])

    def _on_notified(self, _notes: Note) -> None:
        """Flush until nothing more is due."""
        shared = self.watermarks
        if shared is None:
            return  # released, or another Broker is starting and will attach this service
        is_flushed = True
        while is_flushed:
            # Read each before the one that it may not pass.
            stored_ms = shared.get(SharedWatermark.STORED_MS)
            committed = shared.get(SharedWatermark.COMMITTED)
            appended = shared.get(SharedWatermark.APPENDED)
            # Under ASYNC_FLUSH slaves and tables wait for syncs, too, though no producer does.
            force = shared.get(SharedWatermark.WANTED) > self._core.flushed_offset
            next_step_ms = self._step(committed, appended, stored_ms, force=force)
            flushed = self._core.flushed_offset
            is_flushed = flushed > shared.get(SharedWatermark.FLUSHED)
            if is_flushed:
                shared.set(SharedWatermark.FLUSHED, flushed)
                if self._broker is not None:
                    self._broker.notify()
            self._write_durable()
        if self._durable is not None:
            note_ms = self._checkpoint_ms + CHECKPOINT_MS
            next_step_ms = note_ms if next_step_ms is None else min(note_ms, next_step_ms)
        self._timer.restart_at(next_step_ms, steady_ms())
