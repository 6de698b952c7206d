"""Reading the commit log by physical offset, in the Broker's process or in any other.

In the Broker's process it uses the writer's own descriptors. In other processes it has files of its
own: for an unknown segment it lists the directories again, and a removed one counts as absent.

It does not know how far the log is written. A segment has its full length from the start, so bytes
after the end read as zeros. Callers bound their reads by a watermark, or check records. A segment
that is missing in front of written ones reads as zeros, so that later ones are served.

Invariants: what is returned lies in one segment; a record never crosses one.

Source: org.apache.rocketmq.store.CommitLog.getMessage, getData (4.9.3).
"""

from collections.abc import Callable
from typing import Final, TypeVar

from wakelog.protocol.record import CHECKED_HEADS, HOST_FLAGS, HOST_FLAGS_OFFSET, MAGIC_OFFSET
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file import MappedFile, OpenFiles
from wakelog.storage.log.mapped_file_queue import MappedFileQueue

Result = TypeVar("Result")

VIEW_BYTES_KEPT_MIN: Final = 256 * 1024
"""The buffer that a reader keeps: room for a full response, with the gaps between its messages. A
larger allocation goes to the kernel each time, which takes longer than the reading."""
VIEW_BYTES_KEPT_MAX: Final = 1024 * 1024
"""That of a reader of large responses."""


def commit_log_files(
    fs: FileSystem,
    config: StoreConfig,
    *,
    read_only: bool = False,
    open_files: OpenFiles | None = None,
) -> MappedFileQueue:
    """Return the log's files as configured, not loaded yet."""
    return MappedFileQueue(
        fs,
        config.paths.commit_log_directories,
        config.commit_log_file_bytes,
        read_only_directories=config.read_only_directories,
        read_only=read_only,
        open_files=open_files,
        bridges_gaps=True,
    )


