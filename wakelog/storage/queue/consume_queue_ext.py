"""Reading extension units of a consume queue: what does not fit into its 20-byte entries.

An entry whose tags code is an address (fact 51) has a unit: `address + 2**63` is the unit's byte
offset over all files of the queue's extension, which have one length and are named like queue
files. All numbers are big endian.

    offset  width  field
    0         2    size of the unit; -1 ends the file, 0 was never written
    2         8    tags code
    10        8    store timestamp, ms
    18        2    bytes of the bit map, 0 if none
    20        n    bit map: which consumers' filters the message passed

Units never cross a file's end, of which at least 4 bytes stay free. A queue entry with a plain
tags code is right with and without units; `consume_queue_ext_writer` writes them.

Source: org.apache.rocketmq.store.ConsumeQueueExt (4.9.3).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.log.mapped_file_queue import MappedFileQueue

EXTENSION_ADDRESS_MAX: Final = -(1 << 31) - 1
"""The greatest address. Smaller numbers are addresses, all others tags codes; on disk for good."""
ADDRESS_BASE: Final = -(1 << 63)
UNIT: Final = struct.Struct(">hqqh")
# Read with the fixed part: the default bitmap has 14 bytes, and few have more than these.
_BITMAP_BYTES_AHEAD: Final = 44


class ExtensionUnit(NamedTuple):
    """One unit."""

    size_bytes: int
    tags_code: int
    store_timestamp_ms: int
    bitmap: bytes


def is_extension_address(tags_code: int) -> bool:
    """Tell whether an entry's tags code is the address of a unit."""
    return tags_code <= EXTENSION_ADDRESS_MAX


class ConsumeQueueExt:
    """The units of one queue, read; `directory` is `paths.consume_queue_extension(...)`."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        *,
        file_bytes: int,
        open_files: OpenFiles,
        read_only: bool = True,
    ) -> None:
        """Touch no file; the first unit asked for lists them."""
        self.directory = directory
        self._files = MappedFileQueue(
            fs, (directory,), file_bytes, read_only=read_only, open_files=open_files
        )

    def unit(self, address: int) -> ExtensionUnit | None:
        """Return the unit at an address, None if there is none any more. Raises: StoreFailed."""
        if not is_extension_address(address):
            return None
        try:
            return self._unit(address)
        except StoreFailed as error:
            # Retention may remove a file between the look at the list and the open.
            if isinstance(error.cause, FileNotFoundError):
                return None
            raise

    def _unit(self, address: int) -> ExtensionUnit | None:
        offset = address - ADDRESS_BASE
        file = self._files.find(offset)
        if file is None and self._files.refresh():
            file = self._files.find(offset)
        if file is None:
            return None
        position = offset - file.start_offset
        data = file.read(position, UNIT.size + _BITMAP_BYTES_AHEAD)
        if len(data) < UNIT.size:
            return None
        size_bytes, tags_code, store_timestamp_ms, bitmap_bytes = UNIT.unpack_from(data)
        if size_bytes < 1:
            return None
        bitmap = data[UNIT.size : UNIT.size + max(bitmap_bytes, 0)]
        if len(bitmap) < bitmap_bytes:
            bitmap = file.read(position + UNIT.size, bitmap_bytes)
        return ExtensionUnit(size_bytes, tags_code, store_timestamp_ms, bitmap)

    def close(self) -> None:
        """Close all descriptors and forget the files."""
        self._files.close()
