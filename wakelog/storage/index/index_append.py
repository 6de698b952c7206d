"""Put keys into one index file: slots in memory, entries one after the other on the disk.

The slots of the file being written are an array in memory (20 MB by default), so that chaining a
key costs no read. `write_back` writes what changed: after each small step, and now and then while
Reput catches up.

Invariants:
- Entries are written before the header that counts them, and the header before slots that point
  to them; see `index_file.py`.
- What is in memory alone can be derived again from the log: a kill loses time, not keys.
- A file without a key keeps the header that it was made with.

Source: org.apache.rocketmq.store.index.IndexFile#putKey (4.9.3).
"""

import sys
from typing import Any, Final

import numpy as np

from wakelog.compiled import layout
from wakelog.protocol.java import INT_MAX, LONG_MIN
from wakelog.storage.columns.scan_columns import Columns
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_file import (
    ENTRY,
    ENTRY_FIRST,
    HEADER_BYTES,
    SLOT,
    SLOT_BYTES,
    IndexShape,
    decode_header,
)

Array = np.ndarray[Any, Any]

PAGE_SLOTS: Final = 4096 // SLOT_BYTES
# Changed slots are scattered. Up to this many are written one by one, about 1.5 us each; more are
# written by pages, with several slots a page.
SINGLE_SLOTS_MAX: Final = 4096
# With this many keys for each page only one page in seven has no changed slot.
KEYS_FOR_EVERY_PAGE: Final = 2
# Slots are converted and written in pieces that stay in a core's cache.
WRITE_PIECE_SLOTS: Final = (256 << 10) // SLOT_BYTES


