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
from typing import Final, NamedTuple
from zlib import crc32

import msgspec
import numpy as np

from wakelog.audit.body_check import BodyCheck, DamagedBody
from wakelog.audit.parallel.stretches import Lane, Stretches
from wakelog.audit.parallel.turns import InTurn
from wakelog.dispatchers import core_dispatchers
from wakelog.dispatchers.dispatcher import CoreDispatcher
from wakelog.dispatchers.filter_bitmap import FilterSource
from wakelog.dispatchers.log_cursor import BadStretch
from wakelog.dispatchers.read_ahead import Worker
from wakelog.dispatchers.reput import Reput
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.kernels.kernels import Kernels
from wakelog.storage.kernels.window_columns import WindowColumns
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.scan import delay_levels_ms

STEP_BYTES_MAX: Final = 64 << 20
_LANES_BESIDE: Final = 4
_TAIL_PIECE_BYTES: Final = 1 << 20  # fits a core's cache


class LogReport(NamedTuple):
    """What the log holds.

    end: behind the last sound record, or behind the segment that it ends.
    tail_bytes: how many bytes behind the end, up to the last that is not zero.
    bad_stretches: the last of those counted, in front of the end.
    missing: [begin, end) where segments are missing between others; no bad stretch is in them.
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
    missing: tuple[tuple[int, int], ...] = ()


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
        workers_count: int = 1,
        filters: FilterSource | None = None,
        check_bodies: bool = True,
    ) -> None:
        """Open the log; `target` is the folder that gets consumequeue/ and index/.

        worker: reads and scans, `workers_count` pieces of the log at once.
        filters: what the bitmaps of extension units are calculated of, where there are units.
        check_bodies: say in the report which bodies have another CRC than their record states;
            for queues and index it does not matter.
        """
        self.config = msgspec.structs.replace(
            config,
            store_path_root=target,
            store_path_commit_log=",".join(config.paths.commit_log_directories),
        )
        self._kernels = kernels
        self._worker = worker or InTurn()
        self._log = CommitLogReader(fs, self.config)
        self._bodies = BodyCheck(self._log)
        self._dispatchers: list[CoreDispatcher] = [self._bodies] if check_bodies else []
        self._dispatchers += core_dispatchers(fs, self.config, self._log, filters=filters)
        self._lanes: list[CommitLogReader] = []
        # Units, and queues beside a record's own, need all records as values.
        needs_values = config.enable_consume_queue_extension or config.enable_multi_dispatch

        def stretches(loaded: Kernels) -> Stretches:
            assert worker is not None
            delays_ms = delay_levels_ms(config.message_delay_level)
            # One that is dispatched, one to spare, two that who dispatches fills meanwhile, and for
            # each worker one that is being filled and the one behind it.
            lanes_count = 2 * workers_count + _LANES_BESIDE
            self._lanes += [CommitLogReader(fs, self.config) for _ in range(lanes_count)]
            columns = [
                WindowColumns(loaded, delays_ms, check_bodies=check_bodies) for _ in self._lanes
            ]
            lanes = list(map(Lane, self._lanes, columns))
            return Stretches(lanes, worker, workers_count=workers_count)

        self._reput = Reput(
            fs,
            self._log,
            self._dispatchers,
            self.config,
            kernels=kernels,
            worker=worker,
            ahead=None if worker is None or needs_values else stretches,
        )
        self.total_bytes = self._log.max_file_end - self._log.min_offset
        self._reput.start(self._log.max_file_end, clean_exit=True)

    @property
    def done_bytes(self) -> int:
        """How much of `total_bytes` was looked at."""
        return self._reput.position - self._log.min_offset

    def crc(self, data: bytes) -> int:
        """Return the CRC-32 of bytes, quickly where the kernels are loaded; from any thread."""
        kernels = self._kernels()
        if kernels is None:
            return crc32(data)
        return kernels.crc_of_all(np.frombuffer(data, dtype=np.uint8))

    def step(self, now_ms: int) -> bool:
        """Go through some more of the log; False when all of it was. Raises: StoreError."""
        limit = self._log.max_file_end
        return self._reput.step(limit, STEP_BYTES_MAX, now_ms, confirm_offset=limit).more

    def finish(self) -> LogReport:
        """Make the new files durable, and return what the log holds. Raises: StoreError."""
        cursor = self._reput.statistics().cursor
        begin, end = self._log.min_offset, self._log.max_file_end
        stretches = list(cursor.bad_stretches)
        while stretches and stretches[-1].end == end:
            end = stretches.pop().begin
        missing = self._log.missing_stretches()
        tail_bytes = self._worker.submit(lambda: self._written_behind(end))  # has the log now
        self._reput.flush()
        tail_stretches = len(cursor.bad_stretches) - len(stretches)
        there = [one for one in stretches if not _is_within(one, missing)]
        gaps_count = len(stretches) - len(there)
        return LogReport(
            begin=begin,
            end=end,
            records_count=cursor.records_count,
            tail_bytes=tail_bytes.result(),
            bad_stretches_count=cursor.bad_stretches_count - tail_stretches - gaps_count,
            bad_stretches=tuple(there),
            size_mismatches_count=cursor.size_mismatches_count,
            damaged_bodies_count=self._bodies.damaged_count,
            damaged_bodies=tuple(self._bodies.damaged),
            missing=tuple(missing),
        )

    def close(self) -> None:
        """Close all files; the worker has to be idle."""
        self._reput.settle()
        for dispatcher in self._dispatchers:
            dispatcher.close()
        for log in (self._log, *self._lanes):
            log.close()

    def _written_behind(self, end: int) -> int:
        piece = np.empty(_TAIL_PIECE_BYTES, dtype=np.uint8)
        position, written = self._log.skip_zeros(end), 0
        while length := self._log.read_span_into(piece.data, position):
            if piece[:length].any():  # far quicker than to say where
                written = position + int(piece[:length].nonzero()[0][-1]) + 1 - end
            position = self._log.skip_zeros(position + length)
        return written


def _is_within(stretch: BadStretch, missing: list[tuple[int, int]]) -> bool:
    return any(begin <= stretch.begin and stretch.end <= end for begin, end in missing)
