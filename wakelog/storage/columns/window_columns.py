"""Columns of a long stretch of the log, whose bytes are in memory one window at a time.

The log's bytes are needed once. A window fits the cache of one core, so that scan and CRC read it
from there. A buffer for the whole stretch would send each byte to memory and back. The columns keep
what outlives a window: numbers, keys, the groups' topics, and the few records that Python needs.

Invariants:
- `groups`, `key_runs`, `link_keys` and `damaged_bodies` return what `Columns` returns for the same
  bytes at once.
- `request` knows the records in `refined` and those with a damaged body, no others.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from wakelog.compiled.columns import ScanFunctions
from wakelog.compiled.layout import ENTRY_BYTES, TOPIC_BYTES
from wakelog.storage.columns.scan_columns import (
    SCAN_BUFFER_BYTES,
    Array,
    Columns,
    ColumnScan,
    QueueGroup,
)
from wakelog.storage.log.dispatch_request import DispatchRequest
from wakelog.storage.log.record_check import CheckKind, check_record

Read = Callable[[memoryview, int], int]
"""Fills a buffer from a physical offset on, and returns the count of bytes."""

# The size of a usual second-level cache. A smaller window needs the interpreter's lock more often,
# a larger one sends its bytes to memory and back.
WINDOW_BYTES: Final = 1 << 20
# For a stretch of 16 MiB with records of 128 bytes. Longer records never touch the rest.
STRETCH_RECORDS_MAX: Final = 1 << 17
# For some thousands of topics in one stretch.
NAMES_BYTES: Final = 256 << 10


class PackedColumns(NamedTuple):
    """The content of columns after `groups`, in a form that can be pickled."""

    numbers: Array
    keys: Array
    order: Array
    entries: Array
    groups: list[QueueGroup]
    refined: list[int]
    kept: dict[int, DispatchRequest]
    damaged: list[DispatchRequest]


class WindowColumns(Columns):
    """The columns of a stretch that is read and scanned one window after another."""

    def __init__(
        self,
        functions: ScanFunctions,
        delays_ms: tuple[int, ...] = (),
        *,
        window_bytes: int = WINDOW_BYTES,
        records_max: int = STRETCH_RECORDS_MAX,
        names_bytes: int = NAMES_BYTES,
        check_bodies: bool = False,
    ) -> None:
        """Allocate everything once; `delays_ms` comes from `StoreConfig`."""
        super().__init__(functions, delays_ms, buffer_bytes=window_bytes, records_max=records_max)
        self._check_bodies = check_bodies
        self._names = np.zeros(names_bytes, dtype=np.uint8)
        self._name_begins = np.zeros(records_max, dtype=np.int32)
        self._kept: dict[int, DispatchRequest] = {}
        self._damaged: list[DispatchRequest] = []

    def scan_stretch(
        self, read: Read, *, begin: int, end: int, segment_end: int
    ) -> ColumnScan | None:
        """Read and scan [begin, end), all in one segment, and replace the columns.

        Returns: where the scan stopped, counted from `begin`; None if nothing can be read there.
        Raises: StoreFailed.
        """
        self._clear()
        at = begin
        while at < end:
            length = read(memoryview(self.buffer)[: end - at], at)
            if length == 0:
                return ColumnScan(at - begin, None) if at > begin else None
            stop = self._scan_window(length, at)
            read_end, at = at + length, at + stop
            if stop == length or (stop > 0 and read_end < end):
                continue  # the rest, mostly a cut record, begins the next window
            check = check_record(self.buffer, stop, at, length, segment_end=segment_end)
            if check.kind is CheckKind.SOUND:
                break  # the columns are full
            if check.kind is not CheckKind.INCOMPLETE or read_end == end:
                return ColumnScan(at - begin, check)
            if not self._grown(check.size_bytes):
                return ColumnScan(at - begin, check)
        return ColumnScan(at - begin, None)

    def request(self, row: int) -> DispatchRequest:
        """Return a kept record."""
        return self._kept[row]

    def damaged_bodies(self) -> list[DispatchRequest]:
        """Return the records with a damaged body; none, if bodies were not to be checked."""
        return self._damaged

    def pack(self) -> PackedColumns:
        """Return the content, for `unpack` in another process; valid until the next scan."""
        groups = self.groups()
        return PackedColumns(
            self.numbers[: self.count],
            self.keys[:, : self.key_count],
            self.order[: self.count],
            self.entries[: ENTRY_BYTES * self.count],
            groups,
            self.refined,
            self._kept,
            self._damaged,
        )

    def unpack(self, packed: PackedColumns) -> None:
        """Replace the content by that of columns with the same `records_max`."""
        self._clear()
        self.count, self.key_count = len(packed.numbers), packed.keys.shape[1]
        self.numbers[: self.count] = packed.numbers
        self.keys[:, : self.key_count] = packed.keys
        self.order[: self.count] = packed.order
        self.entries[: ENTRY_BYTES * self.count] = packed.entries
        self._groups, self.refined = packed.groups, packed.refined
        self._kept, self._damaged = packed.kept, packed.damaged

    def _clear(self) -> None:
        super()._clear()
        self._names_end = 0
        self._kept, self._damaged = {}, []

    def _scan_window(self, length: int, physical_offset: int) -> int:
        first = self.count
        stop, refined = self._append_records(0, length, physical_offset)
        if refined:
            for row in self._refine(first):
                self._kept[row] = super().request(row)
        if self._check_bodies:
            for row in self._damaged_rows(first):
                self._kept[row] = super().request(row)
                self._damaged.append(self._kept[row])
        return stop

    def _grown(self, size_bytes: int) -> bool:
        """Enlarge the window for a whole record; False if no buffer is large enough."""
        if not len(self.buffer) < size_bytes <= SCAN_BUFFER_BYTES:
            return False
        self.buffer = bytearray(SCAN_BUFFER_BYTES)
        return True

    def _group_topics(self) -> list[str]:
        firsts = self._group_firsts[: self._group_firsts[-1]]
        begins = self._name_begins[: len(firsts)]
        ends = begins + self.numbers[firsts, TOPIC_BYTES]
        names = bytes(self._names[: self._names_end])
        return [
            str(names[begin:end], "utf-8", "replace")
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]
