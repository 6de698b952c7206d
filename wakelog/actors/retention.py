"""The Retention actor: deletes expired segments, watches how full the disk is, and how sound.

Beside its runs a thread sums what became durable, and compares it slowly (`storage.sums`).

Source: org.apache.rocketmq.store.DefaultMessageStore.CleanCommitLogService (4.9.3).
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import msgspec

from wakelog.actors.links.links import Attachment
from wakelog.actors.links.service_plan import read_plan
from wakelog.actors.links.station import LockByte, Refused, Station, attached
from wakelog.actors.links.wall_clock import wall_ms
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem, RealFileSystem
from wakelog.storage.mapped_file_queue import MappedFileQueue
from wakelog.storage.retention.retention import Retention
from wakelog.storage.retention.retention_files import (
    look_at_store,
    remove_segment,
    retention_segments,
)
from wakelog.storage.sums.keeper import SumKeeper
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
            pause_ms = keeper.step(wall_ms())
            while keeper.news:
                self._errors.error(keeper.news.popleft())
        keeper.close()


class RetentionService:
    """The shell of `storage.retention`."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """Remove nothing until attached."""
        self._plan = read_plan(plan)
        self._store = self._plan.settings.store
        self._fs = RealFileSystem()
        self._station: Station | None = None
        self._core: Retention | None = None
        self._segments: MappedFileQueue | None = None
        self._sums: SumThread | None = None
        self._log = logger(Log.STORE)

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    def attach(self, attachment: dict[str, Any]) -> dict[str, Any]:
        """Work for this incarnation of the Broker; the first minute nothing is removed."""
        self.release()
        self._station = Station(
            self._plan,
            SERVICE,
            msgspec.convert(attachment, Attachment),
            fs=self._fs,
            store=self._store,
            lock_byte=LockByte.RETENTION,
        )
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
        self._segments = self._core = None
        if self._station is not None:
            self._station.close()
            self._station = None

    def run(self, epoch: int, appended: int, dispatched: int) -> dict[str, Any]:
        """Look at the disk, remove what may go, return a RetentionOutcome."""
        if self._station is None or self._core is None or self._segments is None:
            raise Refused("not attached")
        self._station.check(epoch)
        try:
            look = look_at_store(
                self._fs,
                self._store,
                self._segments,
                hour=time.localtime().tm_hour,
                appended=appended,
                dispatched=dispatched,
            )
            decision = self._core.step(look, wall_ms())
            removed = []
            for start_offset in decision.remove:
                path = remove_segment(self._fs, self._segments, start_offset)
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
                    begin=self._segments.min_offset,
                    derived_before=decision.derived_before,
                    disk_full=decision.disk_full,
                    next_step_ms=decision.next_step_ms,
                    removed=removed,
                )
            )
        )

    def statistics(self) -> dict[str, Any]:
        """Return the counters of both cores."""
        if self._core is None or self._sums is None:
            return {}
        sums = self._sums.keeper.statistics()
        return {**msgspec.to_builtins(self._core.statistics()), **sums._asdict()}
