"""Files of two slots, written in turn, so that a torn write leaves the previous content.

A slot is a magic, the fields of the file's owner, and the CRC-32 of all that; big endian. Of the
valid slots the one with the higher sequence counts. `SlotFile` has each slot in a page of its own,
so that no write of one can tear the other.

Invariants:
- A slot is written by one write within a sector, and is durable when `write` returns.
- Before a write the file was read from the disk. Otherwise the next slot could follow one that only
  the page cache has. After a power loss an older slot would count.

Source: none upstream.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from posixpath import dirname
from typing import Any, Final, Generic, Protocol, TypeVar
from zlib import crc32

from wakelog.storage.errors import store_errors
from wakelog.storage.file_system import FileSystem, pread_from_disk, read_file

SLOT_POSITIONS: Final = (0, 4096)
SLOT_FILE_BYTES: Final = 8192
SEQUENCE_MAX: Final = 1 << 62
"""No file is written so often. A slot at or above it is no slot of ours, and counts as none."""

_CRC: Final = struct.Struct(">I")


class Slot(Protocol):
    """The fields of a slot after the magic, in their order on disk. A NamedTuple is one."""

    @property
    def sequence(self) -> int:
        """Higher by one with each write; 0 if nothing was written yet."""

    @property
    def is_possible(self) -> bool:
        """Whether a writer can have written these fields."""

    def _asdict(self) -> dict[str, Any]: ...


SlotT = TypeVar("SlotT", bound=Slot)


@dataclass(frozen=True)
class SlotFormat(Generic[SlotT]):
    """The layout of an owner's slot.

    fields: the magic, then those of the slot. make: builds a slot; without arguments, that of a
    file without a valid one. positions: where the two slots lie.
    """

    magic: bytes
    fields: struct.Struct
    make: Callable[..., SlotT]
    positions: tuple[int, int] = SLOT_POSITIONS

    def position(self, slot: SlotT) -> int:
        """Return where a slot lies in the file."""
        return self.positions[slot.sequence % len(self.positions)]

    def encode(self, slot: SlotT) -> bytes:
        """Build one slot."""
        data = self.fields.pack(self.magic, *slot._asdict().values())
        return data + _CRC.pack(crc32(data))

    def newest(self, data: bytes) -> SlotT:
        """Return the newest valid slot of a file's content, an empty one if there is none."""
        found = [self._decode(data[position:]) for position in self.positions]
        return max(found, key=lambda slot: slot.sequence)

    def _decode(self, data: bytes) -> SlotT:
        size = self.fields.size
        if len(data) >= size + _CRC.size and _CRC.unpack_from(data, size)[0] == crc32(data[:size]):
            magic, *fields = self.fields.unpack_from(data)
            slot = self.make(*fields)
            if magic == self.magic and slot.is_possible and 0 <= slot.sequence < SEQUENCE_MAX:
                return slot
        return self.make()


class SlotFile(Generic[SlotT]):
    """The file, open for one writer at a time. All it does may raise StoreFailed or StoreFull."""

    __slots__ = ("_fd", "_format", "_fs", "_is_cache_suspect", "_path", "mark")

    def __init__(self, fs: FileSystem, path: str, slot_format: SlotFormat[SlotT]) -> None:
        """Open and read the file, made with zeros if it is missing.

        `mark` is the newest slot, as this object last read or wrote it.
        """
        self._fs = fs
        self._path = path
        self._format = slot_format
        self._is_cache_suspect = True
        with store_errors(path, "open"):
            is_new = not fs.exists(path)
            self._fd = fs.open(path, create=True)
            try:
                if fs.size(self._fd) < SLOT_FILE_BYTES:
                    fs.allocate(self._fd, SLOT_FILE_BYTES)
                    fs.sync(self._fd)
                if is_new:
                    fs.sync_directory(dirname(path))
                self.mark = self._read()
            except OSError:
                fs.close(self._fd)
                raise

    def reread(self) -> SlotT:
        """Read what another writer wrote since; after a failed write, from the disk."""
        with store_errors(self._path, "read"):
            self.mark = self._read()
        return self.mark

    def write(self, slot: SlotT) -> None:
        """Make this the slot that counts: its sequence follows. It is durable on return."""
        assert slot.sequence == self.mark.sequence + 1, (slot, self.mark)
        self._is_cache_suspect = True
        with store_errors(self._path, "write"):
            self._fs.pwrite(self._fd, self._format.encode(slot), self._format.position(slot))
            self._fs.datasync(self._fd)
        self.mark, self._is_cache_suspect = slot, False

    def close(self) -> None:
        """Close the file."""
        self._fs.close(self._fd)

    def _read(self) -> SlotT:
        if self._is_cache_suspect:
            data = pread_from_disk(self._fs, self._fd, SLOT_FILE_BYTES)
            self._is_cache_suspect = False
        else:
            data = self._fs.pread(self._fd, SLOT_FILE_BYTES, 0)
        return self._format.newest(data)


def read_slot(fs: FileSystem, path: str, slot_format: SlotFormat[SlotT]) -> SlotT:
    """Return the newest valid slot of a file, an empty one without a file or a valid slot.

    A slot that only the page cache has counts too. Raises: StoreFailed.
    """
    return slot_format.newest(read_file(fs, path, SLOT_FILE_BYTES) or b"")
