"""The transient pool: files in shared memory that the log writes before its segments.

With `transientStorePoolEnable` a send is acknowledged once its message is in a buffer. Commit
copies buffers to segments every 200 ms. A buffer is a file as long as a segment, in a memory file
system, made when the broker starts. It outlives every process: the next broker commits what a dead
one left, before its first append. Only the machine's death loses it. Another broker may have had
the store in between. If it wrote there or removed the segment, the bytes go to the quarantine.

A small header file beside the buffers maps each buffer to its segment. It is big endian; each
8-byte field is written by one call, so that a killed process tears none:

    offset  width  field
    0       8      magic "WAKEPOOL"
    8       8      version, 1
    16      8      count of buffers
    24      8      bytes of a segment
    32+24i  8      buffer i: start offset of its segment, -1 while it is free
    40+24i  8      buffer i: physical offset up to which the segment holds it
    48+24i  8      buffer i: physical offset up to which the buffer is written

The directory is named after the store's id, which a copy of a store has as well. So the process
that uses it holds a record lock on the file `owner` in it, and opens that file only once.

Invariants:
- start <= committed <= appended <= start + segment bytes, for each buffer in use.
- Bytes reach the buffer before `appended` covers them, and the segment before `committed` does.
- Buffers in use are ordered by start offset; everything below the first one is committed.

Source: org.apache.rocketmq.store.TransientStorePool, MappedFile.commit0 (4.9.3), whose buffers die
with the process.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from posixpath import join

import msgspec

from wakelog.storage.errors import DamagedStore, StoreFailed, store_errors, store_failure
from wakelog.storage.file_system import FileSystem, opened
from wakelog.storage.log.mapped_file import MappedFile

_MAGIC = b"WAKEPOOL"
_VERSION = 1
_HEADER = struct.Struct(">8sqqq")
_SLOT = struct.Struct(">qqq")
_WORD = struct.Struct(">q")  # a field of a slot
_FREE = -1
_FREE_SLOT = _SLOT.pack(_FREE, 0, 0)
# Which word of a slot it is; word 0 is the start offset.
_COMMITTED_WORD = 1
_APPENDED_WORD = 2
_HEADER_NAME = "pool"
_BUFFER_PREFIX = "buffer-"
_OWNER_NAME = "owner"

# Copied by one read and one write; a commit of a whole segment holds no more than this in memory.
COPY_PIECE_BYTES = 4 << 20


class CommitRange(msgspec.Struct, frozen=True):
    """Bytes [begin, end) of the log that one buffer holds and its segment does not yet."""

    buffer_path: str
    segment_start_offset: int
    begin: int
    end: int


class _Slot(msgspec.Struct):
    """One buffer in use."""

    index: int
    file: MappedFile
    committed: int
    appended: int


class TransientPool:
    """The broker's buffers: lent to segments as the log rolls, free again once committed."""

    def __init__(self, fs: FileSystem, directory: str, *, count: int, segment_bytes: int) -> None:
        """Make `count` empty buffers in `directory`; run `restore_buffers` before this.

        Raises: StoreFull when the memory does not suffice, StoreFailed; DamagedStore when a broker
        that runs has the directory.
        """
        self._fs = fs
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._used: list[_Slot] = []
        self._free = list(range(count))
        header = _HEADER.pack(_MAGIC, _VERSION, count, segment_bytes)
        header += _FREE_SLOT * count
        with store_errors(directory, "allocate"):
            fs.make_directories(directory)
            self._owner_fd = _lock_pool(fs, directory)
            for index in range(count):
                with opened(fs, _buffer_path(directory, index), create=True) as fd:
                    fs.allocate(fd, segment_bytes)
            self._header_fd = fs.open(join(directory, _HEADER_NAME), create=True)
            fs.truncate(self._header_fd, 0)
            fs.pwrite(self._header_fd, header, 0)

    @property
    def free_count(self) -> int:
        """The number of buffers that are not lent."""
        return len(self._free)

    def lend(self, start_offset: int) -> MappedFile | None:
        """Return an empty buffer for the segment that starts at `start_offset`; None if all lent.

        It has the segment's start offset and length. Without one the log writes to the segment
        itself; so it does where the header cannot be written.
        """
        assert not self._used or start_offset > self._used[-1].file.start_offset
        if not self._free:
            return None
        index = self._free[0]
        try:
            self._write(index, _SLOT.pack(start_offset, start_offset, start_offset))
        except StoreFailed:
            with suppress(StoreFailed):
                self._write(index, _FREE_SLOT)
            return None
        del self._free[0]
        file = MappedFile(
            self._fs,
            _buffer_path(self._directory, index),
            start_offset=start_offset,
            size_bytes=self._segment_bytes,
        )
        self._used.append(_Slot(index, file, start_offset, start_offset))
        return file

    def on_appended(self, physical_offset: int) -> None:
        """Note that every byte below `physical_offset` is in a buffer or in a segment."""
        for slot in self._used:
            appended = min(physical_offset, slot.file.end_offset)
            if appended > slot.appended:
                slot.appended = appended
                self._write(slot.index, _WORD.pack(appended), _APPENDED_WORD)

    def pending(self, appended_offset: int) -> list[CommitRange]:
        """Return what is to be copied, in order, to bring the segments up to `appended_offset`."""
        found = []
        for slot in self._used:
            file, end = slot.file, min(slot.appended, appended_offset)
            if slot.committed < end:
                found.append(CommitRange(file.path, file.start_offset, slot.committed, end))
        return found

    def on_committed(self, physical_offset: int) -> None:
        """Note that the segments hold every byte below; fully committed buffers become free.

        If the header cannot be written, the next start copies bytes that segments have already.
        That is harmless: the buffer cannot be lent again without writing the header.
        """
        for slot in list(self._used):
            committed = min(physical_offset, slot.appended)
            if committed > slot.committed:
                slot.committed = committed
                with suppress(StoreFailed):
                    self._write(slot.index, _WORD.pack(committed), _COMMITTED_WORD)
            if slot.committed == slot.file.end_offset:
                self._used.remove(slot)
                slot.file.release()
                with suppress(StoreFailed):
                    self._write(slot.index, _FREE_SLOT)
                self._free.append(slot.index)

    def committed_offset(self, appended_offset: int) -> int:
        """Return how far the segments hold the log, whose end is `appended_offset`."""
        for slot in self._used:
            if slot.committed < slot.appended:
                return slot.committed
        return appended_offset

    def close(self) -> None:
        """Close the files, and remove buffers and header unless a segment still lacks bytes.

        The next start commits those. Raises: StoreFailed.
        """
        for slot in self._used:
            slot.file.release()
        self._fs.close(self._header_fd)
        try:
            if all(slot.committed == slot.appended for slot in self._used):
                _remove_pool(self._fs, self._directory)
        finally:
            self._fs.close(self._owner_fd)  # last: until then no other process uses the directory

    def _write(self, index: int, data: bytes, word: int = 0) -> None:
        position = _HEADER.size + index * _SLOT.size + word * _WORD.size
        try:
            self._fs.pwrite(self._header_fd, data, position)
        except OSError as error:
            raise store_failure(join(self._directory, _HEADER_NAME), "write", error) from error


