"""The result of a compiled scan, in columns: the bulk form of a list of dispatch requests.

Each scan fills the same arrays again, and the same buffer for the log's bytes. Nothing of them may
be kept after the next scan begins.

    numbers   int64[records, NUMBER_FIELDS] one row for each record, see `compiled/layout.py`
    keys      int32[2, keys]                hash and record number of each index key
    order     int32[records]                record numbers sorted by queue
    entries   uint8[20 * records]           consume queue entries in that order

Invariants:
- `requests()` equals what `scan.scan_plain` returns for the same bytes.
- Python corrects the tags code of records with a bit in REFINE. Records whose keys the scan left
  out are in `refined`, and get their index entries from the plain way.
"""

import math
import mmap
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from wakelog.compiled import layout
from wakelog.compiled.columns import ScanFunctions
from wakelog.protocol.properties import KEYS, UNIQ_KEY, decode_properties
from wakelog.storage.log.dispatch_request import DispatchRequest
from wakelog.storage.log.record_check import CheckKind, RecordCheck, check_record
from wakelog.storage.log.scan import entry_tags_code

Array = np.ndarray[Any, Any]

# Reads are fastest from a few megabytes on, and a step has to end within some milliseconds.
SCAN_BUFFER_BYTES: Final = 8 << 20
# Records of one scan: enough for that buffer with records of 256 bytes. Smaller ones take two
# scans.
SCAN_RECORDS_MAX: Final = 1 << 15
_KEYS_PER_RECORD: Final = 4


class ColumnScan(NamedTuple):
    """Where a scan stopped, and why; None if it reached `end` or filled the columns."""

    next_position: int
    stopped_by: RecordCheck | None


class QueueGroup(NamedTuple):
    """The entries of one queue: places [begin, end) of `order` and of `entries`.

    unbroken: their queue offsets go up by one, so that the three numbers describe all of them.
    """

    topic: str
    queue_id: int
    begin: int
    end: int
    unbroken: bool
    queue_offset: int  # of the first
    physical_offset: int  # of the first
    physical_offset_end: int  # of the last


def _zeros(shape: tuple[int, ...], dtype: type[np.generic]) -> Array:
    """Return an array of zeros that takes memory page by page, when it is written.

    Sizes are for the smallest records; usual ones fill a tenth. NumPy's own arrays ask for huge
    pages, so that the first element would take 2 MiB and the time to clear them.
    """
    size_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, dtype=dtype).reshape(shape)


