"""How far queues and index are durable, `wakelog.dispatched` in the root.

Every queue entry, extension unit and index key of a record that ends at or below the position here
is on the disk. After a crash dispatch begins there, not at the segment that the checkpoint's times
lead to. The index is cut there, not checked from its front. 4.9.3 ignores the file.
docs/formats/dispatched.md has its layout, `slot_file.py` says how its slots are used.

Invariants:
- A slot is written after queues and index up to there were synced; it may lag, never lead.
- It is lowered before the log grows again from a lower end, and before index entries that it
  counts are removed: an interrupted cut leaves some of them torn.

Source: none upstream.
"""

import struct
from contextlib import closing
from typing import Final, NamedTuple

from wakelog.storage.durability.slot_file import SlotFile, SlotFormat, read_slot
from wakelog.storage.file_system import FileSystem


class IndexEnd(NamedTuple):
    """The newest index file, by the number that its name is, and its next entry; zeros if none."""

    name: int = 0
    entry_next: int = 0


class DispatchedMark(NamedTuple):
    """One slot."""

    index_entry_next: int = 0
    sequence: int = 0
    physical_offset: int = 0
    index_name: int = 0

    @property
    def index_end(self) -> IndexEnd:
        """Where the index ended."""
        return IndexEnd(self.index_name, self.index_entry_next)

    @property
    def is_possible(self) -> bool:
        """Whether a writer can have written it."""
        return min(self) >= 0


SLOTS: Final = SlotFormat(b"WLDP", struct.Struct(">4siqqq"), DispatchedMark)


class DispatchedFile(SlotFile[DispatchedMark]):
    """The file, open for the process that makes queues and index durable.

    A cut of the index opens it a second time (`lower_index_end`), so each write rereads it first.
    """

    __slots__ = ()

    def __init__(self, fs: FileSystem, path: str) -> None:
        super().__init__(fs, path, SLOTS)

    def note(self, physical_offset: int, index_end: IndexEnd) -> None:
        """Record how far queues and index are durable; call after their sync."""
        mark = self.reread()
        if (physical_offset, index_end) != (mark.physical_offset, mark.index_end):
            name, entry_next = index_end
            self.write(DispatchedMark(entry_next, mark.sequence + 1, physical_offset, name))

    def lower(self, physical_offset: int) -> None:
        """Record that nothing above `physical_offset` is known: the log ends there."""
        mark = self.reread()
        if physical_offset < mark.physical_offset:
            self.note(physical_offset, mark.index_end if physical_offset else IndexEnd())


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
