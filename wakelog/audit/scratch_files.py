"""Files that nobody keeps: on the disk only where they differ from files that are there already.

To verify a store its queues and index are made anew, and held against the store's own: its twins.
Of a sound store what is made is the same bytes at the same places. So what is written is compared
at once, and takes room only where it differs; the rest is remembered by its place.

    bytes written      then
    as the twin has    the twin stands for them
    others             on the disk, the twin stands for them no more

Whoever reads a file gets all of it: what its twin stood for is copied first.

Invariants:
- A file reads as what was written to it, as long as its twin stays what it is: of a store whose
  broker runs there are no twins.
- Nothing here is ever synced, nor allocated: a file takes no more of the disk than was written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from posixpath import join
from typing import Final

from wakelog.storage.file_system import Buffer, FileSystem, RealFileSystem, naming
from wakelog.storage.index.index_service import index_names
from wakelog.storage.paths import StorePaths

PIECE_BYTES: Final = 1 << 20
"""Compared and copied at once."""


# What lies on the disk, apart from what a twin stands for.
_FILES: Final = RealFileSystem()


class UnfinishedFileSystem(RealFileSystem):
    """For files of which none counts before all of them are there, and synced together."""

    __slots__ = ()

    def sync(self, fd: int) -> None:
        """Do nothing."""

    def datasync(self, fd: int) -> None:
        """Do nothing."""

    def sync_directory(self, path: str) -> None:
        """Do nothing."""


class Spans:
    """Places [begin, end) of a file, apart from one another and in order."""

    __slots__ = ("_begins", "_ends")

    def __init__(self) -> None:
        """Have none."""
        self._begins: list[int] = []
        self._ends: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Go through them in order."""
        return iter(zip(self._begins, self._ends, strict=True))

    def add(self, begin: int, end: int) -> None:
        """Take in a span; with neighbours it becomes one."""
        first = bisect_left(self._ends, begin)
        last = first
        while last < len(self._begins) and self._begins[last] <= end:
            begin, end = min(begin, self._begins[last]), max(end, self._ends[last])
            last += 1
        self._begins[first:last], self._ends[first:last] = [begin], [end]

    def remove(self, begin: int, end: int) -> None:
        """Leave out a span; what lay around it stays."""
        kept = [
            piece
            for span in self
            for piece in ((span[0], min(span[1], begin)), (max(span[0], end), span[1]))
            if piece[0] < piece[1]
        ]
        self._begins, self._ends = [one[0] for one in kept], [one[1] for one in kept]

    def gaps(self, length: int) -> Iterator[tuple[int, int]]:
        """Yield what of [0, length) is in none."""
        at = 0
        for begin, end in self:
            if at < min(begin, length):
                yield at, min(begin, length)
            at = end
        if at < length:
            yield at, length


class _Twin:
    """The file that a scratch file is compared with, and where it stands for it."""

    __slots__ = ("own_path", "path", "same")

    def __init__(self, own_path: str, path: str) -> None:
        self.own_path = own_path
        self.path = path
        self.same = Spans()


