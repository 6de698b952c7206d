"""The store's only way to the disk.

Everything in `storage/` does its I/O through a `FileSystem`. Tests replace it by memory, or by a
disk that crashes, tears writes and fails. Nothing else in `storage/` imports `os` or `fcntl`.
`scan_columns` has a map without a file, as a buffer. Paths are absolute strings, descriptors are
ints, failures are `OSError`.

There is no memory map: an I/O error under a map is a SIGBUS that kills the process, while
`pread` and `pwrite` return an error that can be handled.

Invariants:
- `pwrite` and `pwritev` write everything or raise; a short write is continued.
- `datasync` promises data and the length needed to read it; only `sync_directory` promises names.
- A call that raised has promised nothing. A failed sync is never repeated and trusted.

Source: java.nio.channels.FileChannel and java.io.File as org.apache.rocketmq.store.MappedFile and
MappedFileQueue (4.9.3) use them, with `posix_fallocate` ahead of the writer in the place of maps.
"""

import contextlib
import errno
import fcntl
import os
import resource
import struct
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from posixpath import dirname
from typing import NamedTuple

from wakelog.storage.errors import store_errors

# POSIX lets one pwritev take IOV_MAX buffers; Linux and macOS both say 1024.
WRITE_BUFFER_COUNT_MAX = 1024
# Zeros are written in pieces of this size where the system cannot allocate by itself.
ZERO_PIECE_BYTES = 1 << 20

# The owner reads and writes; the group, such as that of Spark, reads.
FILE_MODE, DIRECTORY_MODE = 0o640, 0o750

_MACOS = sys.platform == "darwin"
_NO_WAIT_FLAG: int | None = getattr(os, "RWF_NOWAIT", None)
# "the call is not there, or not on this file system": EOPNOTSUPP, ENOSYS, and EINVAL of old kernels
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
_SHARES_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})

Buffer = bytes | bytearray | memoryview


SYNC_THREADS_MAX = 8
"""Threads of one `sync_all`; they end with it."""


