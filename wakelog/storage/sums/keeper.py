"""SumKeeper: what Retention's thread does next with the log's sums, and when it comes again.

    there is                               it                  comes again after
    something durable without a sum        sums a piece        COVER_PAUSE_MS
    nothing to sum, and comparing is on    compares a piece    what its rate gives
    a whole round compared                 -                   ROUND_PAUSE_MS
    neither                                -                   IDLE_PAUSE_MS
    a failure of the disk                  counts it           FAILED_PAUSE_MS

Between two pieces of a slow comparison it looks whether there is something to sum: that must
happen while the log is still in the page cache.

Source: none upstream.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.watermark import read_mark
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.sums.compare import ChangedBlock, Scrub
from wakelog.storage.sums.cover import Cover

COVER_BYTES: Final = 1 << 20
COVER_PAUSE_MS: Final = 10
"""So that a log that was there before is read at 90 MB a second at most, by a tenth of a core."""
COMPARE_BYTES: Final = 256 << 10
IDLE_PAUSE_MS: Final = 1_000
ROUND_PAUSE_MS: Final = 60_000
FAILED_PAUSE_MS: Final = 10_000
CHANGED_BLOCKS_KEPT_MAX: Final = 100
"""What somebody looks into by hand; `wakelog log verify` lists all."""


class SumStatistics(NamedTuple):
    """Frozen counters; changed_blocks_count counts places, however often they were seen."""

    summed_bytes: int
    compared_bytes: int
    compare_rounds_count: int
    changed_blocks_count: int
    sum_failures_count: int


class SumKeeper:
    """See the module. One owner, one thread."""

    def __init__(self, fs: FileSystem, config: StoreConfig) -> None:
        """Read nothing yet."""
        self._fs = fs
        self._watermark_path = config.paths.watermark
        self._bytes_per_second = config.scrub_bytes_per_second
        self._cover = Cover(fs, config)
        self._scrub = Scrub(fs, config)
        self._compare_at_ms = 0
        self._failures_count = 0
        self._changed: set[ChangedBlock] = set()
        self.news: deque[str] = deque(maxlen=CHANGED_BLOCKS_KEPT_MAX)

    def step(self, now_ms: int) -> int:
        """Do one piece of work; return after how many ms to come again.

        `news` gets a line for each changed block that is new, and for a failure.
        """
        try:
            mark = read_mark(self._fs, self._watermark_path)
            if self._cover.step(mark.physical_offset, COVER_BYTES):
                return COVER_PAUSE_MS
            if self._bytes_per_second and now_ms >= self._compare_at_ms:
                self._compare(now_ms)
        except StoreError as error:
            self._failures_count += 1
            self.news.append(f"sums: {error}")
            return FAILED_PAUSE_MS
        if not self._bytes_per_second:
            return IDLE_PAUSE_MS
        return max(1, min(IDLE_PAUSE_MS, self._compare_at_ms - now_ms))

    def statistics(self) -> SumStatistics:
        """Return frozen counters; for any thread."""
        return SumStatistics(
            summed_bytes=self._cover.covered_bytes,
            compared_bytes=self._scrub.compared_bytes,
            compare_rounds_count=self._scrub.rounds_count,
            changed_blocks_count=len(self._changed),
            sum_failures_count=self._failures_count,
        )

    def close(self) -> None:
        """Close the log's files."""
        self._cover.close()

    def _compare(self, now_ms: int) -> None:
        before_bytes = self._scrub.compared_bytes
        found, is_round = self._scrub.step(COMPARE_BYTES)
        compared_bytes = self._scrub.compared_bytes - before_bytes
        pause_ms = compared_bytes * 1000 // self._bytes_per_second
        self._compare_at_ms = now_ms + max(pause_ms, ROUND_PAUSE_MS if is_round else 1)
        for block in found:
            if block not in self._changed and len(self._changed) < CHANGED_BLOCKS_KEPT_MAX:
                self._changed.add(block)
                self.news.append(
                    f"the log differs from what was durable in [{block.begin}, {block.end}): "
                    "`wakelog log verify` says which messages that concerns"
                )
