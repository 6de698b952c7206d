"""Temporary files that take disk space only where they differ from existing files, their originals.

A verify rebuilds the queues and the index of a store and compares them with the store's own, their
originals. The rebuild of a sound store writes the same bytes at the same places. So each write is
compared with the original at once. Equal bytes are not written; their span is remembered.

    bytes written         result
    equal to the original's   the span refers to the original
    others                written to the disk; the span does not refer to the original any more

A read copies the original's spans into the file first, so a reader gets the whole file.

Invariants:
- A file reads as it was written while its original does not change. A store with a running broker
  therefore has no originals.
- Files are never synced or allocated, so they take no more of the disk than was written.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import join
from typing import Final

from wakelog.storage.file_system import Buffer, FileSystem, naming, reading
from wakelog.storage.index.index_service import index_names
from wakelog.storage.paths import StorePaths

PIECE_BYTES: Final = 1 << 20
"""The unit of comparing writes, and of copying."""
# Whole consume queue entries, and two of them in a core's second-level cache.
SPAN_PIECE_BYTES: Final = 20 << 13

UsePiece = Callable[[bytearray], None]

# Access to the disk without originals.
_FILES: Final = FileSystem()


class UnfinishedFileSystem(FileSystem):
    """Skips every sync: the files count only when all are there and were synced together."""

    __slots__ = ()

    def sync(self, fd: int) -> None:
        """Do nothing."""

    def datasync(self, fd: int) -> None:
        """Do nothing."""

    def sync_directory(self, path: str) -> None:
        """Do nothing."""


class Spans:
    """Disjoint spans [begin, end) of a file, in order."""

    __slots__ = ("_begins", "_ends")

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate in order."""
        return iter(zip(self._begins, self._ends, strict=True))

    def add(self, begin: int, end: int) -> None:
        """Add a span and join it with those that it touches."""
        first = bisect_left(self._ends, begin)
        last = first
        while last < len(self._begins) and self._begins[last] <= end:
            begin, end = min(begin, self._begins[last]), max(end, self._ends[last])
            last += 1
        self._begins[first:last], self._ends[first:last] = [begin], [end]

    def remove(self, begin: int, end: int) -> None:
        """Remove a span; the parts outside of it stay."""
        kept = [
            piece
            for span in self
            for piece in ((span[0], min(span[1], begin)), (max(span[0], end), span[1]))
            if piece[0] < piece[1]
        ]
        self._begins, self._ends = [one[0] for one in kept], [one[1] for one in kept]

    def gaps(self, length: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of [0, length) that are in no span."""
        at = 0
        for begin, end in self:
            if at < min(begin, length):
                yield at, min(begin, length)
            at = end
        if at < length:
            yield at, length


@dataclass(slots=True)
class _Twin:
    """The file that a scratch file is compared with, and the spans that refer to it."""

    own_path: str
    path: str
    same: Spans = field(default_factory=Spans)


class ScratchFileSystem(UnfinishedFileSystem):
    """See the module. One thread writes; one thread at a time reads a file."""

    __slots__ = ("_by_fd", "_by_path", "_original_of", "_room")

    def __init__(self, original_of: Callable[[str], str | None] = lambda _: None) -> None:
        """original_of: the original of a path; called once for each path opened for writing."""
        super().__init__()
        self._original_of = original_of
        self._by_path: dict[str, _Twin | None] = {}
        self._by_fd: dict[int, _Twin] = {}
        self._room = bytearray(PIECE_BYTES)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        """Open a file; writes to one with a original are compared with it."""
        fd = super().open(path, create=create, read_only=read_only)
        if not read_only and path not in self._by_path:
            original_path = self._original_of(path)
            self._by_path[path] = None if original_path is None else _Twin(path, original_path)
        original = self._by_path.get(path)
        if original is not None:
            self._by_fd[fd] = original
        return fd

    def close(self, fd: int) -> None:
        """Close."""
        self._by_fd.pop(fd, None)
        super().close(fd)

    def allocate(self, fd: int, length: int) -> None:
        """Leave a hole."""
        if self.size(fd) < length:
            super().truncate(fd, length)

    def reserve(self, fd: int, position: int, length: int) -> None:
        """Leave a hole."""

    def truncate(self, fd: int, length: int) -> None:
        """Copy the original's spans, then truncate."""
        self._fetch(fd)
        super().truncate(fd, length)

    def pwrite(self, fd: int, data: Buffer, position: int) -> None:
        """Write the bytes that differ from the original's."""
        original = self._by_fd.get(fd)
        view = memoryview(data)
        while original is not None and view:
            piece = view[:PIECE_BYTES]
            end = position + len(piece)
            if end <= self.size(fd) and self._has(original, piece, position):
                original.same.add(position, end)
            else:
                original.same.remove(position, end)
                super().pwrite(fd, piece, position)
            position, view = end, view[len(piece) :]
        if view:
            super().pwrite(fd, view, position)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> None:
        """Write the buffers one after another."""
        for data in buffers:
            self.pwrite(fd, data, position)
            position += len(data)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        """Copy the original's spans, then read."""
        self._fetch(fd)
        return super().pread(fd, length, position)

    def pread_into(self, fd: int, buffer: bytearray | memoryview, position: int) -> int:
        """Copy the original's spans, then read."""
        self._fetch(fd)
        return super().pread_into(fd, buffer, position)

    def pread_into_nowait(self, fd: int, buffer: bytearray | memoryview, position: int) -> bool:
        """Copy the original's spans, then read."""
        self._fetch(fd)
        return super().pread_into_nowait(fd, buffer, position)

    def next_data(self, fd: int, position: int) -> int | None:
        """Copy the original's spans, then search for data."""
        self._fetch(fd)
        return super().next_data(fd, position)

    def data_end(self, fd: int, position: int) -> int:
        """Copy the original's spans, then search for a hole."""
        self._fetch(fd)
        return super().data_end(fd, position)

    def rename(self, source: str, target: str) -> None:
        """Rename; the renamed file has no original."""
        self._forget_original(source)
        self._forget_original(target)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        """Unlink; a new file of this name gets a original again."""
        self._by_path.pop(path, None)
        super().unlink(path)

    def equals_original(self, path: str, original_path: str, length: int) -> bool:
        """Return whether the first `length` bytes of a file equal those of this original.

        Compares only the bytes that no write has compared.
        """
        original = self._by_path.get(path)
        if original is None or original.path != original_path:
            return False
        with reading(_FILES, path) as own, reading(_FILES, original_path) as other:
            files = {path: own, original_path: other}
            return min(map(self.size, files.values())) >= length and all(
                is_same_span(_FILES, files, begin, end) for begin, end in original.same.gaps(length)
            )

    def _has(self, original: _Twin, data: memoryview, position: int) -> bool:
        room = memoryview(self._room)[: len(data)]
        try:
            with reading(_FILES, original.path) as fd:
                count = _FILES.pread_into(fd, room, position)
        except OSError:  # the comparison of the files reports it
            return False
        return count == len(data) and self._room.startswith(data)

    def _forget_original(self, path: str) -> None:
        """Copy the original's spans into a file, which has no original from then on."""
        original = self._by_path.pop(path, None)
        if original is not None:
            with reading(self, path) as fd:
                self._by_fd[fd] = original
                self._fetch(fd)

    def _fetch(self, fd: int) -> None:
        """Copy the spans that refer to the original into the file."""
        original = self._by_fd.get(fd)
        if original is None:
            return
        spans, original.same = list(original.same), Spans()
        if not spans:
            return
        with reading(_FILES, original.path) as source:
            target = _FILES.open(original.own_path)
            try:
                for begin, end in spans:
                    for at in range(begin, end, PIECE_BYTES):
                        piece = _FILES.pread(source, min(PIECE_BYTES, end - at), at)
                        with naming(original.own_path):
                            _FILES.pwrite(target, piece, at)
            finally:
                _FILES.close(target)


def is_same_span(
    fs: FileSystem,
    files: Mapping[str, int],
    begin: int,
    end: int,
    use_piece: UsePiece | None = None,
) -> bool:
    """Return whether [begin, end) of all files is equal; a file that ends before differs.

    files: their descriptors by path; a single one is only passed on. use_piece: gets each piece of
    equal bytes, but no trailing zeros. Two pieces are in memory, and used again. Raises: OSError.
    """
    room = [bytearray(SPAN_PIECE_BYTES) for _ in files]
    for position in range(begin, end, SPAN_PIECE_BYTES):
        if not any(_has_data(fs, path, fd, position, end) for path, fd in files.items()):
            return True  # most of a queue's last file was never written
        if end - position < SPAN_PIECE_BYTES:
            room = [bytearray(end - position) for _ in files]
        for (path, fd), piece in zip(files.items(), room, strict=True):
            with naming(path):
                if fs.pread_into(fd, piece, position) < len(piece):
                    return False
        if room[0] != room[-1]:
            return False
        if use_piece is not None:
            use_piece(room[0])
    return True


def _has_data(fs: FileSystem, path: str, fd: int, begin: int, end: int) -> bool:
    with naming(path):
        place = fs.next_data(fd, begin)
    return place is not None and place < end


def store_originals(
    fs: FileSystem, made: StorePaths, store: StorePaths
) -> Callable[[str], str | None]:
    """Return the function from a rebuilt file to its original in the store.

    A queue's file has the same name. Files of the index are named by time, so they are matched by
    their order.
    """
    indexes = iter(index_names(fs, store.index_directory))
    queues = join(made.consume_queue_root, "")

    def original_of(path: str) -> str | None:
        original = None
        if path.startswith(queues):
            original = join(store.consume_queue_root, path.removeprefix(queues))
        elif path.rpartition("/")[0] == made.index_directory:
            name = next(indexes, None)
            original = None if name is None else join(store.index_directory, name)
        return original if original is not None and fs.is_file(original) else None

    return original_of
