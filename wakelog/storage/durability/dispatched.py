"""How far queues and index are durable, `wakelog.dispatched` in the root.

Of a record that ends at or below the position here every queue entry, extension unit and index key
is on the disk. After a crash dispatch begins there instead of at the segment that the checkpoint's
times lead to, and the index is cut there instead of checked from its front. 4.9.3 neither writes
nor minds the file. Big endian:

    offset  width  field
    0       4      magic, "WLDP"
    4       4      number of the next entry of the newest index file, 0 without one
    8       8      sequence: the slot with the higher one counts
    16      8      the position, a physical offset at which a record begins or ends
    24      8      the newest index file's name, a number of 17 digits; 0 without one
    32      4      CRC-32 of the 32 bytes before

The second slot, alike, is at 4096, the file 8192 bytes long; `slot_file.py` says how they are used.

Invariants:
- A slot is written only after what it claims was synced; it may be behind, never ahead.
- It is lowered before the log can grow again behind an end below it, and before entries of the
  index go that it counts: a cut that is half done leaves some of them torn.

Source: none upstream.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from wakelog.storage.durability.slot_file import SlotFile, SlotFormat, read_slot
from wakelog.storage.file_system import FileSystem


class IndexEnd(NamedTuple):
    """The newest index file, by the number that its name is, and its next entry; zeros if none."""

    name: int = 0
    entry_next: int = 0


class DispatchedMark(NamedTuple):
    """One slot."""

    sequence: int = 0
    physical_offset: int = 0
    index_end: IndexEnd = IndexEnd()


def _pack(mark: DispatchedMark) -> tuple[Any, ...]:
    name, entry_next = mark.index_end
    return entry_next, mark.sequence, mark.physical_offset, name


def _unpack(
    entry_next: int, sequence: int, physical_offset: int, name: int
) -> DispatchedMark | None:
    if min(entry_next, sequence, physical_offset, name) < 0:
        return None
    return DispatchedMark(sequence, physical_offset, IndexEnd(name, entry_next))


SLOTS: Final = SlotFormat(b"WLDP", struct.Struct(">4siqqq"), _pack, _unpack, DispatchedMark())


class DispatchedFile:
    """The file, open for whoever makes queues and index durable.

    Who cuts the index opens it once more, beside the dispatchers (`lower_index_end`): so it is
    looked at again before it is written.
    """

    __slots__ = ("_file",)

    def __init__(self, fs: FileSystem, path: str) -> None:
        """Open the file, made with zeros if it is missing. Raises: StoreFailed, StoreFull."""
        self._file = SlotFile(fs, path, SLOTS)

    @property
    def mark(self) -> DispatchedMark:
        """The newest slot, as this object last read or wrote it."""
        return self._file.slot

    def note(self, physical_offset: int, index_end: IndexEnd) -> None:
        """Say durably how far queues and index are; call after their sync.

        Raises: StoreFailed, StoreFull.
        """
        mark = self._file.reread()
        if (physical_offset, index_end) != mark[1:]:
            self._write(physical_offset, index_end)

    def lower(self, physical_offset: int) -> None:
        """Say durably that above `physical_offset` nothing is known: the log ends there.

        Raises: StoreFailed, StoreFull.
        """
        mark = self._file.reread()
        if physical_offset < mark.physical_offset:
            self._write(physical_offset, mark.index_end if physical_offset else IndexEnd())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, physical_offset: int, index_end: IndexEnd) -> None:
        self._file.write(DispatchedMark(self.mark.sequence + 1, physical_offset, index_end))


def read_dispatched(fs: FileSystem, path: str) -> DispatchedMark:
    """Return what the file says, zeros where there is none or it cannot be believed.

    That is true also where the page cache alone has it. Raises: StoreFailed.
    """
    return read_slot(fs, path, SLOTS)


def lower_dispatched(fs: FileSystem, path: str, physical_offset: int) -> None:
    """Lower the file's position durably, if there is a file. Raises: StoreFailed, StoreFull."""
    if fs.exists(path):
        file = DispatchedFile(fs, path)
        try:
            file.lower(physical_offset)
        finally:
            file.close()


def lower_index_end(fs: FileSystem, path: str, index_end: IndexEnd) -> None:
    """Say durably where the index will end; call before it is cut there.

    Raises: StoreFailed, StoreFull.
    """
    file = DispatchedFile(fs, path)
    try:
        file.note(file.mark.physical_offset, index_end)
    finally:
        file.close()
