"""The position of a plug-in dispatcher on disk, in a small file in the store's root.

The file has two slots, written in turn, so that a crash during a write leaves the other one. All
numbers are big endian. The slot with the highest number and a correct CRC counts.

    offset  width  field, of slot 0; slot 1 follows at 32
    0         8    "wlcursor"
    8         8    number of the write
    16        8    physical offset: everything below is dispatched and flushed
    24        4    CRC-32 of the 24 bytes before
    28        4    zero
"""

from __future__ import annotations

import re
import struct
import zlib
from posixpath import join
from typing import Final

from wakelog.storage.durability.slot_file import SEQUENCE_MAX
from wakelog.storage.errors import store_errors
from wakelog.storage.file_system import FileSystem, read_file

SLOT_BYTES: Final = 32
_SLOT: Final = struct.Struct(">8sqq")
_MAGIC: Final = b"wlcursor"
_CRC: Final = struct.Struct(">I4x")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}", re.ASCII)

assert _SLOT.size + _CRC.size == SLOT_BYTES


def is_dispatcher_name(name: str) -> bool:
    """Return whether a dispatcher's name can be part of a file name."""
    return _NAME.fullmatch(name) is not None


class CursorFile:
    """One plug-in's position on disk."""

    def __init__(self, fs: FileSystem, store_root: str, name: str) -> None:
        """Touch nothing yet."""
        assert is_dispatcher_name(name), name
        self.path = join(store_root, f"wakelog.cursor.{name}")
        self._store_root = store_root
        self._fs = fs
        self._number = 0

    def read(self) -> int | None:
        """Return the kept position, None without a valid slot. Raises: StoreFailed."""
        data = read_file(self._fs, self.path, 2 * SLOT_BYTES) or b""
        data = data.ljust(2 * SLOT_BYTES, b"\0")
        slots = [_read_slot(data[:SLOT_BYTES]), _read_slot(data[SLOT_BYTES:])]
        newest = max((slot for slot in slots if slot is not None), default=None)
        if newest is None:
            return None
        self._number, position = newest
        return position

    def write(self, position: int) -> None:
        """Keep a position; it is durable on return. Raises: StoreFailed, StoreFull."""
        self._number += 1
        slot = _SLOT.pack(_MAGIC, self._number, position)
        with store_errors(self.path, "write"):
            is_new = not self._fs.exists(self.path)
            fd = self._fs.open(self.path, create=True)
            try:
                place = self._number % 2 * SLOT_BYTES
                self._fs.pwrite(fd, slot + _CRC.pack(zlib.crc32(slot)), place)
                self._fs.datasync(fd)
            finally:
                self._fs.close(fd)
            if is_new:
                self._fs.sync_directory(self._store_root)


def _read_slot(data: bytes) -> tuple[int, int] | None:
    magic, number, position = _SLOT.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _SLOT.size)
    is_valid = magic == _MAGIC and crc == zlib.crc32(data[: _SLOT.size]) and position >= 0
    return (number, position) if is_valid and 0 <= number < SEQUENCE_MAX else None
