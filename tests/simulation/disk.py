"""A disk in memory that notes everything that was asked of it, and the file system of a process.

`SimulatedDisk` holds the page cache: what every process sees. What would be left of it after a
crash is `images`' business, which reads the disk's journal. `SimulatedFileSystem` keeps the
contract of `wakelog.storage.file_system.FileSystem` as one process sees it: `kill` ends that
process, whose descriptors and locks go with it while the page cache stays.

Write-back errors are kept as Linux keeps them: once for each open file description. A description
that was open when write-back failed hears of it at its next sync, exactly once; one that is opened
later gets it only if none did before.
"""

import errno
import itertools
import os
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from tests.simulation.client import ClientView, Lied
from tests.simulation.faults import WRITE_BACK, Failure, Faults, SyncFailure, survived
from tests.simulation.journal import (
    Linked,
    LostPages,
    MadeDirectory,
    Mark,
    Operation,
    RemovedDirectory,
    Renamed,
    Resized,
    Synced,
    SyncedDirectory,
    Unlinked,
    Wrote,
)
from wakelog.storage.file_system import Buffer, DiskUsage, FileSystem

DESCRIPTOR_COUNT_MAX = 1024
LINK_COUNT_MAX = 40  # as many as Linux follows
# A disk that goes on with another's files takes numbers that the other cannot have given since.
INODES_APART = 1000

HOLE_BYTES = 100
"""So many zeros count as a hole: more than real ones, so that what skips them is tried often."""


class Image(NamedTuple):
    """The content of a disk: names of files, of links, of directories."""

    files: dict[str, bytes]
    directories: frozenset[str]


class Inode:
    """A file, or a link where `leads_to` says so; `errors_count` counts failed write-backs."""

    __slots__ = (
        "data",
        "durable",
        "error_seen",
        "errors_count",
        "leads_to",
        "locks",
        "modified_ms",
        "number",
        "unsynced",
    )

    def __init__(self, number: int, data: bytes = b"") -> None:
        self.number = number
        self.data = bytearray(data)
        self.durable = data
        self.unsynced: list[tuple[int, bytes | None]] = []  # writes, and lengths with None
        self.modified_ms = 0
        self.leads_to: str | None = None
        self.locks: dict[int, int] = {}  # byte -> process
        self.errors_count = 0
        self.error_seen = True

    def settle(self) -> None:
        """Make durable what was done since the last sync or loss; what was lost stays lost."""
        if not self.unsynced:
            return
        durable = bytearray(self.durable)
        for position, data in self.unsynced:
            length = position if data is None else max(len(durable), position + len(data))
            del durable[length:]
            durable.extend(bytes(length - len(durable)))
            if data is not None:
                durable[position : position + len(data)] = data
        self.durable = bytes(durable)
        self.unsynced.clear()


class Description:
    """An open file description; duplicates of a descriptor share it."""

    __slots__ = ("errors_seen_count", "inode", "read_only")

    def __init__(self, inode: Inode, *, read_only: bool) -> None:
        self.inode = inode
        self.read_only = read_only
        self.errors_seen_count = inode.errors_count - (not inode.error_seen)