def process_descriptors_max() -> int:
    """Return how many descriptors this process may have open."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if allowed == resource.RLIM_INFINITY else allowed


class DiskUsage(NamedTuple):
    """Bytes of the partition that holds a path; `free_bytes` is what this user may still take."""

    total_bytes: int
    used_bytes: int
    free_bytes: int

    @property
    def used_percent(self) -> int | None:
        """How full it is in whole percent, rounded up as 4.9.3 does; None if that is not known."""
        whole_bytes = self.used_bytes + self.free_bytes
        return -(-self.used_bytes * 100 // whole_bytes) if whole_bytes > 0 else None


class FileSystem:
    """The operating system's files. Every method may raise OSError.

    Its only state is which calls are unsupported. Tests override every method.
    """

    __slots__ = ("_no_wait_flag",)

    def __init__(self) -> None:
        """Start with every call the platform knows; drop one that a file system refuses."""
        self._no_wait_flag = _NO_WAIT_FLAG

    def __eq__(self, other: object) -> bool:
        """Equal any other one: there is one set of files and locks."""
        return isinstance(other, FileSystem)

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash(FileSystem)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        """Open a file and return its descriptor; a link in a writeable file's place is refused.

        Reading opens with O_NONBLOCK, which has no effect on a file. Opening a pipe in a file's
        place would otherwise block until another process writes to it.
        """
        flags = os.O_RDONLY | os.O_NONBLOCK if read_only else os.O_RDWR | os.O_NOFOLLOW
        return os.open(path, flags | os.O_CLOEXEC | (os.O_CREAT if create else 0), FILE_MODE)

    def close(self, fd: int) -> None:
        """Close a descriptor. Closing any descriptor of a file drops this process's locks on it."""
        os.close(fd)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        """Read up to `length` bytes; shorter only at the end of the file."""
        data = os.pread(fd, length, position)
        if len(data) == length or not data:
            return data
        # Signals and some network file systems cause short reads.
        pieces = [data]
        missing = length - len(data)
        while missing and (data := os.pread(fd, missing, position + length - missing)):
            pieces.append(data)
            missing -= len(data)
        return b"".join(pieces)

    def pread_into_nowait(self, fd: int, buffer: bytearray | memoryview, position: int) -> bool:
        """Fill `buffer` without waiting for the disk, or return False; it may hold a part then.

        Where the system cannot tell (macOS, some file systems) this reads and may wait.
        """
        if self._no_wait_flag is not None:
            try:
                return os.preadv(fd, (buffer,), position, self._no_wait_flag) == len(buffer)
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
                self._no_wait_flag = None
        return self.pread_into(fd, buffer, position) == len(buffer)

    def pread_into(self, fd: int, buffer: bytearray | memoryview, position: int) -> int:
        """Fill `buffer` from `position`; return the count read, short only at the file's end."""
        view = memoryview(buffer)
        done = 0
        while done < len(view):
            count = os.preadv(fd, (view[done:],), position + done)
            if count == 0:
                break
            done += count
        return done

    def read_ahead(self, fd: int, length: int, position: int) -> None:
        """Have the disk read [position, position + length) ahead; macOS lacks the call."""
        if sys.platform != "darwin":
            os.posix_fadvise(fd, position, length, os.POSIX_FADV_WILLNEED)

    def pwrite(self, fd: int, data: Buffer, position: int) -> None:
        """Write all of `data` at `position`."""
        count = os.pwrite(fd, data, position)
        if count != len(data):
            view = memoryview(data)
            while count < len(view):
                count += os.pwrite(fd, view[count:], position + count)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> None:
        """Write all `buffers` one after the other, by one system call where that is possible."""
        for begin in range(0, len(buffers), WRITE_BUFFER_COUNT_MAX):
            part = buffers[begin : begin + WRITE_BUFFER_COUNT_MAX]
            length = sum(map(len, part))
            count = os.pwritev(fd, part, position)
            if count != length:
                rest = memoryview(b"".join(part))[count:]
                self.pwrite(fd, rest, position + count)
            position += length

    def datasync(self, fd: int) -> None:
        """Return once the file's data is durable; macOS has only the stronger F_FULLFSYNC."""
        if sys.platform == "darwin":
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(fd)

    def sync(self, fd: int) -> None:
        """Return once the file's data and attributes are durable."""
        if sys.platform == "darwin":
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        else:
            os.fsync(fd)

    def sync_all(self, fds: Sequence[int]) -> None:
        """Do what `sync` does for several files, in threads, so that they share the disk's commits.

        One after the other, each new file waits for a commit of its own.
        """
        if len(fds) < 2:
            for fd in fds:
                self.sync(fd)
            return
        with ThreadPoolExecutor(min(len(fds), SYNC_THREADS_MAX), "sync-all") as threads:
            for result in [threads.submit(self.sync, fd) for fd in fds]:
                result.result()

    def forget_cached(self, fd: int) -> None:
        """Let the next reads of a file come from the disk, as far as it was synced.

        After a failed sync the page cache shows data that the disk never got. macOS lacks the call.
        """
        if sys.platform != "darwin":
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def allocate(self, fd: int, length: int) -> None:
        """Reserve blocks for [0, length) and make the file at least so long; content stays."""
        if sys.platform != "darwin":
            os.posix_fallocate(fd, 0, length)
            return
        position = self.size(fd)
        if position < length:
            _write_zeros(self, fd, position, length - position)

    def reserve(self, fd: int, position: int, length: int) -> None:
        """Have blocks for a stretch inside the file, so that no write there finds the disk full.

        It is a stretch that was never written. Where the disk clearly has too little room, nothing
        is taken: a failed `posix_fallocate` keeps the part that it got.
        """
        usage = os.fstatvfs(fd)
        if usage.f_blocks and usage.f_bavail * usage.f_frsize < length:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if sys.platform == "darwin":
            _write_zeros(self, fd, position, length)
        else:
            os.posix_fallocate(fd, position, length)

    def truncate(self, fd: int, length: int) -> None:
        """Set the file's length; bytes beyond the old one read as zero."""
        os.ftruncate(fd, length)

    def size(self, fd: int) -> int:
        """Return the file's length in bytes."""
        return os.fstat(fd).st_size

    def name_count(self, fd: int) -> int:
        """Return how many names an open file still has."""
        return os.fstat(fd).st_nlink

    def next_data(self, fd: int, position: int) -> int | None:
        """Return the next position at or after `position` with data, None if only holes follow.

        Allocated blocks that were never written count as holes.
        """
        try:
            return os.lseek(fd, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            if error.errno not in _UNSUPPORTED:
                raise
            return position if position < self.size(fd) else None

    def data_end(self, fd: int, position: int) -> int:
        """Return where the data at `position`, which `next_data` found, ends.

        There a hole begins, or the file ends. A hole reads as zeros. Where the system cannot tell,
        all of the file is data.
        """
        try:
            return os.lseek(fd, position, os.SEEK_HOLE)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            return self.size(fd)

    def rename(self, source: str, target: str) -> None:
        """Give `source` the name `target`, replacing an existing file in one step."""
        os.rename(source, target)

    def rename_new(self, source: str, target: str) -> None:
        """Give `source` the name `target`; FileExistsError where that name is taken."""
        try:
            # A link refuses an existing name, which rename would replace.
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _SHARES_NO_LINKS:
                raise
            # A file system without links (FAT, some network mounts): check, then rename.
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from error
            os.rename(source, target)
            return
        os.unlink(source)

    def unlink(self, path: str) -> None:
        """Remove a file's name."""
        os.unlink(path)

    def symlink(self, target: str, path: str) -> None:
        """Make `path` a symbolic link, replacing an existing file in one step."""
        made = f"{path}.link"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(made)
        os.symlink(target, made)
        os.rename(made, path)

    def read_link(self, path: str) -> str | None:
        """Return where a symbolic link leads, None if `path` is none."""
        try:
            return os.readlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return None

    def path_while_open(self, fd: int) -> str | None:
        """Return a path of an open file that ends with this process, None on systems without."""
        path = f"/proc/{os.getpid()}/fd/{fd}"
        return path if os.path.exists(path) else None

    def make_directories(self, path: str, unsynced: list[str] | None = None) -> None:
        """Make a directory and its parents, all durable on return; no error where it exists.

        The lowest existing level is synced as well: a killed process may have made it, so that only
        the page cache has its name.

        unsynced: gets the directories to sync, in their order, instead.
        """
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        sync = self.sync_directory if unsynced is None else unsynced.append
        sync(os.path.dirname(path))
        for level in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(level, DIRECTORY_MODE)
            sync(os.path.dirname(level))

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def exists(self, path: str) -> bool:
        """Tell whether a path names anything; a dangling link exists."""
        return os.path.lexists(path)

    def is_file(self, path: str) -> bool:
        """Tell whether a path names a regular file, or a link to one."""
        return os.path.isfile(path)

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; FileNotFoundError where there is none."""
        return sorted(os.listdir(path))

    def links_in(self, path: str) -> list[str]:
        """Return the names of symbolic links in a directory, none where there is no directory."""
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_symlink())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def sync_directory(self, path: str) -> None:
        """Return once the names in a directory are durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sync(fd)
        finally:
            os.close(fd)

    def lock_byte(self, fd: int, byte: int) -> bool:
        """Take one byte of a file for this process alone without waiting; False if it is taken.

        It is a POSIX record lock, the kind that Java's FileChannel.tryLock takes.
        """
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte, os.SEEK_SET)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def unlock_byte(self, fd: int, byte: int) -> None:
        """Give a locked byte back."""
        fcntl.lockf(fd, fcntl.LOCK_UN, 1, byte, os.SEEK_SET)

    def lock_holder(self, fd: int, byte: int) -> int | None:
        """Return the process that keeps others from locking a byte, None if unknown or none.

        A holder on another machine has no process id here.
        """
        # struct flock, laid out as each system's C library does.
        layout = "@qqihh" if _MACOS else "@hhqqi"
        start, length, kind, whence = byte, 1, fcntl.F_WRLCK, os.SEEK_SET
        request = (start, length, 0, kind, whence) if _MACOS else (kind, whence, start, length, 0)
        answer = struct.unpack(
            layout, fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack(layout, *request))
        )
        answer_kind, pid = (answer[3], answer[2]) if _MACOS else (answer[0], answer[4])
        return pid if answer_kind != fcntl.F_UNLCK and pid > 0 else None

    def disk_usage(self, path: str) -> DiskUsage:
        """Return the usage of the partition that holds `path`.

        `used_bytes` counts what is reserved for root as free, as 4.9.3 does.
        """
        usage = os.statvfs(path)
        total = usage.f_blocks * usage.f_frsize
        used = (usage.f_blocks - usage.f_bfree) * usage.f_frsize
        return DiskUsage(total, used, usage.f_bavail * usage.f_frsize)

    def modified_ms(self, path: str) -> int:
        """Return a file's modification time, cut to milliseconds as File.lastModified is."""
        return os.stat(path).st_mtime_ns // 1_000_000


