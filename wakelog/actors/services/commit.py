"""The Commit actor: copies the transient pool's buffers to the log's segments.

The Broker owns the buffers and says what is to be copied; copying again changes nothing.

Source: org.apache.rocketmq.store.CommitLog.CommitRealTimeService (4.9.3).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from wakelog.actors.services.broker_events import AttachRequest
from wakelog.actors.services.session import LockByte, Refused, ServiceSession, attached
from wakelog.actors.transport.service_plan import read_plan
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import RealFileSystem
from wakelog.storage.log.transient_pool import CommitRange, copy_range

SERVICE = "commit"

Piece = tuple[str, int, int, int, str]
"""Buffer's path, start of its segment, begin and end of what is copied, the segment's path."""


class CommitService:
    """The shell of `storage.transient_pool.copy_range`."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """Copy nothing until attached."""
        self._plan = read_plan(plan)
        self._fs = RealFileSystem()
        self._session: ServiceSession | None = None
        self._copied_bytes = 0
        self._failed_count = 0

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    def attach(self, attachment: dict[str, Any]) -> dict[str, Any]:
        """Work for this incarnation of the Broker."""
        self.release()
        self._session = ServiceSession(
            self._plan,
            SERVICE,
            msgspec.convert(attachment, AttachRequest),
            fs=self._fs,
            store=self._plan.settings.store,
            lock_byte=LockByte.COMMIT,
        )
        return attached()

    def release(self) -> None:
        """Copy no more."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def commit(self, epoch: int, pieces: Sequence[Piece]) -> str | None:
        """Copy pieces in their order; return why not all of them, None if all."""
        if self._session is None:
            raise Refused("not attached")
        self._session.check(epoch)
        try:
            for piece in pieces:
                copy_piece(self._fs, piece)
                self._copied_bytes += piece[3] - piece[2]
        except StoreError as error:
            self._failed_count += 1
            return str(error)
        return None

    def statistics(self) -> dict[str, Any]:
        """Return how much was copied and how often that failed."""
        return {"copied_bytes": self._copied_bytes, "failed_count": self._failed_count}


def copy_piece(fs: RealFileSystem, piece: Sequence[Any]) -> None:
    """Copy one piece. Raises: StoreFull, StoreFailed."""
    buffer_path, start_offset, begin, end, segment_path = piece
    copy_range(fs, CommitRange(buffer_path, start_offset, begin, end), segment_path)
