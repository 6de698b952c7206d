"""Extension units of a consume queue: what does not fit into its 20-byte entries.

An entry whose tags code is an address (fact 51) has a unit. docs/formats/consume_queue.md has the
layout. `address + 2**63` is the unit's byte offset over all files of the queue's extension, which
have one length and are named like queue files. A queue entry with a plain tags code is right with
and without units.

Units never cross a file's end, of which at least 4 bytes stay free. A unit without room goes to the
next file, and a size of -1 closes the file. No field says where the units end: they end after the
unit of the queue's last entry that has one. Later bytes belong to entries that are gone, and are
zeroed.

    at the start, the unit of the last address   units continue
    exists                                       after it
    is lost, with its file or alone              in the next file: old entries must not point to the
                                                 unit of another message
    no entry has an address                      from 0

Invariants:
- No two entries of a queue share a unit, except in a gap that one record fills.
- Units have ascending addresses in the order of their entries: 4.9.3 truncates by the last one.

Source: org.apache.rocketmq.store.ConsumeQueueExt (4.9.3). There a record that is dispatched again
gets a second unit, and lost units are handed out again.
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file import MappedFile, OpenFiles
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.queue.growing_files import GrowingFiles

EXTENSION_ADDRESS_MAX: Final = -(1 << 31) - 1
"""The greatest address. Smaller numbers are addresses, all others tags codes; on disk for good."""
ADDRESS_BASE: Final = -(1 << 63)
UNIT: Final = struct.Struct(">hqqh")  # size, tags code, store time, bytes of the bit map
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
        """Touch no file; the first `unit` lists them."""
        self.directory = directory
        self._files = MappedFileQueue(
            fs, (directory,), file_bytes, read_only=read_only, open_files=open_files
        )

    def unit(self, address: int) -> ExtensionUnit | None:
        """Return the unit at an address, None if it is gone. Raises: StoreFailed."""
        if not is_extension_address(address):
            return None
        offset = address - ADDRESS_BASE
        file = self._files.find(offset)
        if file is None and self._files.refresh():
            file = self._files.find(offset)
        if file is None:
            return None
        try:
            return _read_unit(file, offset - file.start_offset)
        except StoreFailed as error:
            # Retention may remove a file between the listing and the open.
            if isinstance(error.cause, FileNotFoundError):
                return None
            raise

    def close(self) -> None:
        """Close all descriptors and forget the files."""
        self._files.close()


def _read_unit(file: MappedFile, position: int) -> ExtensionUnit | None:
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


UNIT_BYTES_MAX: Final = 0x7FFF  # its size is a Java short
END_BLANK_BYTES: Final = 4
_END_OF_FILE: Final = b"\xff\xff"
_OFFSET_MAX: Final = EXTENSION_ADDRESS_MAX - ADDRESS_BASE


class ConsumeQueueExtWriter(ConsumeQueueExt):
    """The one writer of a queue's units. Call `recover` first.

    end: the byte offset after the last unit that was put, written or not.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        *,
        file_bytes: int,
        open_files: OpenFiles,
        make_file: Callable[[str, int], None],
    ) -> None:
        """Keep `make_file(path, size_bytes)`, which makes a zeroed file and its directory."""
        super().__init__(
            fs, directory, file_bytes=file_bytes, open_files=open_files, read_only=False
        )
        self._file_bytes = file_bytes
        self._growing = GrowingFiles(fs, self._files, make_file)
        self._pending: list[bytes] = []
        self._pending_begin = 0
        self.end = 0

    def recover(self, last_address: int | None) -> None:
        """Open the files and continue after the unit of the last address.

        last_address: of the queue's last entry that has one, None if none has.
        Raises: StoreError.
        """
        self._growing.load()
        self.truncate(last_address)

    def truncate(self, last_address: int | None) -> None:
        """Remove durably the units after the one of this address; None: all of them."""
        unit, end = None, 0
        if last_address is not None:
            offset = last_address - ADDRESS_BASE
            unit = self.unit(last_address)
            next_file = offset - offset % self._file_bytes + self._file_bytes
            end = next_file if unit is None else offset + unit.size_bytes
        if unit is None:
            self._files.truncate(0)
        elif end < self._files.max_file_end:
            self._files.truncate(end)
        self._pending = []
        self.end = self._pending_begin = end

    def put(self, tags_code: int, store_timestamp_ms: int, bitmap: bytes) -> int | None:
        """Append a unit and return its address, None if it does not fit."""
        size_bytes = UNIT.size + len(bitmap)
        if size_bytes > min(UNIT_BYTES_MAX, self._file_bytes - END_BLANK_BYTES):
            return None
        room_bytes = self._file_bytes - self.end % self._file_bytes
        begin = self.end
        if size_bytes > room_bytes - END_BLANK_BYTES:
            begin += room_bytes
            if begin + size_bytes > _OFFSET_MAX:
                return None
            self._pending.append(_END_OF_FILE.ljust(room_bytes, b"\0"))
        unit = UNIT.pack(size_bytes, tags_code, store_timestamp_ms, len(bitmap)) + bitmap
        self._pending.append(unit)
        self.end = begin + size_bytes
        return begin + ADDRESS_BASE

    def write_pending(self) -> None:
        """Write what was put, and make missing files. Raises: StoreError."""
        if self._pending:
            self._pending_begin = self._growing.write(self._pending_begin, b"".join(self._pending))
            self._pending = []

    def remove_before(self, min_address: int) -> int:
        """Delete files that end below this address, never the last one; return how many."""
        # A file that ends exactly there stays, as in 4.9.3.
        return len(self._files.remove_before(min_address - ADDRESS_BASE - 1))

    def mark_unsynced(self) -> None:
        """Count every file as written and not synced: a killed writer may have left it so."""
        self._growing.dirty.update(file.path for file in self._files.files)

    def dirty_paths(self) -> list[str]:
        """Return the files written since the last call; the caller has to sync them."""
        return self._growing.take_dirty()
