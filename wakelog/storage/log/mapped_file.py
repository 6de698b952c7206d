"""One file of fixed length in a sequence: a segment of the log, a piece of a queue.

The noun is RocketMQ's; nothing is mapped (see `file_system.py`). A mapped file has its start offset
in its name, and opens its descriptor when it first needs one.

Invariants:
- `start_offset` is a multiple of `size_bytes`; the file covers [start_offset, end_offset).
- Nothing is read or written outside [0, size_bytes).

Source: org.apache.rocketmq.store.MappedFile (4.9.3), without its positions. They belong to the log
that owns the file, because a file cannot know how far another process wrote it.
"""

import errno
from collections import OrderedDict
from collections.abc import Sequence

from wakelog.storage.errors import store_errors, store_failure
from wakelog.storage.file_system import Buffer, FileSystem, process_descriptors_max

# Descriptors of queue files kept open at once; a miss costs one open, about 5 us. A process that
# may open few descriptors gives these files an eighth of them: it has sockets and a log as well.
OPEN_FILE_COUNT_MAX = 256
OPEN_FILE_COUNT_MIN = 8
_DESCRIPTORS_PER_OPEN_FILE = 8


def open_files_allowed(count_max: int, descriptors_max: int) -> int:
    """Return how many files of `count_max` a process with so many descriptors may keep open.

    They get an eighth of the descriptors, and fewer than OPEN_FILE_COUNT_MAX less in proportion.
    """
    wanted = _DESCRIPTORS_PER_OPEN_FILE * OPEN_FILE_COUNT_MAX
    share = min(count_max, OPEN_FILE_COUNT_MAX) * descriptors_max // wanted
    return min(count_max, max(OPEN_FILE_COUNT_MIN, share))


class OpenFiles:
    """Which of many mapped files have a descriptor; one that was not used for long is closed.

    A use only sets a mark of the file. A file with a mark loses it and counts as opened again, in
    the place of being closed: so a use of one of thousands touches nothing else.
    """

    def __init__(
        self, count_max: int = OPEN_FILE_COUNT_MAX, *, descriptors_max: int | None = None
    ) -> None:
        """Keep at most `count_max`, and fewer where this process may open few descriptors."""
        assert count_max > 0
        if descriptors_max is None:
            descriptors_max = process_descriptors_max()
        self._count_max = open_files_allowed(count_max, descriptors_max)
        self._files: OrderedDict[MappedFile, None] = OrderedDict()

    def opened(self, file: "MappedFile") -> None:
        """Note that `file` has a descriptor now; close another one over the limit."""
        files = self._files
        if len(files) >= self._count_max:
            while (first := next(iter(files))).was_used:
                first.was_used = False
                files.move_to_end(first)
            first.release()
        files[file] = None

    def forget(self, file: "MappedFile") -> None:
        """Note that `file` has no descriptor any more."""
        self._files.pop(file, None)