class Columns:
    """A buffer for the log's bytes, and the columns that a compiled scan of them fills."""

    def __init__(
        self,
        functions: ScanFunctions,
        delays_ms: tuple[int, ...] = (),
        *,
        buffer_bytes: int = SCAN_BUFFER_BYTES,
        records_max: int = SCAN_RECORDS_MAX,
    ) -> None:
        """Allocate everything once; `delays_ms` comes from `StoreConfig`."""
        self._functions = functions
        self._delays_ms = delays_ms
        self.buffer = bytearray(buffer_bytes)
        keys_max = max(_KEYS_PER_RECORD * records_max, 2 * layout.RECORD_KEYS_MAX)
        self.numbers = _zeros((records_max, layout.NUMBER_FIELDS), np.int64)
        self.keys = _zeros((layout.KEY_ROWS, keys_max), np.int32)
        self.order = _zeros((records_max,), np.int32)
        self.entries = _zeros((layout.ENTRY_BYTES * records_max,), np.uint8)
        self._table = _zeros((2, 1 << (2 * records_max).bit_length()), np.int32)
        self._group_firsts = _zeros((records_max + 1,), np.int32)
        self._group_ends = _zeros((records_max + 1,), np.int32)
        self._group_unbroken = _zeros((records_max,), np.bool_)
        # The buffer itself has the groups' topics.
        self._names: bytearray | Array = self.buffer
        self._name_begins, self._names_end = self._group_firsts, -1
        self._index_entries = _zeros((layout.ENTRY_BYTES * keys_max,), np.uint8)
        self.count = 0
        self.key_count = 0
        self.refined: list[int] = []
        self._groups: list[QueueGroup] | None = None

    def scan(self, *, begin: int, end: int, physical_offset: int, segment_end: int) -> ColumnScan:
        """Scan `buffer[begin:end]`, as `scan.scan_plain` does, and replace the columns."""
        self._clear()
        stop, _ = self._append_records(begin, end, physical_offset)
        self._refine()
        stopped_by = None
        if stop < end:
            check = check_record(
                self.buffer, stop, physical_offset + stop - begin, end, segment_end=segment_end
            )
            if check.kind is not CheckKind.SOUND:
                stopped_by = check
        return ColumnScan(stop, stopped_by)

    def _clear(self) -> None:
        self.count = self.key_count = 0
        self.refined = []
        # Only the used places of the large table are cleared.
        places, groups = self._table
        places[groups[: self._group_firsts[-1]]] = 0
        self._group_firsts[-1] = 0
        self._groups = None

    def _append_records(self, begin: int, end: int, physical_offset: int) -> tuple[int, int]:
        """Scan `buffer[begin:end]`; return where the scan stopped, and its REFINE bits."""
        self.count, self.key_count, stop, self._names_end, refined = self._functions.scan_records(
            self.buffer,
            begin,
            end,
            physical_offset,
            self.numbers,
            self.keys,
            self._table,
            self._group_firsts,
            self._names,
            self._name_begins,
            self.count,
            self.key_count,
            self._names_end,
        )
        return stop, refined

    def damaged_bodies(self) -> list[DispatchRequest]:
        """Return the records that state another CRC than their body has."""
        return [self.request(row) for row in self._damaged_rows(0)]

    def _damaged_rows(self, first: int) -> list[int]:
        damaged: Array = np.empty(self.count - first, dtype=np.int32)
        damaged_count = self._functions.check_bodies(
            self.buffer, self.numbers, first, self.count, damaged
        )
        rows: list[int] = damaged[:damaged_count].tolist()
        return rows

    def _refine(self, first: int = 0) -> list[int]:
        """Do what the scan left to Python, from record `first` on; return these records."""
        marked = self.numbers[first : self.count, layout.REFINE]
        rows: list[int] = (first + np.flatnonzero(marked)).tolist() if marked.any() else []
        self.refined += rows
        for row in rows:
            if self.numbers[row, layout.REFINE] & (layout.REFINE_TEXT | layout.REFINE_DELAY):
                properties = decode_properties(self.properties_text(row))
                self.numbers[row, layout.TAGS_CODE] = entry_tags_code(
                    self.topic(row),
                    properties,
                    int(self.numbers[row, layout.STORE_TIMESTAMP]),
                    self._delays_ms,
                )
        return rows

    def topic(self, row: int) -> str:
        """Return the topic of a record."""
        begin = self.numbers[row, layout.TOPIC_BEGIN]
        end = begin + self.numbers[row, layout.TOPIC_BYTES]
        return str(self.buffer[begin:end], "utf-8", "replace")

    def properties_text(self, row: int) -> str:
        """Return the properties string of a record."""
        begin = self.numbers[row, layout.PROPERTIES_BEGIN]
        end = begin + self.numbers[row, layout.PROPERTIES_BYTES]
        return str(self.buffer[begin:end], "utf-8", "replace")

    def request(self, row: int) -> DispatchRequest:
        """Return a record as a value."""
        numbers = self.numbers[row].tolist()
        properties = decode_properties(self.properties_text(row))
        return DispatchRequest(
            self.topic(row),
            numbers[layout.QUEUE_ID],
            numbers[layout.QUEUE_OFFSET],
            numbers[layout.PHYSICAL_OFFSET],
            numbers[layout.SIZE],
            numbers[layout.TAGS_CODE],
            numbers[layout.STORE_TIMESTAMP],
            numbers[layout.SYS_FLAG],
            numbers[layout.PREPARED_OFFSET],
            properties.get(KEYS),
            properties.get(UNIQ_KEY),
            properties,
        )

    def requests(self) -> list[DispatchRequest]:
        """Return all records as values."""
        return [self.request(row) for row in range(self.count)]

    def groups(self) -> list[QueueGroup]:
        """Sort the records by queue, encode their entries, and return each queue's part."""
        if self._groups is not None:
            return self._groups
        count = int(self._group_firsts[-1])
        self._functions.encode_groups(
            self.numbers,
            self.count,
            self._group_firsts,
            self.order,
            self._group_ends,
            self._group_unbroken,
            self.entries,
        )
        firsts, ends = self._group_firsts[:count], self._group_ends[:count]
        lasts = self.numbers[self.order[ends - 1]]
        firsts_numbers = self.numbers[firsts]
        self._groups = list(
            map(
                QueueGroup,
                self._group_topics(),
                firsts_numbers[:, layout.QUEUE_ID].tolist(),
                [0, *ends[:-1].tolist()],
                ends.tolist(),
                self._group_unbroken[:count].tolist(),
                firsts_numbers[:, layout.QUEUE_OFFSET].tolist(),
                firsts_numbers[:, layout.PHYSICAL_OFFSET].tolist(),
                (lasts[:, layout.PHYSICAL_OFFSET] + lasts[:, layout.SIZE]).tolist(),
            )
        )
        return self._groups

    def _group_topics(self) -> list[str]:
        firsts = self.numbers[self._group_firsts[: self._group_firsts[-1]]]
        begins = firsts[:, layout.TOPIC_BEGIN]
        ends = begins + firsts[:, layout.TOPIC_BYTES]
        return [
            str(self.buffer[begin:end], "utf-8", "replace")
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]

    def key_runs(self, first_row: int = 0) -> Iterator[tuple[int, int, DispatchRequest | None]]:
        """Yield index work from record `first_row` on: keys [begin, end), then a record or None.

        The scan left the keys of that record to the plain way. It comes after these keys.
        """
        records = self.keys[layout.KEY_RECORD, : self.key_count]
        begin = int(np.searchsorted(records, first_row)) if first_row else 0
        left_out = layout.REFINE_TEXT | layout.REFINE_KEYS
        for row in self.refined:
            if row >= first_row and self.numbers[row, layout.REFINE] & left_out:
                end = int(np.searchsorted(records, row))
                yield begin, end, self.request(row)
                begin = end
        yield begin, self.key_count, None

    def link_keys(
        self, slots: Array, *, entry_next: int, begin_timestamp_ms: int, begin: int, end: int
    ) -> tuple[int, memoryview]:
        """Link keys [begin, end) into an index file's slots; see `ScanFunctions`.

        Returns: how many slots were empty before, and the bytes of the new entries, valid until the
            next call.
        """
        used = self._functions.link_keys(
            slots,
            entry_next,
            begin_timestamp_ms,
            self.keys,
            begin,
            end,
            self.numbers,
            self._index_entries,
        )
        return used, self._index_entries.data[: layout.ENTRY_BYTES * (end - begin)]