def copy_range(fs: FileSystem, piece: CommitRange, segment_path: str) -> bool:
    """Copy a range from its buffer to its segment; False if the buffer now has another segment.

    Repeating it changes nothing, however late. A copier that was stopped may resume when the
    buffer holds bytes of another segment. So what was read is written only if the buffer is still
    lent to this segment after the read.

    Raises: StoreFull, StoreFailed.
    """
    with (
        store_errors(segment_path, "commit"),
        opened(fs, piece.buffer_path, read_only=True) as source,
        opened(fs, segment_path) as target,
    ):
        for position, length in _spans(piece):
            data = fs.pread(source, length, position)
            if not _is_lent(fs, piece):
                return False
            fs.pwrite(target, data, position)
    return True


def _spans(piece: CommitRange) -> Iterator[tuple[int, int]]:
    """Yield position and length of each piece of a range, the same in both files."""
    begin, end = piece.begin - piece.segment_start_offset, piece.end - piece.segment_start_offset
    for position in range(begin, end, COPY_PIECE_BYTES):
        yield position, min(COPY_PIECE_BYTES, end - position)


def _is_lent(fs: FileSystem, piece: CommitRange) -> bool:
    directory, _, name = piece.buffer_path.rpartition("/")
    position = _HEADER.size + int(name.removeprefix(_BUFFER_PREFIX)) * _SLOT.size
    with opened(fs, join(directory, _HEADER_NAME), read_only=True) as fd:
        return fs.pread(fd, _WORD.size, position) == _WORD.pack(piece.segment_start_offset)


