"""The position of a plug-in dispatcher on disk, in a small file in the store's root.

The file has two slots (`slot_file.py`), written in turn, so that a crash during a write leaves the
other one. All numbers are big endian.

    offset  width  field, of slot 0; slot 1 follows at 32
    0         8    "wlcursor"
    8         8    number of the write
    16        8    physical offset: everything below is dispatched and flushed
    24        4    CRC-32 of the 24 bytes before
    28        4    zero
"""

import re
import struct
from posixpath import join
from typing import Final, NamedTuple

from wakelog.storage.durability.slot_file import SlotFormat
from wakelog.storage.errors import store_errors
from wakelog.storage.file_system import FileSystem, opened, read_file

SLOT_BYTES: Final = 32
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}", re.ASCII)


class Cursor(NamedTuple):
    """One slot."""

    sequence: int = 0
    physical_offset: int = -1

    @property
    def is_possible(self) -> bool:
        """Whether a writer can have written it."""
        return self.physical_offset >= 0


_SLOTS: Final = SlotFormat(b"wlcursor", struct.Struct(">8sqq"), Cursor, (0, SLOT_BYTES))


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
        self._sequence = 0

    def read(self) -> int | None:
        """Return the kept position, None without a valid slot. Raises: StoreFailed."""
        found = _SLOTS.newest(read_file(self._fs, self.path, 2 * SLOT_BYTES) or b"")
        if not found.is_possible:
            return None
        self._sequence = found.sequence
        return found.physical_offset

    def write(self, position: int) -> None:
        """Keep a position; it is durable on return. Raises: StoreFailed, StoreFull."""
        self._sequence += 1
        slot = Cursor(self._sequence, position)
        with store_errors(self.path, "write"):
            is_new = not self._fs.exists(self.path)
            with opened(self._fs, self.path, create=True) as fd:
                data = _SLOTS.encode(slot).ljust(SLOT_BYTES, b"\0")
                self._fs.pwrite(fd, data, _SLOTS.position(slot))
                self._fs.datasync(fd)
            if is_new:
                self._fs.sync_directory(self._store_root)
