"""The Retention actor: deletes expired segments, watches how full the disk is, and how sound.

Beside its runs a thread sums what became durable, and compares it slowly (`sum_keeper`).

It also keeps the leases of those who read segments from outside, and takes snapshots for them: the
one who removes is asked what stays, so that no segment goes between the answer and its use.

Source: org.apache.rocketmq.store.DefaultMessageStore.CleanCommitLogService (4.9.3).
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from typing import Any

import msgspec

from wakelog.actors.services.broker_events import AttachRequest
from wakelog.actors.services.session import LockByte, Refused, ServiceSession, attached
from wakelog.actors.transport.clocks import SteadyClock, steady_ms, wall_ms
from wakelog.actors.transport.service_plan import read_plan
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.sum_keeper import SumKeeper
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem, RealFileSystem
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.retention.leases import LeaseBook
from wakelog.storage.retention.retention import HOUR_MS, AgeClock, Retention, RetentionDecision
from wakelog.storage.retention.retention_files import (
    read_retention_input,
    remove_segment,
    retention_segments,
)
from wakelog.storage.retention.snapshot import VERSION, Snapshot, SnapshotSegment
from wakelog.telemetry.logs import Log, logger

SERVICE = "retention"


class RetentionOutcome(msgspec.Struct, frozen=True):
    """What a run came to.

    begin: the log's first byte now.
    derived_before: what queues and index hold of the log below it is to be removed by Reput.
    """

    begin: int
    derived_before: int | None
    disk_full: bool
    next_step_ms: int
    removed: list[str]


class SumThread:
    """The thread that steps a `SumKeeper` until it is stopped."""

    def __init__(self, fs: FileSystem, config: StoreConfig) -> None:
        """Start."""
        self.keeper = SumKeeper(fs, config)
        self._stopping = threading.Event()
        self._errors = logger(Log.STORE_ERROR)
        self._thread = threading.Thread(target=self._run, name="sums", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Wait for the piece under way, and end."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        keeper = self.keeper
        pause_ms = 0
        while not self._stopping.wait(pause_ms / 1000):
            pause_ms = keeper.step(steady_ms())
            while keeper.news:
                self._errors.error(keeper.news.popleft())
        keeper.close()


class LeaseRequest(msgspec.Struct, frozen=True):
    """What a reader asks for: the log from `begin`, None for its first byte, up to `end`.

    end: durable, and a place where a record ends; `begin` is such a place too.
    """

    holder: str
    begin: int | None
    end: int


class RetentionService:
    """The shell of `storage.retention`."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """Remove nothing until attached."""
        self._plan = read_plan(plan)
        self._store = self._plan.settings.store
        self._fs = RealFileSystem()
        reserved_ms = self._store.file_reserved_hours * HOUR_MS
        self._age_clock = AgeClock(reserved_ms, wall_ms(), steady_ms())
        self._session: ServiceSession | None = None
        self._core: Retention | None = None
        self._segments: MappedFileQueue | None = None
        self._sums: SumThread | None = None
        self._book: LeaseBook | None = None
        # A clock that is set ahead by ten minutes would end the leases of all who read.
        self._lease_clock = SteadyClock()
        self._log = logger(Log.STORE)

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    def attach(self, attachment: dict[str, Any]) -> dict[str, Any]:
        """Work for this incarnation of the Broker; the first minute nothing is removed."""
        self.release()
        told = msgspec.convert(attachment, AttachRequest)
        self._session = ServiceSession(
            self._plan,
            SERVICE,
            told,
            fs=self._fs,
            store=self._store,
            lock_byte=LockByte.RETENTION,
        )
        self._store_id = told.store_id
        self._lease_clock = SteadyClock()
        try:
            self._book = LeaseBook(self._fs, self._store.paths, self._lease_clock.now_ms())
        except StoreError as error:
            self.release()
            raise Refused(str(error)) from None
        if self._book.was_unreadable:
            self._log.error("leases not understood: none holds", path=self._store.paths.leases)
        self._core = Retention(self._store, wall_ms())
        self._segments = retention_segments(self._fs, self._store)
        self._sums = SumThread(self._fs, self._store)
        return attached()

    def release(self) -> None:
        """Remove and compare no more."""
        if self._sums is not None:
            self._sums.stop()
            self._sums = None
        if self._segments is not None:
            self._segments.close()
        self._segments = self._core = self._book = None
        if self._session is not None:
            self._session.close()
            self._session = None

    def run(self, epoch: int, appended: int, dispatched: int) -> dict[str, Any]:
        """Look at the disk, remove what may go, return a RetentionOutcome."""
        session, core, segments, book = self._attached()
        session.check(epoch)
        try:
            book.expire(self._lease_clock.now_ms())
            look = read_retention_input(
                self._fs,
                self._store,
                segments,
                hour=time.localtime().tm_hour,
                appended=appended,
                dispatched=dispatched,
                leased_from=book.held_from,
            )
            decision = core.step(look, self._age_clock.aging_ms(wall_ms(), steady_ms()))
            self._end_leases(decision)
            removed = []
            for start_offset in decision.remove:
                path = remove_segment(self._fs, segments, start_offset)
                if path is not None:
                    removed.append(path)
                    self._log.info("segment removed", path=path, reasons=decision.reasons)
                    time.sleep(decision.pause_ms / 1000)
        except StoreError as error:
            self._log.error("retention failed", cause=str(error))
            raise Refused(str(error)) from None
        return dict(
            msgspec.to_builtins(
                RetentionOutcome(
                    begin=segments.min_offset,
                    derived_before=decision.derived_before,
                    disk_full=decision.disk_full,
                    next_step_ms=decision.next_step_ms,
                    removed=removed,
                )
            )
        )

    def lease(self, epoch: int, request: dict[str, Any]) -> dict[str, Any]:
        """Keep part of the log for a reader.

        Return {"snapshot": what is kept} or {"refused": why nothing is}.
        """
        session, _, segments, book = self._attached()
        session.check(epoch)
        wanted = msgspec.convert(request, LeaseRequest)
        try:
            segments.refresh()
            begin = segments.min_offset if wanted.begin is None else wanted.begin
            if begin < segments.min_offset:
                return {"refused": f"the log begins at {segments.min_offset} now, not at {begin}"}
            if begin > wanted.end:
                return {"refused": f"the log ends at {wanted.end}, before {begin}"}
            if any(file.is_missing and file.end_offset > begin for file in segments.files):
                return {"refused": "segments are missing in the middle of the log"}
            lease = book.grant(
                uuid.uuid4().hex,
                wanted.holder,
                begin=begin,
                end=wanted.end,
                now_ms=self._lease_clock.now_ms(),
            )
        except StoreError as error:
            return {"refused": str(error)}
        if lease is None:
            return {"refused": "as many leases hold as there may be at once"}
        snapshot = Snapshot(
            version=VERSION,
            broker=self._plan.name,
            store_id=self._store_id,
            root=self._store.paths.root,
            begin=begin,
            end=wanted.end,
            lease_id=lease.lease_id,
            expires_ms=lease.expires_ms,
            segments=tuple(
                SnapshotSegment(file.path, file.start_offset, file.end_offset)
                for file in segments.files
                if file.end_offset > begin and file.start_offset < wanted.end
            ),
        )
        return {"snapshot": snapshot.to_builtins()}

    def renew_lease(self, epoch: int, lease_id: str) -> dict[str, Any]:
        """Keep on; return {"expires_ms": until when} or {"refused": why not}."""
        session, _, _, book = self._attached()
        session.check(epoch)
        try:
            lease = book.renew(lease_id, self._lease_clock.now_ms())
        except StoreError as error:
            return {"refused": str(error)}
        if lease is None:
            return {"refused": "there is no such lease any more: it was not renewed in time"}
        return {"refused": lease.lost} if lease.lost else {"expires_ms": lease.expires_ms}

    def end_lease(self, epoch: int, lease_id: str) -> dict[str, Any]:
        """Keep no more; return {"ended": whether there was such a lease} or {"refused": why}."""
        session, _, _, book = self._attached()
        session.check(epoch)
        try:
            return {"ended": book.end(lease_id)}
        except StoreError as error:
            return {"refused": str(error)}

    def statistics(self) -> dict[str, Any]:
        """Return the cores' counters."""
        if self._core is None or self._book is None or self._sums is None:
            return {}
        leases = msgspec.to_builtins(self._book.statistics())
        sums = self._sums.keeper.statistics()._asdict()
        return {**msgspec.to_builtins(self._core.statistics()), **sums, "leases": leases}

    def _attached(self) -> tuple[ServiceSession, Retention, MappedFileQueue, LeaseBook]:
        """Return what there is while attached. Raises: Refused."""
        if (
            self._session is None
            or self._core is None
            or self._segments is None
            or self._book is None
        ):
            raise Refused("not attached")
        return self._session, self._core, self._segments, self._book

    def _end_leases(self, decision: RetentionDecision) -> None:
        """Tell whom it concerns, before anything goes, what a full disk takes from them.

        A disk so full may refuse to be written; then the file says so at a later run.
        """
        _, core, segments, book = self._attached()
        ends = {file.start_offset: file.end_offset for file in segments.files}
        gone_before = max((ends.get(offset, 0) for offset in decision.remove), default=0)
        used = core.statistics()
        percent = max(used.log_used_percent, used.queue_used_percent)
        for lease in book.lose_below(gone_before, f"a disk of the store was {percent} % full"):
            self._log.warning("lease lost", holder=lease.holder, begin=lease.begin, end=lease.end)
        try:
            book.save_changes()
        except StoreError as error:
            self._log.error("leases not saved", cause=str(error))