def _write_zeros(fs: FileSystem, fd: int, position: int, length: int) -> None:
    zeros = bytes(min(length, ZERO_PIECE_BYTES))
    for begin in range(0, length, ZERO_PIECE_BYTES):
        fs.pwrite(fd, memoryview(zeros)[: length - begin], position + begin)


@contextlib.contextmanager
def opened(
    fs: FileSystem, path: str, *, create: bool = False, read_only: bool = False
) -> Iterator[int]:
    """Open a file for the block. Raises: OSError."""
    fd = fs.open(path, create=create, read_only=read_only)
    try:
        yield fd
    finally:
        fs.close(fd)


def pread_from_disk(fs: FileSystem, fd: int, length: int) -> bytes:
    """Return the front of a file as the disk has it, whatever the page cache shows.

    A killed process may have left it unsynced. After a failed sync the page cache shows data that
    the disk never got, as clean pages.
    """
    fs.datasync(fd)
    fs.forget_cached(fd)
    return fs.pread(fd, length, 0)


def write_synced(fs: FileSystem, path: str, data: Buffer) -> None:
    """Replace the content of a file, or make it. On return its data is durable, its name not.

    Raises: OSError.
    """
    with opened(fs, path, create=True) as fd:
        fs.truncate(fd, 0)
        fs.pwrite(fd, data, 0)
        fs.sync(fd)


