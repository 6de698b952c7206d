"""Makes queues and index from the log alone, in a separate folder, and reports what the log holds.

This is what a broker does when it starts over a copied log. It does not write to the store and
does not read the store's queues and index. `verify.py` compares the result with them, and
`replacement.py` puts the result in their place.

The log's stretches are scanned by threads, or by tasks that ran before (`parts.py`). One thread
dispatches them in order.

Invariants:
- The store is only read. All new files are below `target`, which has to be empty.
- The log's end is the end of its last sound record; bytes after it are the tail.

Source: org.apache.rocketmq.store.DefaultMessageStore.ReputMessageService (4.9.3).
"""

import os
import shutil
import time
from os.path import abspath, dirname, expanduser
from typing import Final, NamedTuple

import msgspec
import numpy as np

from wakelog.audit.body_check import BodyCheck
from wakelog.audit.operator import SILENT, AuditRefused, Operator
from wakelog.audit.scratch_files import UnfinishedFileSystem
from wakelog.audit.stretches import FillStretch, Stretches, StretchReader
from wakelog.audit.workers import AT_ONCE, WORKERS_COUNT, threads
from wakelog.compiled.columns import ScanFunctions
from wakelog.compiled.library import CHOICE
from wakelog.dispatchers import core_dispatchers
from wakelog.dispatchers.dispatcher import CoreDispatcher
from wakelog.dispatchers.log_cursor import BadStretch
from wakelog.dispatchers.read_ahead import Worker
from wakelog.dispatchers.reput import Reput
from wakelog.dispatchers.sync_files import sync_tree
from wakelog.filter.filter_table import FilterTable, stored_filters
from wakelog.storage.columns.window_columns import WindowColumns
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.durability.deleted_topics import DeletedTopics
from wakelog.storage.durability.start_guard import GUARDED, KEPT
from wakelog.storage.errors import DamagedStore
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.dispatch_request import DispatchRequest

STEP_BYTES_MAX: Final = 64 << 20
UNFINISHED: Final = ".unfinished"
_LANES_BESIDE: Final = 4
_TAIL_PIECE_BYTES: Final = 1 << 20  # fits a core's cache