class SimulatedDisk:
    """The page cache, the names, and the journal of all that happened since it was made.

    `view` is what the clients know by now.
    """

    def __init__(
        self,
        image: Image | None = None,
        *,
        records: bool = True,
        numbers: dict[str, int] | None = None,
    ) -> None:
        """Start from an image, or from an empty disk.

        records: keep a journal. A disk that is never crashed is faster without.
        numbers: the inodes of the image's files in a journal that goes on.
        """
        image = image or Image({}, frozenset({"/"}))
        self.origin = image
        if numbers is None:
            numbers = {path: i for i, path in enumerate(sorted(image.files))}
        # Two names of one inode are one file.
        inodes = {numbers[path]: Inode(numbers[path], data) for path, data in image.files.items()}
        self.files = {path: inodes[numbers[path]] for path in image.files}
        self.directories = set(image.directories)
        self.journal: list[Operation] = []
        self.records = records
        self.faults = Faults()
        self.usage = DiskUsage(1 << 40, 1 << 39, 1 << 39)
        self.inode_numbers = itertools.count(INODES_APART * (1 + max(numbers.values(), default=0)))
        self.process_ids = itertools.count(1)
        self.calls_count = 0
        self.view = ClientView()

    def process(self) -> "SimulatedFileSystem":
        """Return the disk as a new process sees it."""
        return SimulatedFileSystem(self)

    def note(self, operation: Operation) -> None:
        """Append to the journal."""
        if self.records:
            self.journal.append(operation)

    def mark(self, event: object) -> None:
        """Note that a client learned something."""
        self.view.take(event)
        self.note(Mark(event))

    def image(self) -> Image:
        """Return what the page cache holds: what the death of a process alone leaves."""
        files = {
            path: bytes(inode.data) for path, inode in self.files.items() if inode.leads_to is None
        }
        return Image(files, frozenset(self.directories))

    def flip(self, path: str, bit: int) -> None:
        """Change one bit of a file, on the disk and in the page cache."""
        inode = self.files[path]
        inode.data[bit // 8] ^= 1 << (7 - bit % 8)
        inode.durable = bytes(inode.data)
        self.note(LostPages(inode.number, inode.durable))

    def lose_pages(self, inode: Inode, model: SyncFailure) -> None:
        """Let write-back of a file fail; the descriptions decide which of them get the error."""
        inode.errors_count += 1
        inode.error_seen = False
        old = inode.durable
        inode.durable = survived(old, bytes(inode.data), inode.errors_count + len(self.journal))
        inode.unsynced.clear()
        self.note(LostPages(inode.number, inode.durable))
        if model is SyncFailure.CLEAN_OLD:
            inode.data = bytearray(inode.durable)


class SimulatedFileSystem(FileSystem):
    """See the module."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.pid = next(disk.process_ids)
        self.is_dead = False
        self._open: dict[int, Description] = {}
        self._fds = itertools.count(3)

    def kill(self) -> None:
        """End the process: its locks are free, its descriptors closed, and it does nothing more."""
        self.is_dead = True
        for description in self._open.values():
            self._unlock(description.inode)

    @property
    def descriptor_count(self) -> int:
        """How many descriptors are open."""
        return len(self._open)

    def duplicate(self, fd: int) -> int:
        """Return a second descriptor of one description, as a neighbour process is sent."""
        made = next(self._fds)
        self._open[made] = self._open[fd]
        return made

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        self._call("open", path)
        disk = self.disk
        if len(self._open) >= DESCRIPTOR_COUNT_MAX:
            raise _error(errno.EMFILE, path)
        if path in disk.directories:
            if read_only:
                raise AssertionError(f"nothing in the store reads a directory: {path}")
            raise _error(errno.EISDIR, path)
        inode = disk.files.get(path)
        if inode is not None and inode.leads_to is not None:
            if not read_only:
                raise _error(errno.ELOOP, path)
            inode = self._followed(path)
        if inode is None:
            if not create:
                raise _error(errno.ENOENT, path)
            self._check_parent(path)
            inode = Inode(next(disk.inode_numbers))
            disk.files[path] = inode
            disk.note(Linked(path, inode.number))
        fd = next(self._fds)
        self._open[fd] = Description(inode, read_only=read_only)
        return fd

    def close(self, fd: int) -> None:
        if not self.is_dead:
            self._unlock(self._open.pop(fd).inode)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        self._call("pread")
        return bytes(self._open[fd].inode.data[position : position + length])

    def pread_into_nowait(self, fd: int, buffer: bytearray | memoryview, position: int) -> bool:
        return self.pread_into(fd, buffer, position) == len(buffer)

    def pread_into(self, fd: int, buffer: bytearray | memoryview, position: int) -> int:
        self._call("pread")
        data = self._open[fd].inode.data[position : position + len(buffer)]
        buffer[: len(data)] = data
        return len(data)

    def pwrite(self, fd: int, data: Buffer, position: int) -> None:
        description = self._open.get(fd)
        failure = self._call_or_failure("pwrite")
        assert description is not None
        if description.read_only:
            raise _error(errno.EBADF, "")
        written = bytes(data)
        if failure is not None:
            # What a short write took is there; the error stops its continuation.
            written = written[: len(written) // 2] if failure.is_short else b""
        landing = self.disk.faults.landing(position)
        if written and landing is not None:
            self._write(description.inode, written, landing)
            lost = self.disk.faults.failure(WRITE_BACK)
            if lost is not None:
                self.disk.lose_pages(description.inode, lost.sync_failure)
        if failure is not None:
            raise _error(failure.number, "")

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> None:
        self.pwrite(fd, b"".join(buffers), position)

    def datasync(self, fd: int) -> None:
        self._sync("datasync", fd)

    def sync(self, fd: int) -> None:
        self._sync("sync", fd)

    def sync_all(self, fds: Sequence[int]) -> None:
        for fd in fds:
            self.sync(fd)

    def allocate(self, fd: int, length: int) -> None:
        self._call("allocate")
        inode = self._open[fd].inode
        if length > len(inode.data):
            inode.data.extend(bytes(length - len(inode.data)))
            inode.unsynced.append((length, None))
            self.disk.note(Resized(inode.number, length))

    def reserve(self, fd: int, position: int, length: int) -> None:
        self._call("reserve")
        assert position >= 0 and position + length <= len(self._open[fd].inode.data)

    def truncate(self, fd: int, length: int) -> None:
        self._call("truncate")
        inode = self._open[fd].inode
        if length != len(inode.data):
            del inode.data[length:]
            inode.data.extend(bytes(length - len(inode.data)))
            inode.unsynced.append((length, None))
            self.disk.note(Resized(inode.number, length))

    def size(self, fd: int) -> int:
        return len(self._open[fd].inode.data)

    def name_count(self, fd: int) -> int:
        return sum(inode is self._open[fd].inode for inode in self.disk.files.values())

    def read_ahead(self, fd: int, length: int, position: int) -> None:
        assert fd in self._open

    def forget_cached(self, fd: int) -> None:
        inode = self._open[fd].inode
        if not inode.unsynced:
            inode.data = bytearray(inode.durable)

    def next_data(self, fd: int, position: int) -> int | None:
        content = self._open[fd].inode.data
        rest = content[position:].lstrip(b"\0")
        return len(content) - len(rest) if rest else None

    def data_end(self, fd: int, position: int) -> int:
        content = self._open[fd].inode.data
        hole = content.find(bytes(HOLE_BYTES), position)
        return len(content) if hole < 0 else hole

    def rename(self, source: str, target: str) -> None:
        self._call("rename", target)
        inode = self._inode(source)
        self._check_parent(target)
        files = self.disk.files
        del files[source]
        files[target] = inode
        self.disk.note(Renamed(source, target, inode.number))

    def rename_new(self, source: str, target: str) -> None:
        """Link, then unlink, as the real one does: a crash may leave both names."""
        self._call("rename_new", target)
        inode = self._inode(source)
        if self.exists(target):
            raise _error(errno.EEXIST, target)
        self._check_parent(target)
        self.disk.files[target] = inode
        self.disk.note(Linked(target, inode.number))
        self._drop(source)

    def unlink(self, path: str) -> None:
        self._call("unlink", path)
        self._inode(path)
        self._drop(path)

    def symlink(self, target: str, path: str) -> None:
        self._call("symlink", path)
        self._check_parent(path)
        inode = Inode(next(self.disk.inode_numbers))
        inode.leads_to = target
        self.disk.files[path] = inode

    def read_link(self, path: str) -> str | None:
        inode = self.disk.files.get(path)
        return None if inode is None else inode.leads_to

    def path_while_open(self, fd: int) -> str | None:
        return None

    def make_directories(self, path: str, unsynced: list[str] | None = None) -> None:
        missing = []
        while path not in self.disk.directories:
            if path in self.disk.files:
                raise _error(errno.ENOTDIR, path)
            missing.append(path)
            path = parent(path)
        sync = self.sync_directory if unsynced is None else unsynced.append
        sync(parent(path))
        for level in reversed(missing):
            self._call("mkdir", level)
            self.disk.directories.add(level)
            self.disk.note(MadeDirectory(level))
            sync(parent(level))

    def remove_directory(self, path: str) -> None:
        self._call("rmdir", path)
        if self.list_directory(path):
            raise _error(errno.ENOTEMPTY, path)
        self.disk.directories.remove(path)
        self.disk.note(RemovedDirectory(path))

    def exists(self, path: str) -> bool:
        return path in self.disk.files or path in self.disk.directories

    def is_file(self, path: str) -> bool:
        return self._followed(path) is not None

    def list_directory(self, path: str) -> list[str]:
        self._call("list_directory", path)
        self._check_directory(path)
        path = path.rstrip("/") or "/"
        found = [name for name in self.disk.files if parent(name) == path]
        found += [name for name in self.disk.directories if parent(name) == path != name]
        return sorted([name.rpartition("/")[2] for name in found])

    def links_in(self, path: str) -> list[str]:
        links = (name for name, inode in self.disk.files.items() if inode.leads_to is not None)
        return sorted(name.rpartition("/")[2] for name in links if parent(name) == path)

    def sync_directory(self, path: str) -> None:
        self._call("sync_directory", path)
        self._check_directory(path)
        self.disk.note(SyncedDirectory(path))

    def lock_byte(self, fd: int, byte: int) -> bool:
        self._call("lock")
        return self._open[fd].inode.locks.setdefault(byte, self.pid) == self.pid

    def unlock_byte(self, fd: int, byte: int) -> None:
        if not self.is_dead and self._open[fd].inode.locks.get(byte) == self.pid:
            del self._open[fd].inode.locks[byte]

    def lock_holder(self, fd: int, byte: int) -> int | None:
        pid = self._open[fd].inode.locks.get(byte)
        return None if pid == self.pid else pid

    def disk_usage(self, path: str) -> DiskUsage:
        if not self.exists(path):
            raise _error(errno.ENOENT, path)
        return self.disk.usage

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._inode(path).modified_ms = modified_ms

    def _call(self, name: str, path: str = "") -> None:
        failure = self._call_or_failure(name)
        if failure is not None:
            raise _error(failure.number, path)

    def _call_or_failure(self, name: str) -> Failure | None:
        assert not self.is_dead, f"a dead process calls {name}"
        self.disk.calls_count += 1
        return self.disk.faults.failure(name)

    def _write(self, inode: Inode, data: bytes, position: int) -> None:
        size = len(inode.data)
        if position > size:
            inode.data.extend(bytes(position - size))
        inode.data[position : position + len(data)] = data
        inode.unsynced.append((position, data))
        self.disk.note(Wrote(inode.number, position, data, size))

    def _sync(self, name: str, fd: int) -> None:
        failure = self._call_or_failure(name)
        description = self._open[fd]
        inode = description.inode
        if failure is not None:
            self.disk.lose_pages(inode, failure.sync_failure)
            if failure.sync_failure is SyncFailure.LATE:
                self.disk.mark(Lied())
                return
        if description.errors_seen_count < inode.errors_count:
            description.errors_seen_count = inode.errors_count
            inode.error_seen = True
            raise _error(errno.EIO if failure is None else failure.number, "")
        inode.settle()
        self.disk.note(Synced(inode.number))

    def _drop(self, path: str) -> None:
        del self.disk.files[path]
        self.disk.note(Unlinked(path))

    def _unlock(self, inode: Inode) -> None:
        if inode.locks:
            inode.locks = {byte: pid for byte, pid in inode.locks.items() if pid != self.pid}

    def _followed(self, path: str) -> Inode | None:
        for _ in range(LINK_COUNT_MAX):
            inode = self.disk.files.get(path)
            if inode is None or inode.leads_to is None:
                return inode
            path = inode.leads_to
        return None

    def _inode(self, path: str) -> Inode:
        inode = self.disk.files.get(path)
        if inode is None:
            raise _error(errno.ENOENT, path)
        return inode

    def _check_parent(self, path: str) -> None:
        self._check_directory(parent(path))

    def _check_directory(self, path: str) -> None:
        if path not in self.disk.directories:
            raise _error(errno.ENOENT, path)


@cache  # a store has few names, and each image asks for all of them
def parent(path: str) -> str:
    """Return the directory that a name is in."""
    return path.rpartition("/")[0] or "/"


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path or None)
