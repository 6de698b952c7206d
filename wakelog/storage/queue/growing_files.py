"""The files of a queue, or of its extension units, as their one writer fills them.

A write past the last file makes the next one, of full length and sparse. Blocks are reserved ahead
of each write. The files with unsynced data are kept for the sync (`dispatchers/sync_files.py`).

Source: org.apache.rocketmq.store.MappedFileQueue (4.9.3), as ConsumeQueue and ConsumeQueueExt use
it to append.
"""

from collections.abc import Callable

from wakelog.storage.errors import store_errors
from wakelog.storage.file_system import Buffer, FileSystem
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.log.reservation import (
    QUEUE_FIRST_BYTES,
    QUEUE_STEP_BYTES,
    Reservation,
)


class GrowingFiles:
    """Writes across files. `dirty` are those written since `take_dirty`."""

    __slots__ = ("_files", "_fs", "_make_file", "_reservation", "dirty")

    def __init__(
        self, fs: FileSystem, files: MappedFileQueue, make_file: Callable[[str, int], None]
    ) -> None:
        """Keep `make_file(path, size_bytes)`, which makes a zeroed file and its directory."""
        self._fs = fs
        self._files = files
        self._make_file = make_file
        self._reservation = Reservation(QUEUE_STEP_BYTES, QUEUE_FIRST_BYTES)
        self.dirty: set[str] = set()

    def load(self) -> None:
        """Open the files; extend a short last one, and remove files after a gap.

        Raises: StoreError.
        """
        report = self._files.load()
        if report.short_last is not None:
            self._files.extend_short_last(report.short_last)
        for path in report.beyond_gap:
            with store_errors(path, "remove"):
                self._fs.unlink(path)

    def write(self, offset: int, data: Buffer) -> int:
        """Write at a byte offset of the queue; return the offset after it. Raises: StoreError.

        After a failed write the same data may be written again at the same offset.
        """
        file_bytes = self._files.file_size_bytes
        view = memoryview(data)
        while view:
            file = self._files.find(offset)
            if file is None:
                file = self._make(offset - offset % file_bytes)
            length = min(len(view), file.end_offset - offset)
            self._reservation.cover(file, offset, offset + length)
            file.write(offset - file.start_offset, view[:length])
            self.dirty.add(file.path)
            offset += length
            view = view[length:]
        return offset

    def write_reserved(self, offset: int, data: Buffer) -> int | None:
        """Do what `write` does if the last file has all of the place reserved, else return None."""
        file, end = self._files.last, offset + len(data)
        if file is None or end > self._reservation.end:
            return None
        position = offset - file.start_offset
        if position < 0 or position + len(data) > file.size_bytes:
            return None
        file.write(position, data)
        self.dirty.add(file.path)
        return end

    def take_dirty(self) -> list[str]:
        """Return the files written since the last call; the caller has to sync them."""
        dirty, self.dirty = sorted(self.dirty), set()
        return dirty

    def _make(self, start_offset: int) -> MappedFile:
        path = self._files.path_for(start_offset)
        self._make_file(path, self._files.file_size_bytes)
        self._reservation.forget_from(start_offset)
        return self._files.add(path, start_offset)
