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

The second slot, alike, is at 4096, the file 8192 bytes long, as that of the watermark.

Invariants:
- A slot is written only after what it claims was synced; it may be behind, never ahead.
- It is lowered before the log can grow again behind an end below it, and before entries of the
  index go that it counts: a cut that is half done leaves some of them torn.
- Who writes has read it from the disk: else one whose sync failed would look lowered, and is not.

Source: none upstream.
"""

from __future__ import annotations

import struct
from posixpath import dirname
from typing import Final, NamedTuple
from zlib import crc32

from wakelog.storage.errors import store_failure
from wakelog.storage.file_system import FileSystem, pread_anew

SLOT_POSITIONS: Final = (0, 4096)
DISPATCHED_BYTES: Final = 8192

_MAGIC: Final = b"WLDP"
_SLOT: Final = struct.Struct(">4siqqq")
_CRC: Final = struct.Struct(">I")


class IndexEnd(NamedTuple):
    """The newest index file, by the number that its name is, and its next entry; zeros if none."""

    name: int = 0
    entry_next: int = 0


class DispatchedMark(NamedTuple):
    """One slot."""

    sequence: int = 0
    physical_offset: int = 0
    index_end: IndexEnd = IndexEnd()


class DispatchedFile:
    """The file, open for whoever makes queues and index durable; one writer at a time."""

    __slots__ = ("_fd", "_fs", "_is_doubtful", "_mark", "_path")

    def __init__(self, fs: FileSystem, path: str) -> None:
        """Open the file, made with zeros if it is missing. Raises: StoreFailed, StoreFull."""
        self._fs = fs
        self._path = path
        self._is_doubtful = True
        try:
            is_new = not fs.exists(path)
            self._fd = fs.open(path, create=True)
            try:
                if fs.size(self._fd) < DISPATCHED_BYTES:
                    fs.allocate(self._fd, DISPATCHED_BYTES)
                    fs.sync(self._fd)
                if is_new:
                    fs.sync_directory(dirname(path))
                self._mark = self._read()
            except OSError:
                fs.close(self._fd)
                raise
        except OSError as error:
            raise store_failure(path, "open", error) from error

    @property
    def mark(self) -> DispatchedMark:
        """The newest slot, as this object last read or wrote it."""
        return self._mark

    def note(self, physical_offset: int, index_end: IndexEnd) -> None:
        """Say durably how far queues and index are; call after their sync.

        Raises: StoreFailed, StoreFull.
        """
        self._look_again()
        if (physical_offset, index_end) != self._mark[1:]:
            self._write(physical_offset, index_end)

    def lower(self, physical_offset: int) -> None:
        """Say durably that above `physical_offset` nothing is known: the log ends there.

        Raises: StoreFailed, StoreFull.
        """
        self._look_again()
        if physical_offset < self._mark.physical_offset:
            self._write(physical_offset, self._mark.index_end if physical_offset else IndexEnd())

    def close(self) -> None:
        """Close the file."""
        self._fs.close(self._fd)

    def _read(self) -> DispatchedMark:
        """Read it, the first time and behind a failure from the disk."""
        if self._is_doubtful:
            data = pread_anew(self._fs, self._fd, DISPATCHED_BYTES)
            self._is_doubtful = False
        else:
            data = self._fs.pread(self._fd, DISPATCHED_BYTES, 0)
        return decode_dispatched(data)

    def _look_again(self) -> None:
        """Take in what `lower_index_end` wrote since: the slot in front of it is to go next."""
        try:
            self._mark = self._read()
        except OSError as error:
            raise store_failure(self._path, "read", error) from error

    def _write(self, physical_offset: int, index_end: IndexEnd) -> None:
        mark = DispatchedMark(self._mark.sequence + 1, physical_offset, index_end)
        self._is_doubtful = True
        try:
            position = SLOT_POSITIONS[mark.sequence % len(SLOT_POSITIONS)]
            self._fs.pwrite(self._fd, encode_slot(mark), position)
            self._fs.datasync(self._fd)
        except OSError as error:
            raise store_failure(self._path, "write", error) from error
        self._mark, self._is_doubtful = mark, False


def read_dispatched(fs: FileSystem, path: str) -> DispatchedMark:
    """Return what the file says, zeros where there is none or it cannot be believed.

    That is true also where the page cache alone has it. Raises: StoreFailed.
    """
    try:
        fd = fs.open(path, read_only=True)
        try:
            return decode_dispatched(fs.pread(fd, DISPATCHED_BYTES, 0))
        finally:
            fs.close(fd)
    except FileNotFoundError:
        return DispatchedMark()
    except OSError as error:
        raise store_failure(path, "read", error) from error


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


def encode_slot(mark: DispatchedMark) -> bytes:
    """Build one slot."""
    name, entry_next = mark.index_end
    data = _SLOT.pack(_MAGIC, entry_next, mark.sequence, mark.physical_offset, name)
    return data + _CRC.pack(crc32(data))


def decode_dispatched(data: bytes) -> DispatchedMark:
    """Return the newest slot that is whole, zeros if none is."""
    found = [_decode_slot(data[position:]) for position in SLOT_POSITIONS]
    return max(found, key=lambda mark: mark.sequence)


def _decode_slot(data: bytes) -> DispatchedMark:
    if len(data) < _SLOT.size + _CRC.size:
        return DispatchedMark()
    slot = data[: _SLOT.size]
    if _CRC.unpack_from(data, _SLOT.size)[0] != crc32(slot):
        return DispatchedMark()
    magic, entry_next, sequence, physical_offset, name = _SLOT.unpack(slot)
    if magic != _MAGIC or min(entry_next, sequence, physical_offset, name) < 0:
        return DispatchedMark()
    return DispatchedMark(sequence, physical_offset, IndexEnd(name, entry_next))