class IndexFileWriter:
    """The one writer of one file."""

    def __init__(self, fs: FileSystem, path: str, shape: IndexShape) -> None:
        """Open an existing file of full length and read its header and slots. Raises: OSError."""
        self.path = path
        self._fs = fs
        self._shape = shape
        self._fd = fs.open(path)
        try:
            self.header = decode_header(fs.pread(self._fd, HEADER_BYTES, 0))
            """Counts all that was put."""

            self._slots = self._read_slots()
        except OSError:
            fs.close(self._fd)
            raise
        # The same memory; for single slots a memoryview is faster than an array.
        self._slot = self._slots.data
        self._entries = bytearray()
        self._entries_begin = self.header.entry_next
        self._header_changed = False
        self._changed_slots: set[int] = set()
        self._changed_pages: Array = np.zeros(-(-shape.slot_count // PAGE_SLOTS), dtype=np.bool_)
        self._has_changed_pages = False

    @property
    def is_full(self) -> bool:
        """Whether no further key fits."""
        return self.header.entry_next >= self._shape.entry_count

    def put(self, key_hash: int, physical_offset: int, store_timestamp_ms: int) -> None:
        """Add one key of a message."""
        header = self.header
        number = header.entry_next
        assert number < self._shape.entry_count
        slot = key_hash % self._shape.slot_count
        previous = self._slot[slot]
        if not 0 < previous <= number:
            previous = 0
            header.slot_used_count += 1
        seconds = 0
        if header.begin_timestamp_ms > 0:  # while it is not, every entry has 0 (fact 3)
            elapsed_ms = store_timestamp_ms - header.begin_timestamp_ms
            if elapsed_ms < LONG_MIN:
                elapsed_ms += 1 << 64  # a Java long wraps
            seconds = min(elapsed_ms // 1000, INT_MAX) if elapsed_ms > 0 else 0
        self._entries += ENTRY.pack(key_hash, physical_offset, seconds, previous)
        self._slot[slot] = number
        self._changed_slots.add(slot)
        if number == ENTRY_FIRST:
            header.begin_physical_offset = physical_offset
            header.begin_timestamp_ms = store_timestamp_ms
        self._advance(1, physical_offset, store_timestamp_ms)

    def put_columns(self, columns: Columns, begin: int, end: int) -> int:
        """Add keys [begin, end) of a scan, as many as fit; return the first that did not."""
        if begin < end and self.header.entry_next == ENTRY_FIRST and not self.is_full:
            # The first key's seconds count from the previous file's end, the others' from the first
            # key's time.
            row = columns.numbers[columns.keys[layout.KEY_RECORD, begin]]
            self.put(
                int(columns.keys[layout.KEY_HASH, begin]),
                int(row[layout.PHYSICAL_OFFSET]),
                int(row[layout.STORE_TIMESTAMP]),
            )
            begin += 1
        count = min(end - begin, self._shape.entry_count - self.header.entry_next)
        if count <= 0:
            return begin
        self._write_entries()
        used, entries = columns.link_keys(
            self._slots,
            entry_next=self.header.entry_next,
            begin_timestamp_ms=self.header.begin_timestamp_ms,
            begin=begin,
            end=begin + count,
        )
        self._fs.pwrite(self._fd, entries, self._entry_position(self.header.entry_next))
        self._mark_changed(columns.keys[layout.KEY_HASH, begin : begin + count])
        self.header.slot_used_count += used
        row = columns.numbers[columns.keys[layout.KEY_RECORD, begin + count - 1]]
        self._advance(count, int(row[layout.PHYSICAL_OFFSET]), int(row[layout.STORE_TIMESTAMP]))
        self._entries_begin = self.header.entry_next
        return begin + count

    def write_back(self) -> bool:
        """Write what is only in memory; True if there was anything."""
        if not self._header_changed:
            return False
        self._write_entries()
        self._fs.pwrite(self._fd, self.header.encode(), 0)
        if len(self._changed_slots) > SINGLE_SLOTS_MAX:
            self._spread_changed()
        for slot in self._changed_slots:
            self._fs.pwrite(self._fd, SLOT.pack(self._slot[slot]), HEADER_BYTES + SLOT_BYTES * slot)
        if self._has_changed_pages:
            self._write_slot_pages()
        self._changed_slots.clear()
        self._header_changed = False
        return True

    def close(self) -> None:
        """Close the file; what was not written back is lost."""
        self._fs.close(self._fd)

    def _advance(self, keys_count: int, physical_offset: int, store_timestamp_ms: int) -> None:
        self.header.entry_next += keys_count
        self.header.end_physical_offset = physical_offset
        self.header.end_timestamp_ms = store_timestamp_ms
        self._header_changed = True

    def _mark_changed(self, hashes: Array) -> None:
        if len(hashes) >= KEYS_FOR_EVERY_PAGE * len(self._changed_pages):
            self._changed_pages.fill(True)
            self._has_changed_pages = True
        elif len(self._changed_slots) + len(hashes) <= SINGLE_SLOTS_MAX:
            self._changed_slots.update((hashes % self._shape.slot_count).tolist())
        else:
            self._changed_pages[hashes % self._shape.slot_count // PAGE_SLOTS] = True
            self._has_changed_pages = True

    def _spread_changed(self) -> None:
        slots = np.fromiter(self._changed_slots, dtype=np.int64, count=len(self._changed_slots))
        self._changed_pages[slots // PAGE_SLOTS] = True
        self._has_changed_pages = True
        self._changed_slots.clear()

    def _read_slots(self) -> Array:
        if self.header.entry_next <= ENTRY_FIRST:
            return np.zeros(self._shape.slot_count, dtype=np.int32)
        size_bytes = SLOT_BYTES * self._shape.slot_count
        # The missing rest of a shortened file reads as zeros.
        data = self._fs.pread(self._fd, size_bytes, HEADER_BYTES).ljust(size_bytes, b"\0")
        return np.frombuffer(data, dtype=">i4").astype(np.int32)

    def _write_entries(self) -> None:
        if self._entries:
            self._fs.pwrite(self._fd, self._entries, self._entry_position(self._entries_begin))
            self._entries.clear()
        self._entries_begin = self.header.entry_next

    def _write_slot_pages(self) -> None:
        pages = np.flatnonzero(self._changed_pages)
        breaks = np.flatnonzero(np.diff(pages) > 1) + 1
        for run in np.split(pages, breaks):
            run_end = min((int(run[-1]) + 1) * PAGE_SLOTS, self._shape.slot_count)
            for begin in range(int(run[0]) * PAGE_SLOTS, run_end, WRITE_PIECE_SLOTS):
                slots = self._slots[begin : min(begin + WRITE_PIECE_SLOTS, run_end)]
                data = slots.byteswap() if sys.byteorder == "little" else slots.copy()
                self._fs.pwrite(self._fd, data.data.cast("B"), HEADER_BYTES + SLOT_BYTES * begin)
        self._changed_pages.fill(False)
        self._has_changed_pages = False

    def _entry_position(self, number: int) -> int:
        return self._shape.entries_position + layout.ENTRY_BYTES * number
