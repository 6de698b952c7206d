"""The files between the two halves of a parallel rebuild: entries and keys of one segment.

    <20 digits>.queues   entries of consume queues, in the order of the log for each queue
    <20 digits>.keys     keys of the index, in the order of the log

Entries lie in blocks, one of a bucket of queues each, and the blocks' places behind them:

    a block    queues: 4 bytes of the topic, 4 queue id, 4 entries, the topic, the entries as a
               consume queue has them (20 bytes each), the queue offsets (8 bytes each)
    places     24 bytes each: bucket, position, length
    the end    8 bytes: how many places there are

A key is 20 bytes: 4 hash, 8 physical offset, 8 store time. All numbers are little endian but those
of entries. The files live as long as one rebuild: their form may change at any time.

Invariants: memory is bounded by PENDING_BYTES_MAX and one scan; blocks of a queue come in the
order of the log.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np

from wakelog.storage.file_system import Buffer, FileSystem
from wakelog.storage.kernels.layout import ENTRY_BYTES
from wakelog.storage.log.queue_offsets import QueueKey
from wakelog.storage.queue.entries import ENTRY

Array = np.ndarray[Any, Any]

BUCKETS_COUNT: Final = 64
"""Queues are dealt out to so many: more tasks than that would write queues at once."""
PENDING_BYTES_MAX: Final = 4 << 20
"""Of entries that wait for their block: larger blocks make fewer reads."""
QUEUE_OFFSET_BYTES: Final = 8
KEY_DTYPE: Final = np.dtype([("hash", "<i4"), ("physical_offset", "<i8"), ("store_ms", "<i8")])

_QUEUE_HEAD: Final = struct.Struct("<IiI")
_PLACE: Final = np.dtype([("bucket", "<i8"), ("position", "<i8"), ("length", "<i8")])
_COUNT: Final = struct.Struct("<q")

assert KEY_DTYPE.itemsize == ENTRY_BYTES and _PLACE.itemsize == 24


def bucket_of(key: QueueKey) -> int:
    """Return the bucket of a queue, the same in every process."""
    topic, queue_id = key
    return zlib.crc32(f"{topic}/{queue_id}".encode()) % BUCKETS_COUNT


class PieceQueue:
    """Entries of one queue that wait for their block; an `EntryQueue`."""

    __slots__ = ("entries", "key", "queue_offsets")

    def __init__(self, key: QueueKey) -> None:
        """Wait for entries."""
        self.key = key
        self.entries = bytearray()
        self.queue_offsets = bytearray()

    def put(
        self,
        physical_offset: int,
        size_bytes: int,
        tags_code: int,
        queue_offset: int,
        *,
        unit: tuple[int, bytes] | None = None,
    ) -> None:
        """Take one entry; units are not made in parallel."""
        self.entries += ENTRY.pack(physical_offset, size_bytes, tags_code)
        self.queue_offsets += _COUNT.pack(queue_offset)

    def put_run(
        self,
        entries: Buffer,
        *,
        queue_offset: int,
        physical_offset: int,
        physical_offset_end: int,
    ) -> bool:
        """Take entries of successive queue offsets."""
        count = len(entries) // ENTRY_BYTES
        self.entries += entries
        self.queue_offsets += np.arange(queue_offset, queue_offset + count, dtype="<i8").data
        return True

    def put_column(
        self,
        entries: Buffer,
        *,
        physical_offsets: Array,
        sizes: Array,
        tags_codes: Array,
        queue_offsets: Array,
    ) -> None:
        """Take entries with their queue offsets."""
        self.entries += entries
        self.queue_offsets += queue_offsets.astype("<i8").data


class PieceWriter:
    """Writes the entries of one segment; call `close`, or the file is not whole."""

    def __init__(self, fs: FileSystem, path: str, *, pending_max: int = PENDING_BYTES_MAX) -> None:
        """Make the file. Raises: OSError."""
        self._fs = fs
        self._fd = fs.open(path, create=True)
        self._pending_max = pending_max
        self._queues: dict[QueueKey, PieceQueue] = {}
        self._places: list[tuple[int, int, int]] = []
        self._position = 0

    def queue(self, key: QueueKey) -> PieceQueue:
        """Return where the entries of a queue are put until the next `write`."""
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = PieceQueue(key)
        return queue

    def write(self, *, all_of_it: bool = False) -> None:
        """Write what waits, if it is much. Raises: OSError."""
        waiting = sum(len(queue.entries) for queue in self._queues.values())
        if not waiting or (waiting < self._pending_max and not all_of_it):
            return
        blocks: dict[int, bytearray] = {}
        for key, queue in self._queues.items():
            block = blocks.setdefault(bucket_of(key), bytearray())
            topic = key[0].encode()
            count = len(queue.entries) // ENTRY_BYTES
            block += _QUEUE_HEAD.pack(len(topic), key[1], count)
            block += topic + queue.entries + queue.queue_offsets
        for bucket, block in sorted(blocks.items()):
            self._fs.pwrite(self._fd, block, self._position)
            self._places.append((bucket, self._position, len(block)))
            self._position += len(block)
        self._queues.clear()

    def close(self) -> tuple[int, ...]:
        """Write the rest; return how many bytes each bucket has. Raises: OSError."""
        try:
            self.write(all_of_it=True)
            places = np.array(self._places, dtype=_PLACE)
            self._fs.pwrite(self._fd, places.tobytes() + _COUNT.pack(len(places)), self._position)
        finally:
            self.abandon()
        sizes = np.zeros(BUCKETS_COUNT, dtype=np.int64)
        np.add.at(sizes, places["bucket"], places["length"])
        return tuple(sizes.tolist())

    def abandon(self) -> None:
        """Close the file as it is."""
        if self._fd >= 0:
            self._fs.close(self._fd)
            self._fd = -1


class QueuePiece(NamedTuple):
    """Entries of one queue as they lie in its file, and the queue offsets of their records."""

    key: QueueKey
    entries: bytes
    queue_offsets: Array


def queue_pieces(fs: FileSystem, path: str, buckets: Collection[int]) -> Iterator[QueuePiece]:
    """Yield what a segment has of some buckets, in the order of the log. Raises: OSError."""
    with _reading(fs, path) as read:
        places_end = read.size_bytes - _COUNT.size
        (count,) = _COUNT.unpack(read(_COUNT.size, places_end))
        places_bytes = _PLACE.itemsize * count
        places = np.frombuffer(read(places_bytes, places_end - places_bytes), dtype=_PLACE)
        for bucket, position, length in places.tolist():
            if bucket in buckets:
                yield from _pieces_of(read(length, position))


def _pieces_of(block: bytes) -> Iterator[QueuePiece]:
    at = 0
    while at < len(block):
        topic_bytes, queue_id, count = _QUEUE_HEAD.unpack_from(block, at)
        begin = at + _QUEUE_HEAD.size
        entries = begin + topic_bytes
        offsets = entries + ENTRY_BYTES * count
        at = offsets + QUEUE_OFFSET_BYTES * count
        yield QueuePiece(
            (block[begin:entries].decode(), queue_id),
            block[entries:offsets],
            np.frombuffer(block[offsets:at], dtype="<i8"),
        )


class KeyFile(NamedTuple):
    """The keys of one segment: the file, and how many there are."""

    path: str
    keys_count: int


def read_keys(
    fs: FileSystem, files: Collection[KeyFile], begin: int, end: int, *, count_max: int
) -> Iterator[Array]:
    """Yield the keys [begin, end) of all files behind one another. Raises: OSError."""
    first = 0
    for file in files:
        low, high = max(begin - first, 0), min(end - first, file.keys_count)
        first += file.keys_count
        if low >= high:
            continue
        with _reading(fs, file.path) as read:
            for at in range(low, high, count_max):
                length = min(count_max, high - at) * KEY_DTYPE.itemsize
                yield np.frombuffer(read(length, at * KEY_DTYPE.itemsize), dtype=KEY_DTYPE)


class _Read(NamedTuple):
    pread: Callable[[int, int, int], bytes]
    fd: int
    size_bytes: int

    def __call__(self, length: int, position: int) -> bytes:
        data = self.pread(self.fd, length, position)
        assert len(data) == length, "a piece is shorter than it was written"
        return data


@contextmanager
def _reading(fs: FileSystem, path: str) -> Iterator[_Read]:
    fd = fs.open(path, read_only=True)
    try:
        yield _Read(fs.pread, fd, fs.size(fd))
    finally:
        fs.close(fd)