class CommitLogReader:
    """Reads records and spans of the log; follows segments that other processes make and remove.

    file_bytes: of a segment.
    """

    def __init__(
        self,
        fs: FileSystem,
        config: StoreConfig,
        files: MappedFileQueue | None = None,
        *,
        open_files: OpenFiles | None = None,
    ) -> None:
        """Read through `files` of the writer in this process, else through files of its own.

        open_files: limits the descriptors of its own files.
        """
        self._follows = files is None
        if files is None:
            files = commit_log_files(fs, config, read_only=True, open_files=open_files)
        self._files = files
        self.file_bytes = config.commit_log_file_bytes
        self._last: MappedFile | None = None
        self._kept = memoryview(b"")
        if self._follows:
            self._files.refresh()

    def read(self, physical_offset: int, size_bytes: int) -> bytes | None:
        """Return exactly [physical_offset, +size_bytes), None if the log does not hold it all.

        Raises: StoreFailed.
        """
        data = self.read_span(physical_offset, size_bytes)
        return data if len(data) == size_bytes else None

    def view(
        self,
        physical_offset: int,
        size_bytes: int,
        *,
        blocking: bool = True,
        into: memoryview | None = None,
    ) -> memoryview | None:
        """Do what `read` does without a copy; valid until the next call.

        blocking: if False, also return None if the disk would be needed.
        into: a buffer of the caller with this size, in the place of the reader's own.
        Raises: StoreFailed.
        """
        file = self._find(physical_offset)
        if file is None:
            return None
        if into is not None:
            view = into
        elif size_bytes > VIEW_BYTES_KEPT_MAX:
            view = memoryview(bytearray(size_bytes))
        else:
            if size_bytes > len(self._kept):
                kept_bytes = VIEW_BYTES_KEPT_MIN
                if size_bytes > kept_bytes:
                    kept_bytes = VIEW_BYTES_KEPT_MAX
                self._kept = memoryview(bytearray(kept_bytes))
            view = self._kept[:size_bytes]
        position = physical_offset - file.start_offset
        try:
            if blocking:
                return view if file.read_into(view, position) == size_bytes else None
            return view if file.read_into_nowait(view, position) else None
        except StoreFailed as error:
            self._absent(error)
            return None

    def read_span(self, physical_offset: int, length_max: int) -> bytes:
        """Return up to `length_max` bytes, cut at the segment's end; empty if there are none.

        Raises: StoreFailed.
        """
        return self._in_segment(physical_offset, lambda file, at: file.read(at, length_max), b"")

    def read_span_into(self, buffer: bytearray | memoryview, physical_offset: int) -> int:
        """Fill `buffer` from `physical_offset`, cut at the segment's end; return the count.

        Raises: StoreFailed.
        """
        return self._in_segment(physical_offset, lambda file, at: file.read_into(buffer, at), 0)

    def skip_zeros(self, physical_offset: int) -> int:
        """Return where a record may begin at or after an offset, at most the segment's end.

        Skips what was allocated and never written. Raises: StoreFailed.
        """

        def skip(file: MappedFile, position: int) -> int:
            data = file.next_data(position)
            # The size in front of a record's magic may begin with zeros.
            begin = data if data == file.size_bytes else max(position, data - MAGIC_OFFSET)
            return file.start_offset + begin

        return self._in_segment(physical_offset, skip, physical_offset)

    def read_ahead(self, physical_offset: int, length: int) -> None:
        """Have the disk read a stretch, cut at the segment's end. Raises: StoreFailed."""
        self._in_segment(physical_offset, lambda file, at: file.read_ahead(at, length), None)

    def store_time(self, physical_offset: int) -> int:
        """Return the store time in the record at an offset, unchecked; -1 without a record.

        Raises: StoreFailed.
        """
        head = self.read(physical_offset, CHECKED_HEADS[HOST_FLAGS].size)
        if head is None:
            return -1
        fields = CHECKED_HEADS[head[HOST_FLAGS_OFFSET] & HOST_FLAGS].unpack_from(head)
        return int(fields[6])

    def segment_end(self, physical_offset: int) -> int:
        """Return the end of the segment that covers `physical_offset`."""
        return physical_offset - physical_offset % self.file_bytes + self.file_bytes

    @property
    def min_offset(self) -> int:
        """The first offset of the first known segment, 0 if there is none."""
        return self._files.min_offset

    @property
    def max_file_end(self) -> int:
        """The end of the last known segment, 0 if there is none."""
        return self._files.max_file_end

    def missing_stretches(self) -> list[tuple[int, int]]:
        """Return [begin, end) of the log where segments are missing between others, in order."""
        return self._files.missing_stretches()

    def refresh(self) -> bool:
        """List the directories again; True if segments came or went. Raises: StoreFailed."""
        self._last = None
        return self._follows and self._files.refresh()

    def close(self) -> None:
        """Close the descriptors if they are this reader's own."""
        self._last = None
        if self._follows:
            self._files.close()

    def _find(self, physical_offset: int) -> MappedFile | None:
        # Most reads are in the segment of the read before.
        last = self._last
        if last is not None and last.start_offset <= physical_offset < last.end_offset:
            return last
        file = self._files.find(physical_offset)
        if file is None and self._follows and physical_offset >= 0 and self._files.refresh():
            file = self._files.find(physical_offset)
        self._last = file if self._follows else None
        return file

    def _in_segment(
        self, physical_offset: int, read: Callable[[MappedFile, int], Result], absent: Result
    ) -> Result:
        """Call `read` with the segment and a position in it; return `absent` if there is none."""
        file = self._find(physical_offset)
        if file is not None:
            try:
                return read(file, physical_offset - file.start_offset)
            except StoreFailed as error:
                self._absent(error)
        return absent

    def _absent(self, error: StoreFailed) -> None:
        """Treat a segment that was removed meanwhile as absent; raise other errors."""
        if not isinstance(error.cause, FileNotFoundError):
            raise error
        self.refresh()
