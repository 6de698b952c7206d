"""Putting keys into one index file: slots in memory, entries behind one another on the disk.

The slots of the file that is being written are held as an array (20 MB by default), so that the
chain of a key costs no read. What changed is written back by `write_back`: at the end of a small
step at once, and now and then while Reput catches up. `put_columns` is the bulk form of `put`.

Invariants:
- Entries are written before the header that counts them, and the header before slots that point
  to them; see `index_file.py`.
- What is in memory alone can be derived again from the log: a kill loses time, not keys.
- A file without a key keeps the header that it was made with.

Source: org.apache.rocketmq.store.index.IndexFile#putKey (4.9.3).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from wakelog.storage.bulk.columns import Columns
from wakelog.storage.bulk.layout import (
    ENTRY_BYTES,
    KEY_RECORD,
    PHYSICAL_OFFSET,
    STORE_TIMESTAMP,
)
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_file import (
    ENTRY,
    ENTRY_FIRST,
    HEADER,
    HEADER_BYTES,
    SLOT,
    SLOT_BYTES,
    IndexHeader,
    IndexShape,
    decode_header,
)

Array = np.ndarray[Any, Any]

PAGE_SLOTS: Final = 4096 // SLOT_BYTES
# Up to so many changed slots are written one by one, about 1 us each; more go page by page.
SINGLE_SLOTS_MAX: Final = 64
_INT_MAX: Final = (1 << 31) - 1


class IndexFileWriter:
    """The one writer of one file."""

    def __init__(self, fs: FileSystem, path: str, shape: IndexShape) -> None:
        """Open an existing file of full length and read its header and slots. Raises: OSError."""
        self.path = path
        self._fs = fs
        self._shape = shape
        self._fd = fs.open(path)
        self._header = decode_header(fs.pread(self._fd, HEADER_BYTES, 0))
        self._slots = self._read_slots()
        self._entries = bytearray()
        self._entries_begin = self._header.entry_next
        self._changed_slots: set[int] = set()
        self._changed_pages: Array = np.zeros(-(-shape.slot_count // PAGE_SLOTS), dtype=np.bool_)
        self._header_changed = False

    @property
    def header(self) -> IndexHeader:
        """The header, with all that was put."""
        return self._header

    @property
    def is_full(self) -> bool:
        """Whether no key fits any more."""
        return self._header.entry_next >= self._shape.entry_count

    def put(self, key_hash: int, physical_offset: int, store_timestamp_ms: int) -> None:
        """Add one key of a message."""
        assert not self.is_full
        header = self._header
        slot = key_hash % self._shape.slot_count
        previous = int(self._slots[slot])
        if not 0 < previous <= header.entry_next:
            previous = 0
        seconds = _elapsed_seconds(header.begin_timestamp_ms, store_timestamp_ms)
        self._entries += ENTRY.pack(key_hash, physical_offset, seconds, previous)
        self._slots[slot] = header.entry_next
        self._changed_slots.add(slot)
        self._count(1, int(previous == 0), physical_offset, store_timestamp_ms)
        if header.is_empty:
            self._header = self._header._replace(
                begin_physical_offset=physical_offset, begin_timestamp_ms=store_timestamp_ms
            )

    def put_columns(self, columns: Columns, begin: int, end: int) -> int:
        """Add keys [begin, end) of a scan, as many as fit; return the first that did not."""
        if begin < end and self._header.is_empty and not self.is_full:
            # The first key's seconds count from the previous file's end, the others' from it.
            row = int(columns.keys[KEY_RECORD, begin])
            numbers = columns.numbers
            self.put(
                int(columns.keys[0, begin]),
                int(numbers[PHYSICAL_OFFSET, row]),
                int(numbers[STORE_TIMESTAMP, row]),
            )
            begin += 1
        count = min(end - begin, self._shape.entry_count - self._header.entry_next)
        if count <= 0:
            return begin
        self._write_entries()
        used, entries = columns.link_keys(
            self._slots,
            entry_next=self._header.entry_next,
            begin_timestamp_ms=self._header.begin_timestamp_ms,
            begin=begin,
            end=begin + count,
            dirty_pages=self._changed_pages,
            page_slots=PAGE_SLOTS,
        )
        self._fs.pwrite(self._fd, entries, self._entry_position(self._header.entry_next))
        row = int(columns.keys[KEY_RECORD, begin + count - 1])
        self._count(
            count,
            used,
            int(columns.numbers[PHYSICAL_OFFSET, row]),
            int(columns.numbers[STORE_TIMESTAMP, row]),
        )
        self._entries_begin = self._header.entry_next
        return begin + count

    def write_back(self) -> bool:
        """Write what is only in memory; True if there was something."""
        if not self._header_changed:
            return False
        self._write_entries()
        self._fs.pwrite(self._fd, HEADER.pack(*self._header), 0)
        if len(self._changed_slots) > SINGLE_SLOTS_MAX:
            for slot in self._changed_slots:
                self._changed_pages[slot // PAGE_SLOTS] = True
        else:
            for slot in self._changed_slots:
                self._fs.pwrite(
                    self._fd, SLOT.pack(self._slots[slot]), HEADER_BYTES + SLOT_BYTES * slot
                )
        self._write_slot_pages()
        self._changed_slots.clear()
        self._header_changed = False
        return True

    def close(self) -> None:
        """Close the file; what was not written back is lost."""
        self._fs.close(self._fd)

    def _count(
        self, keys_count: int, used_count: int, physical_offset: int, store_timestamp_ms: int
    ) -> None:
        header = self._header
        self._header = header._replace(
            end_timestamp_ms=store_timestamp_ms,
            end_physical_offset=physical_offset,
            slot_used_count=header.slot_used_count + used_count,
            entry_next=header.entry_next + keys_count,
        )
        self._header_changed = True

    def _read_slots(self) -> Array:
        if self._header.entry_next <= ENTRY_FIRST:
            return np.zeros(self._shape.slot_count, dtype=np.int32)
        data = self._fs.pread(self._fd, SLOT_BYTES * self._shape.slot_count, HEADER_BYTES)
        return np.frombuffer(data, dtype=">i4").astype(np.int32)

    def _write_entries(self) -> None:
        if self._entries:
            self._fs.pwrite(self._fd, self._entries, self._entry_position(self._entries_begin))
            self._entries.clear()
        self._entries_begin = self._header.entry_next

    def _write_slot_pages(self) -> None:
        pages = np.flatnonzero(self._changed_pages)
        if not len(pages):
            return
        breaks = np.flatnonzero(np.diff(pages) > 1) + 1
        for run in np.split(pages, breaks):
            begin = int(run[0]) * PAGE_SLOTS
            end = min((int(run[-1]) + 1) * PAGE_SLOTS, self._shape.slot_count)
            data = self._slots[begin:end].astype(">i4").tobytes()
            self._fs.pwrite(self._fd, data, HEADER_BYTES + SLOT_BYTES * begin)
        self._changed_pages.fill(False)

    def _entry_position(self, number: int) -> int:
        return self._shape.entries_position + ENTRY_BYTES * number


def _elapsed_seconds(begin_timestamp_ms: int, store_timestamp_ms: int) -> int:
    # While the begin timestamp is 0 every entry has 0 (fact 3).
    if begin_timestamp_ms <= 0:
        return 0
    return min(max(store_timestamp_ms - begin_timestamp_ms, 0) // 1000, _INT_MAX)
