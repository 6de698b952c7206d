"""Writing the extension units of one queue: behind each other, as its entries get their addresses.

Units gather in memory and reach the files with `write_pending`, which the queue's writer calls
before it writes the entries that point to them. A unit for which a file has no room goes to the
next one, and the file is closed by a size of -1:

    | unit | unit | ... | unit | -1 | rest, fewer bytes than the next unit and 4 more |

The end of the units is not stated anywhere: it is behind the unit of the queue's last entry that
has one. Whatever lies behind was written for an entry that is gone, and is zeroed.

    at the start, the unit of the last address       units go on
    is there                                         behind it
    is lost, with its file or alone                  in the next file; what old entries point to
                                                     must not become the unit of another message
    no entry has an address                          from 0

Invariants:
- No two entries of a queue share a unit, but for a gap that one record fills.
- Units have ascending addresses in the order of their entries: 4.9.3 truncates by the last one.

Source: org.apache.rocketmq.store.ConsumeQueueExt (4.9.3). There a record that is dispatched again
gets a second unit, and lost units are handed out again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.queue.consume_queue_ext import (
    ADDRESS_BASE,
    EXTENSION_ADDRESS_MAX,
    UNIT,
    ConsumeQueueExt,
)
from wakelog.storage.queue.growing_files import GrowingFiles

UNIT_BYTES_MAX: Final = 0x7FFF  # its size is a Java short
END_BLANK_BYTES: Final = 4
_END_OF_FILE: Final = b"\xff\xff"
_OFFSET_MAX: Final = EXTENSION_ADDRESS_MAX - ADDRESS_BASE


class ConsumeQueueExtWriter(ConsumeQueueExt):
    """The one writer of a queue's units. Call `recover` first."""

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
        self._end = 0

    @property
    def end(self) -> int:
        """The byte offset behind the last unit that was put, written or not."""
        return self._end

    def recover(self, last_address: int | None) -> None:
        """Open the files and let units go on behind the one of the last address.

        last_address: of the queue's last entry that has one, None if none has.
        Raises: StoreError.
        """
        self._growing.load()
        self.truncate(last_address)

    def truncate(self, last_address: int | None) -> None:
        """Forget, durably, the units behind the one of this address; None: all of them."""
        if last_address is None:
            self._files.remove_all()
            self._set_end(0)
            return
        offset = last_address - ADDRESS_BASE
        unit = self.unit(last_address)
        if unit is None:
            self._files.remove_all()
            self._set_end(offset - offset % self._file_bytes + self._file_bytes)
            return
        end = offset + unit.size_bytes
        if end < self._files.max_file_end:
            self._files.truncate(end)
        self._set_end(end)

    def put(self, tags_code: int, store_timestamp_ms: int, bitmap: bytes) -> int | None:
        """Append a unit and return its address, None if it cannot have one."""
        size_bytes = UNIT.size + len(bitmap)
        if size_bytes > min(UNIT_BYTES_MAX, self._file_bytes - END_BLANK_BYTES):
            return None
        room_bytes = self._file_bytes - self._end % self._file_bytes
        begin = self._end
        if size_bytes > room_bytes - END_BLANK_BYTES:
            begin += room_bytes
            if begin + size_bytes > _OFFSET_MAX:
                return None
            self._pending.append(_END_OF_FILE.ljust(room_bytes, b"\0"))
        unit = UNIT.pack(size_bytes, tags_code, store_timestamp_ms, len(bitmap)) + bitmap
        self._pending.append(unit)
        self._end = begin + size_bytes
        return begin + ADDRESS_BASE

    def write_pending(self) -> None:
        """Write what was put; making files where they are missing. Raises: StoreError."""
        if not self._pending:
            return
        self._pending_begin = self._growing.write(self._pending_begin, b"".join(self._pending))
        self._pending = []

    def remove_before(self, min_address: int) -> int:
        """Delete files that end below this address, never the last one; return how many."""
        # One that ends just there stays, as in 4.9.3.
        return len(self._files.remove_before(min_address - ADDRESS_BASE - 1))

    def take_for_unsynced(self) -> None:
        """Count every file as written and not synced; few of them are, and the others cost little.

        A writer that was killed may have left them so, and nobody else remembers.
        """
        self._growing.dirty.update(file.path for file in self._files.files)

    def dirty_paths(self) -> list[str]:
        """Return the files written since the last call, whose data is not yet synced."""
        return self._growing.take_dirty()

    def _set_end(self, end: int) -> None:
        self._pending = []
        self._end = self._pending_begin = end
