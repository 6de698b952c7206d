"""One index file, made from the keys that segments left in pieces.

A file takes a fixed count of keys, whatever messages they are of. So how many keys each segment
has says which of them belong to which file, and a file needs nothing of the one before but its
last key, with which its header begins.

    keys of all segments   0 ... c-1 | c ... 2c-1 | ...        c = entries of a file less 1
    files                  first       second

A record that comes when the last file is full makes a successor, with a key of it or without.

Invariants: keys are put in the order of the log; the file is durable on return.

Source: org.apache.rocketmq.store.index.IndexService, IndexFile#putKey (4.9.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from wakelog.audit.parallel.pieces import Array, KeyFile, read_keys
from wakelog.audit.parallel.segment_scan import SegmentSummary
from wakelog.dispatchers.sync_files import sync_files
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_append import IndexFileWriter
from wakelog.storage.index.index_service import index_name, index_shape, make_index_file
from wakelog.storage.kernels.kernels import Kernels
from wakelog.storage.kernels.layout import (
    ENTRY_BYTES,
    KEY_HASH,
    KEY_RECORD,
    KEY_ROWS,
    NUMBER_FIELDS,
    PHYSICAL_OFFSET,
    STORE_TIMESTAMP,
)

KEYS_MAX: Final = 1 << 15
"""Read and chained at once: 4 MiB with their columns."""


class IndexPart(NamedTuple):
    """One file: its name, and which of all keys are its own, [begin, end)."""

    name: str
    begin: int
    end: int


def plan_index(
    summaries: Sequence[SegmentSummary], config: StoreConfig, now_ms: int
) -> list[IndexPart]:
    """Return the files that the segments' keys make; names go up from the time."""
    if not config.message_index_enable:
        return []
    keys_count = sum(summary.keys_count for summary in summaries)
    capacity = config.index_entry_count - 1
    count = -(-keys_count // capacity)
    last_record = max((summary.last_record for summary in summaries), default=-1)
    last_key_record = max((summary.last_key_record for summary in summaries), default=-1)
    if keys_count == count * capacity and last_record > last_key_record:
        count += 1  # its first record found the file before full, or none
    first_name = int(index_name(now_ms))
    return [
        IndexPart(f"{first_name + i:017d}", i * capacity, min(i * capacity + capacity, keys_count))
        for i in range(count)
    ]


def make_index_part(
    fs: FileSystem,
    config: StoreConfig,
    key_files: Sequence[KeyFile],
    part: IndexPart,
    kernels: Kernels | None = None,
) -> str:
    """Make one file below the configuration's root; return its path. Raises: StoreError, OSError.

    key_files: of all segments, in the order of the log.
    """
    end_ms = end = 0
    for [before] in read_keys(fs, key_files, part.begin - 1, part.begin, count_max=1):
        end_ms, end = int(before["store_ms"]), int(before["physical_offset"])
    path = make_index_file(fs, config, part.name, end_timestamp_ms=end_ms, end_physical_offset=end)
    file = IndexFileWriter(fs, path, index_shape(config))
    try:
        columns = None if kernels is None else _KeyColumns(kernels)
        for keys in read_keys(fs, key_files, part.begin, part.end, count_max=KEYS_MAX):
            if columns is None:
                for key_hash, physical_offset, store_ms in keys.tolist():
                    file.put(key_hash, physical_offset, store_ms)
            else:
                columns.take(keys)
                file.put_columns(columns, 0, len(keys))
        file.write_back()
    finally:
        file.close()
    sync_files(fs, [path])
    return path


class _KeyColumns:
    """Keys in the form in which a scan leaves them, a record for each; some after others."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self.keys = np.empty((KEY_ROWS, KEYS_MAX), dtype=np.int32)
        self.keys[KEY_RECORD] = np.arange(KEYS_MAX)
        self.numbers = np.zeros((KEYS_MAX, NUMBER_FIELDS), dtype=np.int64)
        self._entries = np.empty(ENTRY_BYTES * KEYS_MAX, dtype=np.uint8)

    def take(self, keys: Array) -> None:
        """Hold these, in the place of those before."""
        count = len(keys)
        self.keys[KEY_HASH, :count] = keys["hash"]
        self.numbers[:count, PHYSICAL_OFFSET] = keys["physical_offset"]
        self.numbers[:count, STORE_TIMESTAMP] = keys["store_ms"]

    def link_keys(
        self,
        slots: np.ndarray[Any, Any],
        *,
        entry_next: int,
        begin_timestamp_ms: int,
        begin: int,
        end: int,
    ) -> tuple[int, memoryview]:
        used = self._kernels.link_keys(
            slots,
            entry_next,
            begin_timestamp_ms,
            self.keys,
            begin,
            end,
            self.numbers,
            self._entries,
        )
        return used, self._entries.data[: ENTRY_BYTES * (end - begin)]