class LogReport(NamedTuple):
    """What the log holds, and what was made of it.

    end: of the last sound record, or of the segment that it ends.
    tail_bytes: from the end to the last byte that is not zero.
    bad_stretches: the last of those counted, all before the end.
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
    damaged_bodies: tuple[DispatchRequest, ...]
    missing: tuple[tuple[int, int], ...] = ()
    queues_count: int = 0
    keys_count: int = 0
    index_files_count: int = 0


class Rebuild:
    """Goes through the log step by step. Call `finish` when `step` returns False."""

    def __init__(
        self,
        fs: FileSystem,
        config: StoreConfig,
        target: str,
        worker: Worker | None = None,
        *,
        check_bodies: bool = True,
        filters: FilterTable | None = None,
        load: FillStretch = lambda lane, begin, end: None,
    ) -> None:
        """Open the log; `target` is the folder for consumequeue/ and index/.

        worker: reads and scans `WORKERS_COUNT` stretches of a large log at once.
        check_bodies: report the bodies whose CRC differs; queues and index do not depend on it.
        filters: give the bitmaps of extension units, if the store has units.
        load: returns a stretch that a task has scanned, see `parts.py`.
        """
        self.config = msgspec.structs.replace(
            config,
            store_path_root=target,
            store_path_commit_log=",".join(config.paths.commit_log_directories),
        )
        self._worker = worker or AT_ONCE
        self._log = CommitLogReader(fs, self.config)
        self._bodies = BodyCheck(self._log)
        self._dispatchers: list[CoreDispatcher] = [self._bodies] if check_bodies else []
        self._dispatchers += core_dispatchers(
            fs,
            self.config,
            self._log,
            filters=None if filters is None else lambda: filters,
            deleted=DeletedTopics(fs, config.paths),
        )
        self._lanes: list[CommitLogReader] = []

        def stretches(functions: ScanFunctions) -> Stretches:
            # One is dispatched, one is spare, two are filled by the dispatching thread. Each
            # worker fills one and has the next one queued.
            lanes_count = 2 * WORKERS_COUNT + _LANES_BESIDE
            self._lanes += [CommitLogReader(fs, self.config) for _ in range(lanes_count)]
            lanes = [
                StretchReader(
                    log, WindowColumns(functions, config.delays_ms, check_bodies=check_bodies)
                )
                for log in self._lanes
            ]
            return Stretches(lanes, self._worker, workers_count=WORKERS_COUNT, load=load)

        self._reput = Reput(
            fs,
            self._log,
            self._dispatchers,
            self.config,
            functions=CHOICE.library,
            worker=worker,
            ahead=None if worker is None or needs_values(config) else stretches,
        )
        self.total_bytes = self._log.max_file_end - self._log.min_offset
        self._reput.start(self._log.max_file_end, clean_exit=True)

    @property
    def done_bytes(self) -> int:
        """How much of `total_bytes` is done."""
        return self._reput.position - self._log.min_offset

    def step(self, now_ms: int) -> bool:
        """Dispatch some more of the log; False when all of it is done. Raises: StoreError."""
        limit = self._log.max_file_end
        return self._reput.step(limit, STEP_BYTES_MAX, now_ms, confirm_offset=limit).more

    def finish(self) -> LogReport:
        """Make the new files durable and return the report. Raises: StoreError."""
        statistics = self._reput.statistics()
        cursor = statistics.cursor
        begin, end = self._log.min_offset, self._log.max_file_end
        stretches = list(cursor.bad_stretches)
        while stretches and stretches[-1].end == end:
            end = stretches.pop().begin
        missing = self._log.missing_stretches()
        tail_bytes = self._worker.submit(lambda: self._tail_bytes(end))  # owns the log now
        self._reput.flush()
        index = statistics.dispatchers.get("index", {})
        there = [one for one in stretches if not _is_within(one, missing)]
        left_out_count = len(cursor.bad_stretches) - len(there)
        return LogReport(
            begin=begin,
            end=end,
            records_count=cursor.records_count,
            tail_bytes=tail_bytes.result(),
            bad_stretches_count=cursor.bad_stretches_count - left_out_count,
            bad_stretches=tuple(there),
            size_mismatches_count=cursor.size_mismatches_count,
            damaged_bodies_count=self._bodies.damaged_count,
            damaged_bodies=tuple(self._bodies.damaged),
            missing=tuple(missing),
            queues_count=statistics.dispatchers["consume_queue"]["queues_count"],
            keys_count=index.get("keys_count", 0),
            index_files_count=index.get("files_count", 0),
        )

    def close(self) -> None:
        """Close all files. The worker has to be idle."""
        self._reput.cancel_read_ahead()
        for dispatcher in self._dispatchers:
            dispatcher.close()
        for log in (self._log, *self._lanes):
            log.close()

    def _tail_bytes(self, end: int) -> int:
        piece = np.empty(_TAIL_PIECE_BYTES, dtype=np.uint8)
        position, written = self._log.skip_zeros(end), 0
        while length := self._log.read_span_into(piece.data, position):
            if piece[:length].any():  # much faster than to find the place
                written = position + int(piece[:length].nonzero()[0][-1]) + 1 - end
            position = self._log.skip_zeros(position + length)
        return written


def _is_within(stretch: BadStretch, missing: list[tuple[int, int]]) -> bool:
    return any(begin <= stretch.begin and stretch.end <= end for begin, end in missing)


def needs_values(config: StoreConfig) -> bool:
    """Return whether every record is needed as a value, so that stretches do not help.

    Extension units need that, and so do queues beside the record's own.
    """
    return config.enable_consume_queue_extension or config.enable_multi_dispatch


def run_rebuild(made: Rebuild, title: str = "rebuild", operator: Operator = SILENT) -> LogReport:
    """Step a rebuild to its end and close it. Raises: StoreError."""
    try:
        with operator.progress(title, made.total_bytes) as show_done:
            while made.step(now_ms()):
                show_done(made.done_bytes)
            return made.finish()
    finally:
        made.close()


def make_files(
    config: StoreConfig,
    target: str,
    *,
    load: FillStretch = lambda lane, begin, end: None,
    operator: Operator = SILENT,
) -> LogReport:
    """Make queues and index below an empty `target`, without a sync. Raises: StoreError."""
    with threads() as worker:
        made = Rebuild(
            UnfinishedFileSystem(),
            config,
            target,
            worker,
            check_bodies=False,
            filters=kept_filters(FileSystem(), config),
            load=load,
        )
        return run_rebuild(made, operator=operator)


def rebuild_into(
    config: StoreConfig,
    target: str,
    *,
    load: FillStretch = lambda lane, begin, end: None,
    operator: Operator = SILENT,
) -> LogReport:
    """Make queues and index in a new folder, durably; the folder appears whole or not at all.

    A rebuild that was killed leaves `<target>.unfinished`; the next one removes that.
    Raises: AuditRefused, StoreError, OSError.
    """
    target = abspath(expanduser(target))
    check_target(target)
    unfinished = target + UNFINISHED
    shutil.rmtree(unfinished, ignore_errors=True)
    os.makedirs(unfinished)
    try:
        report = make_files(config, unfinished, load=load, operator=operator)
        sync_tree(FileSystem(), unfinished)
        os.rename(unfinished, target)
        FileSystem().sync_directory(dirname(target))
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return report


def check_target(target: str) -> None:
    """Refuse a target that is no empty folder. Raises: AuditRefused."""
    if os.path.lexists(target) and not os.path.isdir(target):
        raise AuditRefused(f"{target} is no folder", "give a new one")
    if os.path.isdir(target) and os.listdir(target):
        raise AuditRefused(f"{target} is not empty", "give a new folder")


def kept_filters(
    fs: FileSystem, config: StoreConfig, *, needed_only: bool = False
) -> FilterTable | None:
    """Return the filters that the store's broker has saved; None if none can be read."""
    if not config.enable_consume_queue_extension:
        return None
    paths = config.paths
    is_guarded = fs.read_link(paths.config(GUARDED)) is not None

    def decode(text: str) -> FilterTable | None:
        return stored_filters(text, needed_only=needed_only)

    try:
        return ConfigFiles(fs, paths.config).load(KEPT if is_guarded else GUARDED, decode)
    except DamagedStore:
        return None  # bitmaps may be missing; the check of the files reports why


def now_ms() -> int:
    """Return the wall clock."""
    return time.time_ns() // 1_000_000
