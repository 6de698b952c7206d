"""When to sync the log, up to where, and the syncing itself.

`Flush` decides by positions and `now_ms`. `SegmentSync` calls fdatasync on the segments'
descriptors, oldest first. The log writes the segments, or Commit where there is a transient pool.

- Asynchronous flush waits until enough has gathered (`GatherTimer`, which Commit uses as well).
- Synchronous flush (group commit) flushes at once what gathered while the last flush ran.

Invariants:
- flushed <= committed <= appended.
- One flush is under way at a time.
- After a failed sync `flushed` never moves again. Linux reports a write-back error once and then
  calls the pages clean. So a second sync that succeeds proves nothing.

Source: org.apache.rocketmq.store.CommitLog.FlushRealTimeService, CommitRealTimeService,
GroupCommitService, MappedFile.isAbleToFlush, isAbleToCommit (4.9.3). 4.9.3 moves its flushed
position after a failed force(), and acknowledges.
"""

import msgspec

from wakelog.storage.config import PAGE_BYTES, StoreConfig
from wakelog.storage.errors import NotWriteable, store_failure
from wakelog.storage.file_system import FileSystem


class GatherTimer:
    """When what gathered is worth a flush, or a commit of the transient pool. No clock.

    It is worth one every `interval_ms`, if `least_pages` pages of 4 KiB gathered, a segment is
    full, or `thorough_interval_ms` passed since any byte was enough.

    next_step_ms: nothing is worth it before. The settings may be set anew.
    """

    def __init__(
        self,
        now_ms: int,
        *,
        interval_ms: int,
        least_pages: int,
        thorough_interval_ms: int,
        segment_bytes: int,
    ) -> None:
        self.interval_ms = interval_ms
        self.least_pages = least_pages
        self.thorough_interval_ms = thorough_interval_ms
        self._segment_bytes = segment_bytes
        self._thorough_ms = self.next_step_ms = now_ms

    def is_due(self, begin_offset: int, end_offset: int, now_ms: int) -> bool:
        """Return whether [begin, end) of the log is worth it at `now_ms`.

        Pages are counted by their borders: one byte on each side of a border counts as one page.
        """
        if now_ms < self.next_step_ms:
            return False
        self.next_step_ms = now_ms + self.interval_ms
        least_pages = self.least_pages
        if now_ms >= self._thorough_ms + self.thorough_interval_ms:
            self._thorough_ms = now_ms
            least_pages = 0
        if begin_offset // self._segment_bytes < end_offset // self._segment_bytes:
            return True
        pages_count = end_offset // PAGE_BYTES - begin_offset // PAGE_BYTES
        return end_offset > begin_offset and pages_count >= least_pages


class FlushDecision(msgspec.Struct, frozen=True):
    """Sync up to `flush_to` now, or nothing if None; step again at `next_step_ms` at latest.

    `next_step_ms` is None where only a new position or the end of a flush can change the decision.
    """

    flush_to: int | None
    next_step_ms: int | None


