"""When to copy the transient pool's buffers to the segments, and up to where.

`Commit` works between the log, which writes buffers, and Flush, which syncs segments. It decides by
positions and `now_ms`. `transient_pool.copy_range` does the copying, also in another process.

As in 4.9.3 it decides every `interval_ms`. It commits if `least_pages` pages of 4 KiB gathered, a
segment is full, or `thorough_interval_ms` passed since the last thorough commit.

Invariants: committed <= appended; one commit is under way at a time.

Source: org.apache.rocketmq.store.CommitLog.CommitRealTimeService,
MappedFile.isAbleToCommit (4.9.3).
"""

from __future__ import annotations

import msgspec

from wakelog.storage.config import PAGE_BYTES, StoreConfig


class CommitDecision(msgspec.Struct, frozen=True):
    """Commit up to `commit_to` now, or nothing if None; step again at `next_step_ms` at latest."""

    commit_to: int | None
    next_step_ms: int


class Commit:
    """The decisions of the commit service. No clock, no file.

    committed_offset: the segments hold every byte below it.
    """

    def __init__(self, config: StoreConfig, committed_offset: int, now_ms: int) -> None:
        """Start at what the segments hold now."""
        self._interval_ms = config.commit_interval_commit_log_ms
        self._least_pages = config.commit_commit_log_least_pages
        self._thorough_interval_ms = config.commit_commit_log_thorough_interval_ms
        self._segment_bytes = config.commit_log_file_bytes
        self.committed_offset = committed_offset
        self._under_way: int | None = None
        self._thorough_ms = now_ms
        self._next_step_ms = now_ms

    def step(self, appended_offset: int, now_ms: int) -> CommitDecision:
        """Decide what to do at `now_ms` with a log that ends at `appended_offset`."""
        assert self.committed_offset <= appended_offset, (self.committed_offset, appended_offset)
        if self._under_way is not None or now_ms < self._next_step_ms:
            return CommitDecision(None, max(self._next_step_ms, now_ms))
        self._next_step_ms = now_ms + self._interval_ms
        thorough = now_ms >= self._thorough_ms + self._thorough_interval_ms
        if thorough:
            self._thorough_ms = now_ms
        least_pages = 0 if thorough else self._least_pages
        if not enough_gathered(
            self.committed_offset, appended_offset, self._segment_bytes, least_pages=least_pages
        ):
            return CommitDecision(None, self._next_step_ms)
        self._under_way = appended_offset
        return CommitDecision(appended_offset, self._next_step_ms)

    def succeeded(self, physical_offset: int) -> None:
        """Note that a commit ended and the segments hold every byte below."""
        assert self._under_way == physical_offset
        self.committed_offset = physical_offset
        self._under_way = None

    def failed(self) -> None:
        """Note that a commit failed; the next step tries again, because a copy can be repeated."""
        self._under_way = None


def enough_gathered(
    begin_offset: int, end_offset: int, segment_bytes: int, *, least_pages: int
) -> bool:
    """Tell whether [begin, end) is worth a commit or a flush, as MappedFile decides.

    A full segment always is. Pages are counted by their borders: one byte on each side of a border
    counts as one page. With `least_pages` 0 any byte is enough.
    """
    if begin_offset // segment_bytes < end_offset // segment_bytes:
        return True
    if least_pages > 0:
        return end_offset // PAGE_BYTES - begin_offset // PAGE_BYTES >= least_pages
    return end_offset > begin_offset
