"""The files between both halves: what was put comes back, by bucket and in order."""

from __future__ import annotations

import numpy as np

from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.audit.parallel.pieces import (
    BUCKETS_COUNT,
    KEY_DTYPE,
    KeyFile,
    PieceWriter,
    bucket_of,
    queue_pieces,
    read_keys,
)
from wakelog.storage.queue.entries import ENTRY

KEYS = [("T", 0), ("T", 1), ("tä", 7)]


def test_entries_come_back_in_order_however_often_they_were_written(fs: MemoryFileSystem) -> None:
    pieces = PieceWriter(fs, "/store/q", pending_max=60)
    for i in range(10):
        for key in KEYS:
            pieces.queue(key).put(100 * i, 100, i, 5 + i)
        pieces.write()
    pieces.queue(("T", 0)).put_run(
        ENTRY.pack(1, 2, 3) * 2, queue_offset=15, physical_offset=1, physical_offset_end=3
    )
    sizes = pieces.close()
    assert len(sizes) == BUCKETS_COUNT
    for key in KEYS:
        bucket = bucket_of(key)
        found = [x for x in queue_pieces(fs, "/store/q", {bucket}) if x.key == key]
        assert len(found) >= 10
        offsets = np.concatenate([piece.queue_offsets for piece in found]).tolist()
        assert offsets == list(range(5, 17 if key == ("T", 0) else 15))
        entries = b"".join(piece.entries for piece in found)
        assert entries[:20] == ENTRY.pack(0, 100, 0) and len(entries) == 20 * len(offsets)
        assert sizes[bucket] > 0
    assert sum(map(bool, sizes)) == len({bucket_of(key) for key in KEYS})
    assert fs.descriptor_count == 0


def test_a_segment_without_entries_has_a_file_all_the_same(fs: MemoryFileSystem) -> None:
    assert not any(PieceWriter(fs, "/store/q").close())
    assert list(queue_pieces(fs, "/store/q", range(BUCKETS_COUNT))) == []


def test_keys_are_read_across_files(fs: MemoryFileSystem) -> None:
    files: list[KeyFile] = []
    for name, count in (("a", 3), ("b", 0), ("c", 5)):
        keys = np.zeros(count, dtype=KEY_DTYPE)
        keys["store_ms"] = np.arange(count) + 10 * len(files)
        fd = fs.open(f"/store/{name}", create=True)
        fs.pwrite(fd, keys.tobytes(), 0)
        fs.close(fd)
        files.append(KeyFile(f"/store/{name}", count))
    found = [part["store_ms"].tolist() for part in read_keys(fs, files, 1, 7, count_max=2)]
    assert found == [[1, 2], [20, 21], [22, 23]]
    assert list(read_keys(fs, files, -1, 0, count_max=1)) == []
