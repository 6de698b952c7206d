"""Makes queues and index from the log alone, in a folder of their own, and says what the log is.

What a broker that starts over a copied log does, without the broker: nothing of the store is
written, and what it has of queues and index does not count. `verify` compares the result with
what the store has; `wakelog log rebuild` puts it in its place.

Invariants:
- The store is only read. Everything new lies below `target`, which has to be empty.
- The log's end is behind its last sound record; what is written behind that is the tail.

Source: org.apache.rocketmq.store.DefaultMessageStore.ReputMessageService (4.9.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from wakelog.dispatchers import core_dispatchers
from wakelog.dispatchers.body_check import BodyCheck, DamagedBody
from wakelog.dispatchers.dispatcher import CoreDispatcher
from wakelog.dispatchers.filter_bitmap import FilterSource
from wakelog.dispatchers.log_cursor import BadStretch
from wakelog.dispatchers.read_ahead import Worker
from wakelog.dispatchers.reput import Reput
from wakelog.storage.commit_log_reader import CommitLogReader
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem

if TYPE_CHECKING:
    from wakelog.storage.bulk.loader import Kernels

STEP_BYTES_MAX: Final = 64 << 20
_TAIL_PIECE_BYTES: Final = 8 << 20


class LogReport(NamedTuple):
    """What the log holds.

    end: behind the last sound record, or behind the segment that it ends.
    tail_bytes: how many bytes behind the end, up to the last that is not zero.
    bad_stretches: the last of those counted, in front of the end.
    """

    begin: int
    end: int
    records_count: int
    tail_bytes: int
    bad_stretches_count: int
    bad_stretches: tuple[BadStretch, ...]
    size_mismatches_count: int
    damaged_bodies_count: int
    damaged_bodies: tuple[DamagedBody, ...]


class Rebuild:
    """Goes through the log step by step; `finish` when `step` says that nothing is left."""

    def __init__(
        self,
        fs: FileSystem,
        config: StoreConfig,
        target: str,
        *,
        kernels: Callable[[], Kernels | None] = lambda: None,
        worker: Worker | None = None,
        filters: FilterSource | None = None,
    ) -> None:
        """Open the log; `target` is the folder that gets consumequeue/ and index/.

        filters: what the bitmaps of extension units are calculated of, where there are units.
        """
        self.config = msgspec.structs.replace(
            config,
            store_path_root=target,
            store_path_commit_log=",".join(config.paths.commit_log_directories),
        )
        self._log = CommitLogReader(fs, self.config)
        self._bodies = BodyCheck(self._log)
        derived = core_dispatchers(fs, self.config, self._log, filters=filters)
        self._dispatchers: list[CoreDispatcher] = [self._bodies, *derived]
        self._reput = Reput(
            fs, self._log, self._dispatchers, self.config, kernels=kernels, worker=worker
        )
        self.total_bytes = self._log.max_file_end - self._log.min_offset
        self._reput.start(self._log.max_file_end, clean_exit=True)

    @property
    def done_bytes(self) -> int:
        """How much of `total_bytes` was looked at."""
        return self._reput.position - self._log.min_offset

    def step(self, now_ms: int) -> bool:
        """Go through some more of the log; False when all of it was. Raises: StoreError."""
        limit = self._log.max_file_end
        return self._reput.step(limit, STEP_BYTES_MAX, now_ms, confirm_offset=limit).more

    def finish(self) -> LogReport:
        """Make the new files durable, and return what the log holds. Raises: StoreError."""
        self._reput.flush()
        cursor = self._reput.statistics().cursor
        begin, end = self._log.min_offset, self._log.max_file_end
        stretches = list(cursor.bad_stretches)
        while stretches and stretches[-1].end == end:
            end = stretches.pop().begin
        tail_stretches = len(cursor.bad_stretches) - len(stretches)
        return LogReport(
            begin=begin,
            end=end,
            records_count=cursor.records_count,
            tail_bytes=self._written_behind(end),
            bad_stretches_count=cursor.bad_stretches_count - tail_stretches,
            bad_stretches=tuple(stretches),
            size_mismatches_count=cursor.size_mismatches_count,
            damaged_bodies_count=self._bodies.damaged_count,
            damaged_bodies=tuple(self._bodies.damaged),
        )

    def close(self) -> None:
        """Close all files; the worker has to be idle."""
        self._reput.settle()
        for dispatcher in self._dispatchers:
            dispatcher.close()
        self._log.close()

    def _written_behind(self, end: int) -> int:
        position, written = end, 0
        while data := self._log.read_span(position, _TAIL_PIECE_BYTES):
            there = len(data.rstrip(b"\0"))
            if there:
                written = position + there - end
            position += len(data)
        return written
