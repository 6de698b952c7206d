"""One segment of the log, read by itself: what it adds to queues and index, written into pieces.

A log cursor stands anew at each segment's begin whatever came before, so that segments can be
read in any order and apart.

Invariants: the segment is only read; a scan that is repeated writes the same bytes.

Source: org.apache.rocketmq.store.DefaultMessageStore.ReputMessageService#doReput (4.9.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wakelog.audit.parallel.pieces import KEY_DTYPE, Array, PieceWriter
from wakelog.audit.parallel.stretches import Lane, Stretches
from wakelog.audit.parallel.turns import InTurn
from wakelog.dispatchers.dispatcher import DispatchBatch
from wakelog.dispatchers.log_cursor import BadStretch, LogCursor
from wakelog.dispatchers.queue_entries import EntryPlacement
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import DamagedStore
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_file import index_key_hash
from wakelog.storage.index.index_writer import index_words
from wakelog.storage.kernels.columns import Columns
from wakelog.storage.kernels.kernels import Kernels
from wakelog.storage.kernels.layout import KEY_HASH, KEY_RECORD, PHYSICAL_OFFSET, STORE_TIMESTAMP
from wakelog.storage.kernels.window_columns import WindowColumns
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.dispatch_request import DispatchRequest
from wakelog.storage.log.scan import delay_levels_ms


class SegmentSummary(NamedTuple):
    """What was found in a segment.

    bucket_bytes: how much each bucket of queues has.
    last_record, last_key_record: where the last record, and the last one with keys, begins; -1
        if there is none.
    bad_stretches: the last of those counted.
    """

    begin: int
    records_count: int
    bucket_bytes: tuple[int, ...]
    keys_count: int
    last_record: int
    last_key_record: int
    size_mismatches_count: int
    bad_stretches_count: int
    bad_stretches: tuple[BadStretch, ...]


def scan_segment(
    fs: FileSystem,
    config: StoreConfig,
    begin: int,
    *,
    queues_path: str,
    keys_path: str,
    kernels: Callable[[], Kernels | None] = lambda: None,
) -> SegmentSummary:
    """Scan the segment that begins at `begin`; make both files. Raises: StoreError, OSError."""
    assert not config.enable_consume_queue_extension
    log = CommitLogReader(fs, config)
    delays_ms = delay_levels_ms(config.message_delay_level)

    def in_turn(loaded: Kernels) -> Stretches:
        lanes = [Lane(log, WindowColumns(loaded, delays_ms)) for _ in range(2)]
        return Stretches(lanes, InTurn())

    # Queues beside a record's own need all records as values.
    ahead = None if config.enable_multi_dispatch else in_turn
    cursor = LogCursor(log, delays_ms, kernels=kernels, ahead=ahead)
    end = log.segment_end(begin)
    cursor.move_to(begin, end)
    pieces = PieceWriter(fs, queues_path)
    keys = _Keys(fs, keys_path) if config.message_index_enable else None
    placement = EntryPlacement(config, pieces.queue)
    last_record = -1
    try:
        while (batch := cursor.read(end, 0)) is not None:
            if len(batch):
                placement.place(batch)
                pieces.write()
                if keys is not None:
                    keys.put(batch)
                last_record = _last_record(batch)
            cursor.passed(batch)
        bucket_bytes = pieces.close()
    finally:
        pieces.abandon()
        if keys is not None:
            keys.close()
        log.close()
    found = cursor.statistics()
    if found.position < end:
        raise DamagedStore(
            f"the segment from physical offset {begin} on",
            f"it was removed while it was read, at {found.position}",
            "rebuild from a copy that nobody changes",
        )
    return SegmentSummary(
        begin,
        found.records_count,
        bucket_bytes,
        0 if keys is None else keys.count,
        last_record,
        -1 if keys is None else keys.last_record,
        found.size_mismatches_count,
        found.bad_stretches_count,
        found.bad_stretches,
    )


def _last_record(batch: DispatchBatch) -> int:
    columns = batch.columns
    if columns is not None:
        return int(columns.numbers[columns.count - 1, PHYSICAL_OFFSET])
    return batch.requests[-1].physical_offset


class _Keys:
    """The file of keys, written batch by batch."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._fd = fs.open(path, create=True)
        self.count = 0
        self.last_record = -1

    def put(self, batch: DispatchBatch) -> None:
        if batch.columns is None:
            for request in batch.requests:
                self._write(_keys_of(request))
            return
        for begin, end, keyless in batch.columns.key_runs():
            self._write(_key_columns(batch.columns, begin, end))
            if keyless is not None:
                self._write(_keys_of(keyless))

    def close(self) -> None:
        self._fs.close(self._fd)

    def _write(self, keys: Array) -> None:
        if len(keys):
            self._fs.pwrite(self._fd, keys.tobytes(), self.count * KEY_DTYPE.itemsize)
            self.count += len(keys)
            self.last_record = int(keys["physical_offset"][-1])


def _keys_of(request: DispatchRequest) -> Array:
    place = request.physical_offset, request.store_timestamp_ms
    hashes = [index_key_hash(request.topic, word) for word in index_words(request)]
    return np.array([(value, *place) for value in hashes], dtype=KEY_DTYPE)


def _key_columns(columns: Columns, begin: int, end: int) -> Array:
    keys = np.empty(end - begin, dtype=KEY_DTYPE)
    rows = columns.keys[KEY_RECORD, begin:end]
    keys["hash"] = columns.keys[KEY_HASH, begin:end]
    keys["physical_offset"] = columns.numbers[rows, PHYSICAL_OFFSET]
    keys["store_ms"] = columns.numbers[rows, STORE_TIMESTAMP]
    return keys