def replace_file(fs: FileSystem, path: str, data: Buffer, *, temporary_path: str) -> None:
    """Give `path` this content in one step, durably. Raises: StoreFailed, StoreFull."""
    with store_errors(path, "write"):
        write_synced(fs, temporary_path, data)
        fs.rename(temporary_path, path)
        fs.sync_directory(dirname(path))


def read_file(fs: FileSystem, path: str, length_max: int) -> bytes | None:
    """Return up to `length_max` bytes of a file, None if there is none. Raises: StoreFailed."""
    with store_errors(path, "read"):
        try:
            with opened(fs, path, read_only=True) as fd:
                return fs.pread(fd, length_max, 0)
        except FileNotFoundError:
            return None


def names_in(fs: FileSystem, directory: str) -> list[str]:
    """Return the sorted names in a directory, none if there is no such directory.

    Raises: StoreFailed.
    """
    with store_errors(directory, "list"):
        try:
            return fs.list_directory(directory)
        except (FileNotFoundError, NotADirectoryError):
            return []


def size_of(fs: FileSystem, path: str) -> int:
    """Return the length of a file by its name. Raises: OSError."""
    with reading(fs, path) as fd:
        return fs.size(fd)


@contextlib.contextmanager
def reading(fs: FileSystem, path: str) -> Iterator[int]:
    """Open a file for the block, to read it; an OSError of the block has its path."""
    with naming(path), opened(fs, path, read_only=True) as fd:
        yield fd


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Add the path to an OSError of the block: a call on a descriptor does not know it."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or path
        raise
