"""Retention: deletes expired segments, and checks how full the disk is and whether data changed.

A second thread computes checksums of what became durable, and slowly compares the log with them
(`sum_keeper`).

Retention also grants leases to programs that read segments from outside. The process that removes
segments also grants the leases, so no segment is removed between a grant and the first read.

Source: org.apache.rocketmq.store.DefaultMessageStore.CleanCommitLogService (4.9.3).
"""

import asyncio
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from wakelog.actors.services.client import ServiceClient, ServiceHandle, ServiceLost
from wakelog.actors.services.service import Service, Session
from wakelog.actors.transport.clocks import steady_ms, wall_ms
from wakelog.network.background import log_failure, start_thread
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.sum_keeper import SumKeeper, SumStatistics
from wakelog.storage.errors import StoreError
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.retention.leases import LeaseBook
from wakelog.storage.retention.retention import HOUR_MS, AgeClock, Retention, RetentionDecision
from wakelog.storage.retention.retention_files import (
    read_retention_input,
    remove_segment,
)
from wakelog.storage.retention.snapshot import VERSION, Snapshot, SnapshotSegment
from wakelog.telemetry.logs import Log, News, logger
from wakelog.typed_values import convert

SUMS_AGAIN_MS: Final = 60_000
"""The pause before sums are kept again after an unexpected error."""


class RetentionOutcome(msgspec.Struct, frozen=True):
    """The result of a run.

    begin: the log's first byte now.
    derived_before: Reput must remove what queues and index hold of the log below it.
    sums: what the other thread has done until now.
    """

    begin: int
    derived_before: int | None
    disk_full: bool
    sums: SumStatistics | None = None


class RetentionService(Service):
    """The service of `storage.retention`."""

    def __init__(self, session: Session) -> None:
        """Begin; in the first minute nothing is removed."""
        super().__init__(session)
        request, before = session.request, session.before
        reserved_ms = self.store.file_reserved_hours * HOUR_MS
        self._age_clock = AgeClock(reserved_ms, wall_ms(), steady_ms())
        if isinstance(before, RetentionService):
            self._age_clock = before._age_clock  # the wall clock may have been set since
        self._log = logger(Log.STORE)
        self._errors = logger(Log.STORE_ERROR)
        self._failures, self._lease_failures = News(), News()
        self._store_id = request.store_id
        self._ahead_ms = wall_ms() - steady_ms()
        self._book = LeaseBook(self.fs, self.store.paths, self._lease_ms())
        if self._book.was_unreadable:
            self._log.error(
                "lease file unreadable, all leases dropped", path=self.store.paths.leases
            )
        self._core = Retention(self.store, wall_ms())
        self.settings_changed(self.store)
        self._segments = self.closing(commit_log_files(self.fs, self.store, read_only=True))
        self._sums = SumKeeper(self.fs, self.store)
        stopping = threading.Event()
        work = partial(self._keep_sums, self._sums, stopping)
        thread = start_thread(work, log_failure(self._errors, "sums"), name="sums")
        self.on_release(thread.join)  # it ends after the piece under way
        self.on_release(stopping.set)

    def settings_changed(self, before: StoreConfig) -> bool:
        """Decide by the new settings."""
        self._core.change_settings(self.store)
        self._age_clock.reserved_ms = self.store.file_reserved_hours * HOUR_MS
        return False

    def run(self, appended: int, dispatched: int) -> RetentionOutcome:
        """Check the disk and remove what may go."""
        core, segments, book = self._core, self._segments, self._book
        try:
            book.expire(self._lease_ms())
            found = read_retention_input(
                self.fs,
                self.store,
                segments,
                hour=time.localtime().tm_hour,
                appended=appended,
                dispatched=dispatched,
                leased_from=book.held_from,
            )
            decision = core.step(found, self._age_clock.aging_ms(wall_ms(), steady_ms()))
            self._end_leases(decision)
            for start_offset in decision.remove:
                path = remove_segment(self.fs, segments, start_offset)
                if path is not None:
                    self._log.info("segment removed", path=path, reasons=decision.reasons)
                    time.sleep(decision.pause_ms / 1000)
        except StoreError as error:
            if self._failures.is_news(str(error)):
                self._log.error("retention failed", cause=str(error))
            raise
        self._failures.clear()
        return RetentionOutcome(
            segments.min_offset,
            decision.derived_before,
            decision.disk_full,
            self._sums.statistics(),
        )

    def lease(self, holder: str, wanted_begin: int | None, end: int) -> dict[str, Any]:
        """Keep part of the log for a reader.

        wanted_begin: None for the log's first byte, else a place where a record ends, as `end` is.
        end: durable.

        Return {"snapshot": what is kept} or {"refused": why nothing is}.
        """
        segments = self._segments
        try:
            segments.refresh()
            begin = segments.min_offset if wanted_begin is None else wanted_begin
            if begin < segments.min_offset:
                return {"refused": f"the log begins at {segments.min_offset} now, not at {begin}"}
            if begin > end:
                return {"refused": f"the log ends at {end}, before {begin}"}
            if any(file.is_missing and file.end_offset > begin for file in segments.files):
                return {"refused": "segments are missing in the middle of the log"}
            now_ms = self._lease_ms()
            lease = self._book.grant(uuid.uuid4().hex, holder, begin=begin, end=end, now_ms=now_ms)
        except StoreError as error:
            return {"refused": str(error)}
        if lease is None:
            return {"refused": "as many leases hold as there may be at once"}
        snapshot = Snapshot(
            version=VERSION,
            broker=self.plan.settings.broker.broker_name,
            store_id=self._store_id,
            root=self.store.paths.root,
            begin=begin,
            end=end,
            lease_id=lease.lease_id,
            expires_ms=lease.expires_ms,
            segments=tuple(
                SnapshotSegment(file.path, file.start_offset, file.end_offset)
                for file in segments.files
                if file.end_offset > begin and file.start_offset < end
            ),
        )
        return {"snapshot": snapshot.to_builtins()}

    def renew_lease(self, lease_id: str) -> dict[str, Any]:
        """Extend a lease; return {"expires_ms": until when} or {"refused": why not}."""
        try:
            lease = self._book.renew(lease_id, self._lease_ms())
        except StoreError as error:
            return {"refused": str(error)}
        if lease is None:
            return {"refused": "there is no such lease any more: it was not renewed in time"}
        return {"refused": lease.lost} if lease.lost else {"expires_ms": lease.expires_ms}

    def end_lease(self, lease_id: str) -> dict[str, Any]:
        """End a lease; return {"ended": whether there was such a lease} or {"refused": why}."""
        try:
            return {"ended": self._book.end(lease_id)}
        except StoreError as error:
            return {"refused": str(error)}

    def counters(self) -> dict[str, Any]:
        """Return the cores' counters."""
        leases = msgspec.to_builtins(self._book.statistics())
        sums = self._sums.statistics()._asdict()
        return {**msgspec.to_builtins(self._core.statistics()), **sums, "leases": leases}

    def _keep_sums(self, keeper: SumKeeper, stopping: threading.Event) -> None:
        pause_ms = 0
        while not stopping.wait(pause_ms / 1000):
            try:
                pause_ms = keeper.step(steady_ms())
            except Exception as error:
                self._errors.error("sums not kept", exc_info=error)
                pause_ms = SUMS_AGAIN_MS
            while keeper.news:
                self._errors.error(keeper.news.popleft())
        keeper.close()

    def _lease_ms(self) -> int:
        """Return milliseconds since 1970 by a clock that is never set.

        With the wall clock, setting it ahead by ten minutes would end every lease.
        """
        return self._ahead_ms + steady_ms()

    def _end_leases(self, decision: RetentionDecision) -> None:
        """End the leases of segments that a full disk removes, before they are removed.

        A full disk may refuse the write of the lease file; then a later run writes it.
        """
        core, segments, book = self._core, self._segments, self._book
        ends = {file.start_offset: file.end_offset for file in segments.files}
        gone_before = max((ends.get(offset, 0) for offset in decision.remove), default=0)
        used = core.statistics()
        percent = max(used.log_used_percent, used.queue_used_percent)
        for lease in book.lose_below(gone_before, f"a disk of the store was {percent} % full"):
            self._log.warning("lease lost", holder=lease.holder, begin=lease.begin, end=lease.end)
        try:
            book.save_changes()
            self._lease_failures.clear()
        except StoreError as error:
            if self._lease_failures.is_news(str(error)):
                self._log.error("leases not saved", cause=str(error))


