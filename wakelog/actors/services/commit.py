"""Commit: copies the transient pool's buffers to the log's segments.

The Broker owns the buffers and says what to copy. Copying the same range again changes nothing, so
the Broker copies here when Commit is away. Without a transient pool there is no Commit.

Source: org.apache.rocketmq.store.CommitLog.CommitRealTimeService (4.9.3).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from wakelog.actors.services.client import ServiceClient, ServiceHandle, ServiceLost
from wakelog.actors.services.service import Service, Session
from wakelog.actors.transport.clocks import steady_ms
from wakelog.broker.trouble import Trouble
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.flush import GatherTimer
from wakelog.storage.log.transient_pool import CommitRange, copy_range
from wakelog.telemetry.logs import Log, News, logger

COMMIT_SECONDS_MAX = 2.0
"""How long Commit may take; copying a segment of 1 GiB takes less than a second."""

Piece = tuple[str, int, int, int, str]
"""Buffer's path, start of its segment, begin and end of what is copied, the segment's path."""


class CommitService(Service):
    """The service of `storage.log.transient_pool.copy_range`."""

    def __init__(self, session: Session) -> None:
        """Open nothing: each copy opens its own files."""
        super().__init__(session)
        self._copied_bytes = self._failed_count = 0

    def commit(self, pieces: Sequence[Piece]) -> str | None:
        """Copy pieces in their order; return None, or why not all were copied."""
        copied_bytes, failure = copy_pieces(self.fs, pieces)
        self._copied_bytes += copied_bytes
        self._failed_count += failure is not None
        return failure

    def counters(self) -> dict[str, Any]:
        """Return how much was copied and how often that failed."""
        return {"copied_bytes": self._copied_bytes, "failed_count": self._failed_count}


class CommitClient(ServiceClient):
    """Has the pool's buffers copied in time. For a store with a pool."""

    def __init__(self, handle: ServiceHandle, *, on_committed: Callable[[], None]) -> None:
        """Begin at the log's end: recovery has left everything in the segments.

        on_committed: called when the segments hold more.
        """
        super().__init__(handle)
        self._on_committed = on_committed
        assert handle.broker.store.transient_pool is not None
        self._pool = handle.broker.store.transient_pool
        self._files = handle.broker.store.log.files
        self._appended = handle.broker.store.max_physical_offset
        self._committed = self._appended
        config = handle.broker.plan.settings.store
        self._due = GatherTimer(
            steady_ms(),
            interval_ms=config.commit_interval_commit_log_ms,
            least_pages=config.commit_commit_log_least_pages,
            thorough_interval_ms=config.commit_commit_log_thorough_interval_ms,
            segment_bytes=config.commit_log_file_bytes,
        )
        self._errors = logger(Log.STORE)
        self._failures = News()
        self.own_count = 0

    def use_settings(self) -> None:
        """Copy by the new times; the service has none."""
        config, due = self.broker.plan.settings.store, self._due
        due.interval_ms = config.commit_interval_commit_log_ms
        due.least_pages = config.commit_commit_log_least_pages
        due.thorough_interval_ms = config.commit_commit_log_thorough_interval_ms

    def on_appended(self, physical_offset: int) -> None:
        """Note how far the buffers reach."""
        self._appended = physical_offset
        if not self.timer.is_running:
            self.worker.request()

    async def stop_work(self) -> None:
        """Copy no more; closing the store copies what is left."""
        self.timer.cancel()
        await self.worker.wait_idle()

    def statistics(self) -> dict[str, Any]:
        """Return how often the Broker copied."""
        return {"own_count": self.own_count}

    async def work(self) -> bool:
        """Have copied what is due."""
        appended = self._appended
        is_due = self._due.is_due(self._committed, appended, steady_ms())
        # A failed copy can be repeated: the next step tries again.
        if is_due and await self._copy(appended):
            self._committed = appended
            self._on_committed()
        if self._committed < self._appended:
            self.timer.restart_at(self._due.next_step_ms, steady_ms())
        return False

    async def _copy(self, physical_offset: int) -> bool:
        pieces: list[Piece] = []
        for piece in self._pool.pending(physical_offset):
            start_offset = piece.segment_start_offset
            segment = self._files.find(start_offset)
            assert segment is not None, piece
            pieces.append((piece.buffer_path, start_offset, piece.begin, piece.end, segment.path))
        try:
            failure = await self.call("commit", "commit", pieces, seconds_max=COMMIT_SECONDS_MAX)
        except ServiceLost:
            self.own_count += 1
            _, failure = await asyncio.to_thread(copy_pieces, self.broker.fs, pieces)
        if failure is not None:
            if self._failures.is_news(failure):
                self._errors.error("commit failed", cause=failure)
            self.set_trouble("copy", Trouble(failure))  # the call itself worked
            return False
        self._failures.clear()
        self.clear_trouble("copy")
        self._pool.on_committed(physical_offset)
        return True


def copy_pieces(fs: FileSystem, pieces: Sequence[Piece]) -> tuple[int, str | None]:
    """Copy pieces in their order; return how many bytes, and why not all of them."""
    copied_bytes = 0
    try:
        for buffer_path, start_offset, begin, end, segment_path in pieces:
            copy_range(fs, CommitRange(buffer_path, start_offset, begin, end), segment_path)
            copied_bytes += end - begin
    except StoreError as error:
        return copied_bytes, str(error)
    return copied_bytes, None
