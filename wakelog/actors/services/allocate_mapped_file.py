"""The AllocateMappedFile actor: makes the log's next segments before they are needed.

Source: org.apache.rocketmq.store.AllocateMappedFileService (4.9.3).
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from wakelog.actors.services.broker_events import AttachRequest
from wakelog.actors.services.session import LockByte, Refused, ServiceSession, attached
from wakelog.actors.transport.service_plan import read_plan
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import RealFileSystem
from wakelog.storage.log.allocate import clean_unfinished, make_segment

SERVICE = "allocate_mapped_file"


class AllocateMappedFileService:
    """The shell of `storage.allocate.make_segment`."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """Make nothing until attached."""
        self._plan = read_plan(plan)
        self._store = self._plan.settings.store
        self._fs = RealFileSystem()
        self._session: ServiceSession | None = None
        self._made_count = 0
        self._failed_count = 0

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    def attach(self, attachment: dict[str, Any]) -> dict[str, Any]:
        """Remove what an incarnation that died left half made, and be ready."""
        self.release()
        self._session = ServiceSession(
            self._plan,
            SERVICE,
            msgspec.convert(attachment, AttachRequest),
            fs=self._fs,
            store=self._store,
            lock_byte=LockByte.ALLOCATE_MAPPED_FILE,
        )
        clean_unfinished(self._fs, self._store.paths, SERVICE)
        return attached()

    def release(self) -> None:
        """Make no more."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def make(self, epoch: int, path: str) -> str | None:
        """Make the segment at `path` unless it is there; return why not, None if it is there."""
        if self._session is None:
            raise Refused("not attached")
        self._session.check(epoch)
        temporary_path = self._store.paths.new_file(path, SERVICE)
        size_bytes = self._store.commit_log_file_bytes
        try:
            made = make_segment(self._fs, path, size_bytes, temporary_path=temporary_path)
        except StoreError as error:
            self._failed_count += 1
            return str(error)
        self._made_count += made
        return None

    def statistics(self) -> dict[str, Any]:
        """Return how many segments were made and how many could not be."""
        return {"made_count": self._made_count, "failed_count": self._failed_count}
