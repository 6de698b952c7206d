"""The commit log: the one place where messages are appended, by one process, in one thread.

Source: org.apache.rocketmq.store.CommitLog (4.9.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from wakelog.storage.append import MessageDraft
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import NotWriteable
from wakelog.storage.file_system import FileSystem
from wakelog.storage.mapped_file_queue import MappedFileQueue
from wakelog.storage.results import PutResult


class SegmentSource(Protocol):
    """Who makes the next segment: the log itself, or an actor that was asked ahead of need."""

    def take(self, start_offset: int) -> str | None:
        """Return the path of a ready, full-length segment; None if it cannot be had now."""
        ...


class CommitLog:
    """Appends records to the last segment and rolls to the next. The only writer of the log."""

    def __init__(
        self,
        fs: FileSystem,
        config: StoreConfig,
        files: MappedFileQueue,
        *,
        end_offset: int,
        queue_offsets: dict[tuple[str, int], int],
        segments: SegmentSource | None = None,
    ) -> None:
        """Continue a recovered log.

        files: the segments, loaded and truncated; the log owns them from here on.
        end_offset: the physical offset behind the last sound record.
        queue_offsets: the next queue offset of each (topic, queue id), LMQ queues included; owned
            by the log from here on.
        """
        raise NotImplementedError

    def append(self, draft: MessageDraft, now_ms: int) -> PutResult:
        """Place one message behind the others; its bytes wait for `write_pending`."""
        raise NotImplementedError

    def append_batch(self, drafts: Sequence[MessageDraft], now_ms: int) -> PutResult:
        """Place messages of one topic and queue one behind the other in one file, all or none."""
        raise NotImplementedError

    def write_pending(self) -> int:
        """Write what was placed since the last call; return `appended_offset`.

        Raises: NotWriteable. Nothing placed since the last call then counts as appended, and the
        log takes no more.
        """
        raise NotWriteable("")

    @property
    def appended_offset(self) -> int:
        """The physical offset behind the last written record (in the pool, if one is in use)."""
        raise NotImplementedError

    @property
    def min_offset(self) -> int:
        """The first physical offset that is still there."""
        raise NotImplementedError

    @property
    def files(self) -> MappedFileQueue:
        """The segments, for readers in this process and for Flush's descriptors."""
        raise NotImplementedError

    @property
    def failure(self) -> str | None:
        """Why the log takes no messages, None while it does."""
        raise NotImplementedError

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset that the next message of a queue will get."""
        raise NotImplementedError

    def forget_queues(self, topic: str) -> None:
        """Drop a deleted topic's queue offsets: should it come back, it starts at 0."""
        raise NotImplementedError

    def close(self) -> None:
        """Write what is pending, remove an unused next segment, close the descriptors."""
        raise NotImplementedError