class RetentionClient(ServiceClient):
    """Runs Retention every clean-resource interval, and passes on requests for leases.

    Reput removes from queues and index what was removed of the log, because it writes those files.
    """

    lease_seconds_max: float = 15.0
    """How long Retention may take to be attached, and then to answer. A run that is under way
    removes up to ten segments, with a pause after each."""

    def __init__(
        self,
        handle: ServiceHandle,
        *,
        call_reput: Callable[..., Awaitable[Any]],
        on_retained: Callable[[int, bool], None],
    ) -> None:
        """Remove nothing yet.

        call_reput: calls a method of Reput.
        on_retained: called with where the log begins now, and whether the disk is full.
        """
        super().__init__(handle)
        self._call_reput, self._on_retained = call_reput, on_retained
        self._config = handle.broker.plan.settings.store
        self._trim_before = 0
        self.sums: SumStatistics | None = None

    def on_attached(self, answer: Mapping[str, Any]) -> None:
        """Check the disk now."""
        self.worker.request()

    def use_settings(self) -> None:
        """Have them used, and the next run's time follow them."""
        super().use_settings()
        if self.timer.is_running:
            self.timer.restart(self._config.clean_resource_interval_ms / 1000)

    async def call_lease(self, method: str, *arguments: Any) -> dict[str, Any]:
        """Call a method about leases and return its answer. Raises: ServiceLost."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.lease_seconds_max):
                await self.wait_attached()
        found = await self.call("lease", method, *arguments, seconds_max=self.lease_seconds_max)
        return dict(found)

    async def stop_work(self) -> None:
        """Run no more."""
        await self.worker.wait_idle()
        self.timer.cancel()

    async def work(self) -> bool:
        """Have Retention run, and Reput remove what is derived from removed segments."""
        try:
            # The slowest dispatcher, plug-ins included, decides what may go.
            floor = await self._call_reput("retention", "floor")
            log_end = self.broker.store.log.appended_offset
            answer = await self.call("retention", "run", log_end, floor)
            outcome = convert(answer, RetentionOutcome)
            self.sums = outcome.sums
            self._on_retained(outcome.begin, outcome.disk_full)
            self._trim_before = max(self._trim_before, outcome.derived_before or 0)
            if self._trim_before:
                trimmed = await self._call_reput("retention", "trim", self._trim_before)
                if trimmed is not None:
                    self._trim_before = 0
        except ServiceLost:
            pass  # what is to be trimmed is remembered
        self.timer.restart(self._config.clean_resource_interval_ms / 1000)
        return False