class ScratchFileSystem(UnfinishedFileSystem):
    """See the module. Written by one thread; a file is read by one at a time."""

    __slots__ = ("_by_fd", "_by_path", "_room", "_twin_of")

    def __init__(self, twin_of: Callable[[str], str | None] = lambda _: None) -> None:
        """`twin_of` is asked once for each path that is opened to be written."""
        super().__init__()
        self._twin_of = twin_of
        self._by_path: dict[str, _Twin | None] = {}
        self._by_fd: dict[int, _Twin] = {}
        self._room = bytearray(PIECE_BYTES)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        """Open; a file that has a twin is compared with it from now on."""
        fd = super().open(path, create=create, read_only=read_only)
        if not read_only and path not in self._by_path:
            twin_path = self._twin_of(path)
            self._by_path[path] = None if twin_path is None else _Twin(path, twin_path)
        twin = self._by_path.get(path)
        if twin is not None:
            self._by_fd[fd] = twin
        return fd

    def close(self, fd: int) -> None:
        """Close."""
        self._by_fd.pop(fd, None)
        super().close(fd)

    def allocate(self, fd: int, length: int) -> None:
        """Leave a hole."""
        if self.size(fd) < length:
            super().truncate(fd, length)

    def truncate(self, fd: int, length: int) -> None:
        """Truncate what is there, the twin's part too."""
        self._fetch(fd)
        super().truncate(fd, length)

    def pwrite(self, fd: int, data: Buffer, position: int) -> None:
        """Write what the twin does not have."""
        twin = self._by_fd.get(fd)
        view = memoryview(data)
        while twin is not None and view:
            piece = view[:PIECE_BYTES]
            end = position + len(piece)
            if end <= self.size(fd) and self._has(twin, piece, position):
                twin.same.add(position, end)
            else:
                twin.same.remove(position, end)
                super().pwrite(fd, piece, position)
            position, view = end, view[len(piece) :]
        if view:
            super().pwrite(fd, view, position)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> None:
        """Write one after the other."""
        for data in buffers:
            self.pwrite(fd, data, position)
            position += len(data)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        """Read, once the twin's part is there."""
        self._fetch(fd)
        return super().pread(fd, length, position)

    def pread_into(self, fd: int, buffer: bytearray | memoryview, position: int) -> int:
        """Read, once the twin's part is there."""
        self._fetch(fd)
        return super().pread_into(fd, buffer, position)

    def pread_into_nowait(self, fd: int, buffer: bytearray | memoryview, position: int) -> bool:
        """Read, once the twin's part is there."""
        self._fetch(fd)
        return super().pread_into_nowait(fd, buffer, position)

    def next_data(self, fd: int, position: int) -> int | None:
        """Look for data, once the twin's part is there."""
        self._fetch(fd)
        return super().next_data(fd, position)

    def rename(self, source: str, target: str) -> None:
        """Rename; a file with another name has no twin."""
        self._part(source)
        self._part(target)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        """Unlink; who makes such a file again gets another."""
        self._by_path.pop(path, None)
        super().unlink(path)

    def is_as_twin(self, path: str, twin_path: str, length: int) -> bool:
        """Tell whether a file's first bytes are known to be those of this twin.

        Compared is only what was not when it was written, or never was written.
        """
        twin = self._by_path.get(path)
        if twin is None or twin.path != twin_path:
            return False
        fds = [_FILES.open(one, read_only=True) for one in (path, twin_path)]
        try:
            with naming(twin_path):
                return min(map(self.size, fds)) >= length and all(
                    self._is_same(fds, begin, end) for begin, end in twin.same.gaps(length)
                )
        finally:
            for fd in fds:
                _FILES.close(fd)

    def _is_same(self, fds: Sequence[int], begin: int, end: int) -> bool:
        for at in range(begin, end, PIECE_BYTES):
            places = [_FILES.next_data(fd, at) for fd in fds]
            if all(place is None or place >= end for place in places):
                return True
            length = min(PIECE_BYTES, end - at)
            one, other = (_FILES.pread(fd, length, at) for fd in fds)
            if one != other:
                return False
        return True

    def _has(self, twin: _Twin, data: memoryview, position: int) -> bool:
        try:
            fd = _FILES.open(twin.path, read_only=True)
        except OSError:
            return False
        try:
            room = memoryview(self._room)[: len(data)]
            count = _FILES.pread_into(fd, room, position)
            return count == len(data) and self._room.startswith(data)
        except OSError:  # who compares the files says so
            return False
        finally:
            _FILES.close(fd)

    def _part(self, path: str) -> None:
        twin = self._by_path.pop(path, None)
        if twin is not None:
            fd = self.open(path, read_only=True)
            try:
                self._by_fd[fd] = twin
                self._fetch(fd)
            finally:
                self.close(fd)

    def _fetch(self, fd: int) -> None:
        """Copy what a file's twin stands for; from then on it stands for nothing of it."""
        twin = self._by_fd.get(fd)
        if twin is None:
            return
        spans, twin.same = list(twin.same), Spans()
        if not spans:
            return
        source = _FILES.open(twin.path, read_only=True)
        try:
            target = _FILES.open(twin.own_path)
            try:
                for begin, end in spans:
                    for at in range(begin, end, PIECE_BYTES):
                        with naming(twin.path):
                            piece = _FILES.pread(source, min(PIECE_BYTES, end - at), at)
                        with naming(twin.own_path):
                            _FILES.pwrite(target, piece, at)
            finally:
                _FILES.close(target)
        finally:
            _FILES.close(source)


def store_twins(fs: FileSystem, made: StorePaths, store: StorePaths) -> Callable[[str], str | None]:
    """Return which file of a store one made anew is held against.

    A queue's file is of the same name; files of the index, which are named by the time, follow one
    another as the store's do.
    """
    indexes = iter(index_names(fs, store.index_directory))
    queues = join(made.consume_queue_root, "")

    def twin_of(path: str) -> str | None:
        twin = None
        if path.startswith(queues):
            twin = join(store.consume_queue_root, path.removeprefix(queues))
        elif path.rpartition("/")[0] == made.index_directory:
            name = next(indexes, None)
            twin = None if name is None else join(store.index_directory, name)
        return twin if twin is not None and fs.is_file(twin) else None

    return twin_of
