"""A file system in memory that keeps the contract of `wakelog.storage.file_system.FileSystem`.

`tests/storage/test_file_system.py` runs one set of tests over this and the real one. Any call can
be made to fail; `other_process` gives the same disk as another process sees it, with locks of
its own.
"""

import errno
import itertools
import os
from collections import Counter
from collections.abc import Sequence
from posixpath import basename, dirname

from wakelog.storage.file_system import Buffer, DiskUsage, FileSystem

HOLE_BYTES = 100
"""So many zeros count as a hole, of whichever length: five queue entries."""


class _Inode:
    def __init__(self) -> None:
        self.data = bytearray()
        self.modified_ms = 0
        self.locks: dict[int, int] = {}  # byte -> process


class _Disk:
    def __init__(self) -> None:
        self.files: dict[str, _Inode] = {}
        self.directories = {"/"}
        self.process_ids = itertools.count(1)


class MemoryFileSystem(FileSystem):
    """Files in memory, as one process sees them."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, disk: _Disk | None = None) -> None:
        self._disk = disk or _Disk()
        self._open: dict[int, _Inode] = {}
        self._fds = itertools.count(3)
        self._failures: dict[tuple[str, int], int] = {}
        self.pid = next(self._disk.process_ids)
        self.calls: Counter[str] = Counter()
        self.usage = DiskUsage(1 << 40, 1 << 39, 1 << 39)
        self.cold = False  # with True nothing is in the page cache

    def other_process(self) -> "MemoryFileSystem":
        """Return the same disk as another process sees it."""
        return MemoryFileSystem(self._disk)

    def successor(self) -> "MemoryFileSystem":
        """Return the same disk as a process sees it that comes when all others have ended."""
        for inode in self._disk.files.values():
            inode.locks.clear()
        return self.other_process()

    def fail(self, operation: str, *, nth: int = 1, number: int = errno.EIO) -> None:
        """Make the nth call of an operation from now on fail with an error number."""
        self._failures[operation, self.calls[operation] + nth] = number

    @property
    def descriptor_count(self) -> int:
        """How many descriptors are open."""
        return len(self._open)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        self._count("open")
        if path in self._disk.directories and not read_only:
            raise self._error(errno.EISDIR, path)
        if path not in self._disk.files:
            if not create:
                raise self._error(errno.ENOENT, path)
            self._check_directory(dirname(path))
            self._disk.files[path] = _Inode()
        fd = next(self._fds)
        self._open[fd] = self._disk.files[path]
        return fd

    def close(self, fd: int) -> None:
        inode = self._open.pop(fd)
        inode.locks = {byte: pid for byte, pid in inode.locks.items() if pid != self.pid}

    def pread(self, fd: int, length: int, position: int) -> bytes:
        self._count("pread")
        return bytes(self._open[fd].data[position : position + length])

    def pread_into_nowait(self, fd: int, buffer: bytearray | memoryview, position: int) -> bool:
        self._count("pread_into_nowait")
        data = self._open[fd].data[position : position + len(buffer)]
        if self.cold or len(data) < len(buffer):
            return False
        buffer[:] = data
        return True

    def pread_into(self, fd: int, buffer: bytearray | memoryview, position: int) -> int:
        self._count("pread_into")
        data = self._open[fd].data[position : position + len(buffer)]
        buffer[: len(data)] = data
        return len(data)

    def pwrite(self, fd: int, data: Buffer, position: int) -> None:
        self._count("pwrite")
        content = self._open[fd].data
        content.extend(bytes(max(0, position - len(content))))
        content[position : position + len(data)] = data

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> None:
        self._count("pwritev")
        self.calls["pwrite"] -= 1
        self.pwrite(fd, b"".join(buffers), position)

    def datasync(self, fd: int) -> None:
        self._count("datasync")
        assert fd in self._open

    def sync(self, fd: int) -> None:
        self._count("sync")
        assert fd in self._open

    def sync_all(self, fds: Sequence[int]) -> None:
        for fd in fds:
            self.sync(fd)

    def read_ahead(self, fd: int, length: int, position: int) -> None:
        self._count("read_ahead")
        assert fd in self._open and length > 0 and position >= 0

    def forget_cached(self, fd: int) -> None:
        self._count("forget_cached")
        assert fd in self._open

    def allocate(self, fd: int, length: int) -> None:
        self._count("allocate")
        content = self._open[fd].data
        content.extend(bytes(max(0, length - len(content))))

    def reserve(self, fd: int, position: int, length: int) -> None:
        self._count("reserve")
        assert position >= 0 and position + length <= len(self._open[fd].data)

    def truncate(self, fd: int, length: int) -> None:
        self._count("truncate")
        content = self._open[fd].data
        del content[length:]
        content.extend(bytes(length - len(content)))

    def size(self, fd: int) -> int:
        return len(self._open[fd].data)

    def name_count(self, fd: int) -> int:
        self._count("name_count")
        return sum(inode is self._open[fd] for inode in self._disk.files.values())

    def next_data(self, fd: int, position: int) -> int | None:
        self._count("next_data")
        content = self._open[fd].data
        rest = content[position:].lstrip(b"\0")
        return len(content) - len(rest) if rest else None

    def data_end(self, fd: int, position: int) -> int:
        self._count("data_end")
        content = self._open[fd].data
        hole = content.find(bytes(HOLE_BYTES), position)
        return len(content) if hole < 0 else hole

    def rename(self, source: str, target: str) -> None:
        self._count("rename")
        self._check_directory(dirname(target))
        self._disk.files[target] = self._pop(source)

    def rename_new(self, source: str, target: str) -> None:
        self._count("rename_new")
        if self.exists(target):
            raise self._error(errno.EEXIST, target)
        self._check_directory(dirname(target))
        self._disk.files[target] = self._pop(source)

    def unlink(self, path: str) -> None:
        self._count("unlink")
        self._pop(path)

    def symlink(self, target: str, path: str) -> None:
        raise self._error(errno.EPERM, path)

    def read_link(self, path: str) -> str | None:
        return None

    def path_while_open(self, fd: int) -> str | None:
        return None

    def make_directories(self, path: str, unsynced: list[str] | None = None) -> None:
        noted = [dirname(path)]
        while path not in self._disk.directories:
            if path in self._disk.files:
                raise self._error(errno.ENOTDIR, path)
            self._disk.directories.add(path)
            path = dirname(path)
            noted.append(dirname(path))
        if unsynced is not None:
            unsynced += reversed(noted)

    def remove_directory(self, path: str) -> None:
        if self.list_directory(path):
            raise self._error(errno.ENOTEMPTY, path)
        self._disk.directories.remove(path)

    def exists(self, path: str) -> bool:
        return path in self._disk.files or path in self._disk.directories

    def is_file(self, path: str) -> bool:
        return path in self._disk.files

    def list_directory(self, path: str) -> list[str]:
        self._count("list_directory")
        self._check_directory(path)
        names = (*self._disk.files, *self._disk.directories)
        return sorted(basename(name) for name in names if dirname(name) == path and name != "/")

    def links_in(self, path: str) -> list[str]:
        return []

    def sync_directory(self, path: str) -> None:
        self._count("sync_directory")
        self._check_directory(path)

    def lock_byte(self, fd: int, byte: int) -> bool:
        return self._open[fd].locks.setdefault(byte, self.pid) == self.pid

    def unlock_byte(self, fd: int, byte: int) -> None:
        if self._open[fd].locks.get(byte) == self.pid:
            del self._open[fd].locks[byte]

    def lock_holder(self, fd: int, byte: int) -> int | None:
        pid = self._open[fd].locks.get(byte)
        return None if pid == self.pid else pid

    def disk_usage(self, path: str) -> DiskUsage:
        if not self.exists(path):
            raise self._error(errno.ENOENT, path)
        return self.usage

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._inode(path).modified_ms = modified_ms

    def _count(self, operation: str) -> None:
        self.calls[operation] += 1
        number = self._failures.pop((operation, self.calls[operation]), None)
        if number is not None:
            raise OSError(number, os.strerror(number))

    def _inode(self, path: str) -> _Inode:
        if path not in self._disk.files:
            raise self._error(errno.ENOENT, path)
        return self._disk.files[path]

    def _pop(self, path: str) -> _Inode:
        inode = self._inode(path)
        del self._disk.files[path]
        return inode

    def _check_directory(self, path: str) -> None:
        if path not in self._disk.directories:
            raise self._error(errno.ENOENT, path)

    @staticmethod
    def _error(number: int, path: str) -> OSError:
        return OSError(number, os.strerror(number), path)