class MappedFile:
    """One fixed-size file. Reads and writes by position; holds at most one descriptor."""

    is_missing = False
    """Whether it takes the place of a file that does not exist (`MissingFile`)."""

    __slots__ = (
        "_fd",
        "_fs",
        "_open_files",
        "_read_only",
        "path",
        "size_bytes",
        "start_offset",
        "was_used",
    )

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        *,
        start_offset: int,
        size_bytes: int,
        read_only: bool = False,
        open_files: OpenFiles | None = None,
    ) -> None:
        """Describe an existing file of `size_bytes`; nothing is opened yet."""
        assert start_offset >= 0 and size_bytes > 0
        self.path = path
        self.start_offset = start_offset
        self.size_bytes = size_bytes
        self._fs = fs
        self._read_only = read_only
        self._open_files = open_files
        self._fd: int | None = None
        self.was_used = False
        """Whether its descriptor was used since it was opened, or since `OpenFiles` looked."""

    @property
    def end_offset(self) -> int:
        """The offset after the file's last byte."""
        return self.start_offset + self.size_bytes

    @property
    def fd(self) -> int:
        """The file's descriptor, opened on first use. Raises: StoreFailed."""
        fd = self._fd
        if fd is not None:
            self.was_used = True
            return fd
        try:
            fd = self._fd = self._fs.open(self.path, read_only=self._read_only)
        except OSError as error:
            raise store_failure(self.path, "open", error) from error
        self.was_used = False
        if self._open_files is not None:
            self._open_files.opened(self)
        return fd

    def position_of(self, offset: int) -> int:
        """Return the position inside this file of an offset of the whole sequence."""
        position = offset - self.start_offset
        assert 0 <= position <= self.size_bytes, (offset, self.path)
        return position

    def apart(self) -> "MappedFile":
        """Return the file for another thread: to be read, with a descriptor of its own."""
        return MappedFile(
            self._fs,
            self.path,
            start_offset=self.start_offset,
            size_bytes=self.size_bytes,
            read_only=True,
        )

    def read(self, position: int, length: int) -> bytes:
        """Read [position, position + length), cut at the file's end. Raises: StoreFailed."""
        length = min(length, self.size_bytes - position)
        assert position >= 0 and length >= 0, (position, length)
        try:
            return self._fs.pread(self.fd, length, position)
        except OSError as error:
            raise store_failure(self.path, "read", error) from error

    def read_nowait(self, position: int, length: int) -> bytes | None:
        """Do what `read` does if no disk is needed, else return None. Raises: StoreFailed."""
        buffer = bytearray(min(length, self.size_bytes - position))
        return bytes(buffer) if self.read_into_nowait(buffer, position) else None

    def read_into_nowait(self, buffer: bytearray | memoryview, position: int) -> bool:
        """Fill `buffer` if the file is long enough and no disk is needed, else return False.

        Raises: StoreFailed.
        """
        assert position >= 0, position
        if position + len(buffer) > self.size_bytes:
            return False
        try:
            return self._fs.pread_into_nowait(self.fd, buffer, position)
        except OSError as error:
            raise store_failure(self.path, "read", error) from error

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """Fill `buffer` from `position`; return the count, short at the end.

        Raises: StoreFailed.
        """
        view = memoryview(buffer)[: self.size_bytes - position]
        try:
            return self._fs.pread_into(self.fd, view, position)
        except OSError as error:
            raise store_failure(self.path, "read", error) from error

    def read_ahead(self, position: int, length: int) -> None:
        """Have the disk read [position, position + length). Raises: StoreFailed."""
        with store_errors(self.path, "read"):
            self._fs.read_ahead(self.fd, min(length, self.size_bytes - position), position)

    def next_data(self, position: int) -> int:
        """Return the next position at or after `position` with data, or the file's end.

        Raises: StoreFailed.
        """
        with store_errors(self.path, "seek"):
            found = self._fs.next_data(self.fd, position)
        return self.size_bytes if found is None else min(found, self.size_bytes)

    def data_end(self, position: int) -> int:
        """Return where the data at `position`, found by `next_data`, ends. Raises: StoreFailed."""
        with store_errors(self.path, "seek"):
            return min(self._fs.data_end(self.fd, position), self.size_bytes)

    def write(self, position: int, data: Buffer) -> None:
        """Write all of `data` at `position`. Raises: StoreFailed, StoreFull."""
        assert position >= 0 and position + len(data) <= self.size_bytes, (position, len(data))
        try:
            self._fs.pwrite(self.fd, data, position)
        except OSError as error:
            raise store_failure(self.path, "write", error) from error

    def write_all(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write `buffers` one after the other from `position`. Raises: StoreFailed, StoreFull."""
        length = sum(map(len, buffers))
        assert position >= 0 and position + length <= self.size_bytes, (position, length)
        try:
            self._fs.pwritev(self.fd, buffers, position)
        except OSError as error:
            raise store_failure(self.path, "write", error) from error

    def reserve(self, position: int, length: int) -> None:
        """Have blocks for a stretch that was never written. Raises: StoreFailed, StoreFull."""
        assert position >= 0 and position + length <= self.size_bytes, (position, length)
        with store_errors(self.path, "reserve"):
            self._fs.reserve(self.fd, position, length)

    def datasync(self) -> None:
        """Return once what was written is durable. Raises: StoreFailed; then nothing is certain."""
        with store_errors(self.path, "sync"):
            self._fs.datasync(self.fd)

    def reread_from_disk(self) -> None:
        """Sync and drop the page cache, so that reads use the disk. Raises: StoreFailed."""
        self.datasync()
        with store_errors(self.path, "read"):
            self._fs.forget_cached(self.fd)

    def is_removed(self) -> bool:
        """Tell whether the open file has lost its name. Raises: StoreFailed."""
        try:
            return self._fd is not None and self._fs.name_count(self._fd) == 0
        except OSError as error:
            raise store_failure(self.path, "stat", error) from error

    def modified_ms(self) -> int:
        """Return the file's modification time. Raises: StoreFailed."""
        with store_errors(self.path, "stat"):
            return self._fs.modified_ms(self.path)

    def release(self) -> None:
        """Close the descriptor if there is one; the next use opens it again."""
        fd, self._fd = self._fd, None
        if fd is not None:
            self._fs.close(fd)
        if self._open_files is not None:
            self._open_files.forget(self)


class MissingFile(MappedFile):
    """Takes the place of a file that is missing between others, and reads as zeros.

    So later positions are found, and readers skip it like any other damage. It has no descriptor,
    and nothing is written to it: a log with one takes no messages.
    """

    is_missing = True

    __slots__ = ()

    @property
    def fd(self) -> int:
        """Raises: StoreFailed."""
        absent = FileNotFoundError(errno.ENOENT, "it is missing", self.path)
        raise store_failure(self.path, "open", absent)

    def read(self, position: int, length: int) -> bytes:
        """Return zeros, cut at the file's end."""
        return bytes(min(length, self.size_bytes - position))

    def read_into_nowait(self, buffer: bytearray | memoryview, position: int) -> bool:
        """Fill `buffer` with zeros if the file is long enough, else return False."""
        return self.read_into(buffer, position) == len(buffer)

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """Fill `buffer` with zeros; return the count, short at the end."""
        count = min(len(buffer), self.size_bytes - position)
        memoryview(buffer)[:count] = bytes(count)
        return count

    def next_data(self, position: int) -> int:
        """Return the file's end."""
        return self.size_bytes

    def read_ahead(self, position: int, length: int) -> None:
        """Do nothing."""

    def datasync(self) -> None:
        """Do nothing."""

    def reread_from_disk(self) -> None:
        """Do nothing."""

    def modified_ms(self) -> int:
        """Return 0, the oldest time, so that no earlier file is kept because of it."""
        return 0