def restore_buffers(
    fs: FileSystem,
    directory: str,
    segment_path: Callable[[int], str | None],
    copy_to_quarantine: Callable[[CommitRange], None],
) -> list[CommitRange]:
    """Commit what a dead broker left in its buffers, then remove them; return what was committed.

    Call with the store's lock held, before the log is recovered.
    segment_path: the path of the segment that starts at an offset; None for one below the log's
        begin, whose bytes are dropped.
    copy_to_quarantine: called, in log order, with each range that has no place any more: another
        broker had the store meanwhile. It wrote there, or removed a segment that it found empty.
        Every later range goes the same way.
    Raises: DamagedStore when the header is not one of ours, or a broker that runs uses the pool;
    StoreFull, StoreFailed.
    """
    restored: list[CommitRange] = []
    if not fs.exists(directory):
        return restored
    owner_fd = _lock_pool(fs, directory)
    try:
        is_taken = False
        for piece in sorted(_read_pool(fs, directory), key=lambda piece: piece.begin):
            path = segment_path(piece.segment_start_offset)
            if piece.begin == piece.end or path is None:
                continue
            is_taken = is_taken or not fs.exists(path) or _is_taken(fs, piece, path)
            if is_taken:
                copy_to_quarantine(piece)
            else:
                copy_range(fs, piece, path)
                with store_errors(path, "sync"), opened(fs, path) as fd:
                    fs.datasync(fd)
                restored.append(piece)
        _remove_pool(fs, directory)
    finally:
        fs.close(owner_fd)
    return restored


def _is_taken(fs: FileSystem, piece: CommitRange, segment_path: str) -> bool:
    """Tell whether a segment has bytes in a range that are neither zero nor the buffer's."""
    with (
        store_errors(segment_path, "read"),
        opened(fs, piece.buffer_path, read_only=True) as source,
        opened(fs, segment_path, read_only=True) as target,
    ):
        for position, length in _spans(piece):
            stored, buffered = (
                fs.pread(target, length, position),
                fs.pread(source, length, position),
            )
            # Most parts are equal, or have nothing yet: compare single bytes only of the others.
            if buffered.startswith(stored) or not stored.strip(b"\0"):
                continue
            if any(one and one != other for one, other in zip(stored, buffered, strict=False)):
                return True
    return False


def _lock_pool(fs: FileSystem, directory: str) -> int:
    path = join(directory, _OWNER_NAME)
    with store_errors(path, "lock"):
        fd = fs.open(path, create=True)
        try:
            if fs.lock_byte(fd, 0):
                return fd
            holder = fs.lock_holder(fd, 0)
        except OSError:
            fs.close(fd)
            raise
        fs.close(fd)
    raise DamagedStore(
        directory,
        f"process {holder} uses it, for a store with the id of this one",
        "if this store is a copy, remove its wakelog.store, which gives it an id of its own",
    )


def _read_pool(fs: FileSystem, directory: str) -> list[CommitRange]:
    path = join(directory, _HEADER_NAME)
    if not fs.exists(path):
        return []
    with store_errors(path, "read"), opened(fs, path, read_only=True) as fd:
        data = fs.pread(fd, fs.size(fd), 0)
    if len(data) < _HEADER.size or not data.strip(b"\0"):
        return []  # the broker died while it made the pool: nothing was lent yet
    magic, version, count, segment_bytes = _HEADER.unpack_from(data)
    if (magic, version) != (_MAGIC, _VERSION) or len(data) != _HEADER.size + count * _SLOT.size:
        raise DamagedStore(path, "it is no pool header of this version", "remove its directory")
    pieces = []
    for index in range(count):
        start, committed, appended = _SLOT.unpack_from(data, _HEADER.size + index * _SLOT.size)
        if start == _FREE:
            continue
        if not start <= committed <= appended <= start + segment_bytes:
            raise DamagedStore(path, f"buffer {index} has no order", "remove its directory")
        pieces.append(CommitRange(_buffer_path(directory, index), start, committed, appended))
    return pieces


def _remove_pool(fs: FileSystem, directory: str) -> None:
    with store_errors(directory, "remove"):
        if not fs.exists(directory):
            return
        names = fs.list_directory(directory)
        # The header goes first: without it the buffers mean nothing.
        for name in sorted(names, key=lambda name: name != _HEADER_NAME):
            fs.unlink(join(directory, name))
        fs.remove_directory(directory)


def _buffer_path(directory: str, index: int) -> str:
    return join(directory, f"{_BUFFER_PREFIX}{index}")
