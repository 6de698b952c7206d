"""Files of two slots, written in turn: a write that a crash tears leaves what was said before.

    offset  content
    0       a slot: magic (4 bytes), a word (4), the sequence (8), fields of the file's owner, and
            the CRC-32 of all that; big endian
    4096    the second slot, alike, in a page of its own; the file is 8192 bytes long

Of the slots that are whole and can be true the one with the higher sequence counts.

Invariants:
- A slot is written by one write within a sector, and is durable when `write` returns.
- Who writes has read the file from the disk: else a slot that never got there would count.

Source: none upstream.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from posixpath import dirname
from typing import Any, Final, Generic, Protocol, TypeVar
from zlib import crc32

from wakelog.storage.errors import store_failure
from wakelog.storage.file_system import FileSystem, pread_from_disk

SLOT_POSITIONS: Final = (0, 4096)
"""Pages of their own, so that no write of one can tear the other."""
SLOT_FILE_BYTES: Final = 8192
SEQUENCE_MAX: Final = 1 << 62
"""Nobody writes so often; behind one that was made up no other could be written."""

_CRC: Final = struct.Struct(">I")


class Slot(Protocol):
    """What an owner keeps in a slot."""

    @property
    def sequence(self) -> int:
        """Higher by one with each write; 0 if nothing was written yet."""


SlotT = TypeVar("SlotT", bound=Slot)


@dataclass(frozen=True)
class SlotFormat(Generic[SlotT]):
    """How an owner's slot is laid out."""

    magic: bytes
    fields: struct.Struct
    """Of magic, word, sequence and what is the owner's."""
    pack: Callable[[SlotT], tuple[Any, ...]]
    """Return the fields behind the magic."""
    unpack: Callable[..., SlotT | None]
    """Take the fields behind the magic; None if they cannot be true."""
    nothing: SlotT
    """What a file says that says nothing."""

    def encode(self, slot: SlotT) -> bytes:
        """Build one slot."""
        data = self.fields.pack(self.magic, *self.pack(slot))
        return data + _CRC.pack(crc32(data))

    def newest(self, data: bytes) -> SlotT:
        """Return the slot of a file's content that counts, `nothing` if none does."""
        found = [self._decode(data[position:]) for position in SLOT_POSITIONS]
        return max(found, key=lambda slot: slot.sequence)

    def _decode(self, data: bytes) -> SlotT:
        size = self.fields.size
        if len(data) < size + _CRC.size or _CRC.unpack_from(data, size)[0] != crc32(data[:size]):
            return self.nothing
        magic, *fields = self.fields.unpack_from(data)
        slot = self.unpack(*fields) if magic == self.magic else None
        return self.nothing if slot is None or slot.sequence >= SEQUENCE_MAX else slot


class SlotFile(Generic[SlotT]):
    """The file, open for one writer at a time."""

    __slots__ = ("_fd", "_format", "_fs", "_is_doubtful", "_path", "_slot")

    def __init__(self, fs: FileSystem, path: str, slot_format: SlotFormat[SlotT]) -> None:
        """Open and read the file, made with zeros if it is missing.

        Raises: StoreFailed, StoreFull.
        """
        self._fs = fs
        self._path = path
        self._format = slot_format
        self._is_doubtful = True
        try:
            is_new = not fs.exists(path)
            self._fd = fs.open(path, create=True)
            try:
                if fs.size(self._fd) < SLOT_FILE_BYTES:
                    fs.allocate(self._fd, SLOT_FILE_BYTES)
                    fs.sync(self._fd)
                if is_new:
                    fs.sync_directory(dirname(path))
                self._slot = self._read()
            except OSError:
                fs.close(self._fd)
                raise
        except OSError as error:
            raise store_failure(path, "open", error) from error

    @property
    def slot(self) -> SlotT:
        """The slot that counts, as this object last read or wrote it."""
        return self._slot

    def reread(self) -> SlotT:
        """Take in what another writer wrote since; behind a failure, from the disk.

        Raises: StoreFailed.
        """
        try:
            self._slot = self._read()
        except OSError as error:
            raise store_failure(self._path, "read", error) from error
        return self._slot

    def write(self, slot: SlotT) -> None:
        """Make this the slot that counts: its sequence follows. Raises: StoreFailed, StoreFull."""
        assert slot.sequence == self._slot.sequence + 1, (slot, self._slot)
        self._is_doubtful = True
        try:
            position = SLOT_POSITIONS[slot.sequence % len(SLOT_POSITIONS)]
            self._fs.pwrite(self._fd, self._format.encode(slot), position)
            self._fs.datasync(self._fd)
        except OSError as error:
            raise store_failure(self._path, "write", error) from error
        self._slot, self._is_doubtful = slot, False

    def close(self) -> None:
        """Close the file."""
        self._fs.close(self._fd)

    def _read(self) -> SlotT:
        if self._is_doubtful:
            data = pread_from_disk(self._fs, self._fd, SLOT_FILE_BYTES)
            self._is_doubtful = False
        else:
            data = self._fs.pread(self._fd, SLOT_FILE_BYTES, 0)
        return self._format.newest(data)


def read_slot(fs: FileSystem, path: str, slot_format: SlotFormat[SlotT]) -> SlotT:
    """Return what the file says, `nothing` where there is none or it cannot be believed.

    That is true also where the page cache alone has it. Raises: StoreFailed.
    """
    try:
        fd = fs.open(path, read_only=True)
        try:
            return slot_format.newest(fs.pread(fd, SLOT_FILE_BYTES, 0))
        finally:
            fs.close(fd)
    except FileNotFoundError:
        return slot_format.nothing
    except OSError as error:
        raise store_failure(path, "read", error) from error
