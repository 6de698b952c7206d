"""How far queues and index are durable, `wakelog.dispatched` in the root.

Every queue entry, extension unit and index key of a record that ends at or below the position here
is on the disk. After a crash dispatch begins there, not at the segment that the checkpoint's times
lead to. The index is cut there, not checked from its front. 4.9.3 ignores the file. Big endian:

    offset  width  field
    0       4      magic, "WLDP"
    4       4      number of the next entry of the newest index file, 0 without one
    8       8      sequence: the slot with the higher one counts
    16      8      the position, a physical offset at which a record begins or ends
    24      8      the newest index file's name, a number of 17 digits; 0 without one
    32      4      CRC-32 of the 32 bytes before

The second slot, alike, is at 4096, the file 8192 bytes long; `slot_file.py` says how they are used.

Invariants:
- A slot is written after queues and index up to there were synced; it may lag, never lead.
- It is lowered before the log grows again from a lower end, and before index entries that it
  counts are removed: an interrupted cut leaves some of them torn.

Source: none upstream.
"""

from __future__ import annotations

import struct
from contextlib import closing
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


class DispatchedFile(SlotFile[DispatchedMark]):
    """The file, open for the process that makes queues and index durable.

    A cut of the index opens it a second time (`lower_index_end`), so each write rereads it first.
    """

    __slots__ = ()

    def __init__(self, fs: FileSystem, path: str) -> None:
        """Open the file, made with zeros if it is missing. Raises: StoreFailed, StoreFull."""
        super().__init__(fs, path, SLOTS)

    def note(self, physical_offset: int, index_end: IndexEnd) -> None:
        """Record how far queues and index are durable; call after their sync.

        Raises: StoreFailed, StoreFull.
        """
        if (physical_offset, index_end) != self.reread()[1:]:
            self._write(physical_offset, index_end)

    def lower(self, physical_offset: int) -> None:
        """Record that nothing above `physical_offset` is known: the log ends there.

        Raises: StoreFailed, StoreFull.
        """
        mark = self.reread()
        if physical_offset < mark.physical_offset:
            self._write(physical_offset, mark.index_end if physical_offset else IndexEnd())

    def _write(self, physical_offset: int, index_end: IndexEnd) -> None:
        self.write(DispatchedMark(self.mark.sequence + 1, physical_offset, index_end))


def read_dispatched(fs: FileSystem, path: str) -> DispatchedMark:
    """Return the newest valid mark, zeros if there is none. Raises: StoreFailed."""
    return read_slot(fs, path, SLOTS)


def lower_dispatched(fs: FileSystem, path: str, physical_offset: int) -> None:
    """Lower the file's position durably, if there is a file. Raises: StoreFailed, StoreFull."""
    if fs.exists(path):
        with closing(DispatchedFile(fs, path)) as file:
            file.lower(physical_offset)


def lower_index_end(fs: FileSystem, path: str, index_end: IndexEnd) -> None:
    """Record where the index will end; call before it is cut there.

    Raises: StoreFailed, StoreFull.
    """
    with closing(DispatchedFile(fs, path)) as file:
        file.note(file.mark.physical_offset, index_end)