class Flush:
    """The decisions of the flush service. No clock, no file.

    flushed_offset: every byte of the log below it is durable.
    failure: why nothing will be flushed any more, None while all is well.
    """

    def __init__(self, config: StoreConfig, flushed_offset: int, now_ms: int) -> None:
        self._synchronous = config.synchronous_flush
        self._timer = GatherTimer(
            now_ms,
            interval_ms=config.flush_interval_commit_log_ms,
            least_pages=config.flush_commit_log_least_pages,
            thorough_interval_ms=config.flush_commit_log_thorough_interval_ms,
            segment_bytes=config.commit_log_file_bytes,
        )
        self.flushed_offset = flushed_offset
        self._under_way: int | None = None
        self.failure: str | None = None
        self._flush_count = 0

    def use_settings(self, config: StoreConfig) -> None:
        """Wait by these settings from now on."""
        timer = self._timer
        timer.interval_ms = config.flush_interval_commit_log_ms
        timer.least_pages = config.flush_commit_log_least_pages
        timer.thorough_interval_ms = config.flush_commit_log_thorough_interval_ms

    def step(
        self, *, committed_offset: int, appended_offset: int, now_ms: int, force: bool = False
    ) -> FlushDecision:
        """Decide what to do at `now_ms`.

        committed_offset: how far the segments hold the log; without a pool, `appended_offset`.
        force: flush now all that gathered, as a stop does.
        """
        assert self.flushed_offset <= committed_offset <= appended_offset, (
            self.flushed_offset,
            committed_offset,
            appended_offset,
        )
        if self.failure is not None or self._under_way is not None:
            return FlushDecision(None, None)
        next_step_ms: int | None = None
        if self._synchronous or force:
            is_due = committed_offset > self.flushed_offset
        else:
            is_due = self._timer.is_due(self.flushed_offset, committed_offset, now_ms)
            next_step_ms = self._timer.next_step_ms
        if is_due:
            self._under_way = committed_offset
        return FlushDecision(self._under_way, next_step_ms)

    def known_durable(self, physical_offset: int) -> None:
        """Note that another process made the log durable up to here: there is less to flush."""
        if self.failure is None:
            assert self._under_way is None
            self.flushed_offset = max(self.flushed_offset, physical_offset)

    def succeeded(self, physical_offset: int) -> None:
        """Note that the flush under way succeeded."""
        assert self._under_way == physical_offset and self.failure is None
        self._under_way = None
        self.flushed_offset = physical_offset
        self._flush_count += 1

    def failed(self, cause: str) -> None:
        """Note that a flush failed, or that its outcome is unknown, which counts as failed."""
        self._under_way = None
        self.failure = self.failure or cause

    def statistics(self) -> dict[str, int | str | None]:
        """Return what Flush did since it was made."""
        return {
            "flushed_offset": self.flushed_offset,
            "flush_count": self._flush_count,
            "failure": self.failure,
        }


class SegmentSync:
    """Syncs segments through the writer's descriptors, oldest first.

    They must be the writer's own, or duplicates of them. Linux reports a write-back error once for
    each open file description, and one opened later may never get it.
    """

    def __init__(self, fs: FileSystem, segment_bytes: int) -> None:
        self._fs = fs
        self._segment_bytes = segment_bytes
        self._fds: dict[int, int] = {}
        self._failure: str | None = None

    @property
    def start_offsets(self) -> list[int]:
        """The segments whose descriptors are held, ascending."""
        return sorted(self._fds)

    def adopt(self, start_offset: int, fd: int) -> None:
        """Take the descriptor of the segment that starts at `start_offset`, to be closed here."""
        assert start_offset % self._segment_bytes == 0, start_offset
        self.release(start_offset)
        self._fds[start_offset] = fd

    def release(self, start_offset: int) -> None:
        """Close a segment's descriptor if there is one."""
        fd = self._fds.pop(start_offset, None)
        if fd is not None:
            self._fs.close(fd)

    def sync(self, begin_offset: int, end_offset: int) -> None:
        """Make [begin, end) of the log durable.

        Segments below `begin_offset` are released: they were synced before and are never written
        again. Raises: StoreFailed when a sync fails, NotWriteable ever after.
        """
        if self._failure is not None:
            raise NotWriteable(self._failure)
        if begin_offset >= end_offset:
            return
        first = begin_offset - begin_offset % self._segment_bytes
        for start_offset in self.start_offsets:
            if start_offset < first:
                self.release(start_offset)
        for start_offset in range(first, end_offset, self._segment_bytes):
            fd = self._fds.get(start_offset)
            assert fd is not None, f"no descriptor of the segment at {start_offset}"
            try:
                self._fs.datasync(fd)
            except OSError as error:
                failure = store_failure(f"segment {start_offset}", "sync", error)
                self._failure = str(failure)
                raise failure from error

    def close(self) -> None:
        """Close every descriptor."""
        for start_offset in self.start_offsets:
            self.release(start_offset)
