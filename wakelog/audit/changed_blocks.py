"""Blocks of the log that differ from their sums, adjacent ones as one: of a store, or of a range.

Source: none upstream; the format is `docs/formats/sums.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from posixpath import basename, dirname, join
from zlib import crc32

from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.sum_file import SECTOR_SUMS, blocks_of, read_sectors
from wakelog.storage.durability.sum_keeper import ChangedBlock, compare_sums
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import StorePaths


def changed_blocks(
    fs: FileSystem, config: StoreConfig, crc: Callable[[bytes], int]
) -> Iterator[ChangedBlock]:
    """Yield what has changed in the log of a store. Raises: StoreFailed."""
    return _joined(compare_sums(fs, config, crc))


CHANGED = "something differs from when they were durable"


def changed_in_range(
    fs: FileSystem, path: str, segment_begin: int, begin: int, end: int
) -> Iterator[ChangedBlock]:
    """Yield what has changed in the blocks that begin in [begin, end) of one segment file.

    A file outside of a store has no sums, and nothing has changed in it. Raises: StoreFailed,
    OSError.
    """
    root = dirname(dirname(path))
    sums_path = join(StorePaths(root).sums_directory, basename(path))
    return _joined(_changed_in(fs, path, sums_path, segment_begin, begin, end))


def _changed_in(
    fs: FileSystem, path: str, sums_path: str, segment_begin: int, begin: int, end: int
) -> Iterator[ChangedBlock]:
    fd = fs.open(path, read_only=True)
    try:
        size_bytes = fs.size(fd)
        block_bytes, _, sectors_count = blocks_of(size_bytes)
        for number, sums in enumerate(read_sectors(fs, sums_path, sectors_count)):
            for index, expected in enumerate(sums):
                position = (number * SECTOR_SUMS + index) * block_bytes
                at, length = segment_begin + position, min(block_bytes, size_bytes - position)
                if begin <= at < end and length > 0:
                    data = fs.pread(fd, length, position)
                    # A shorter file was removed meanwhile, and cut to free its space.
                    if len(data) == length and crc32(data) != expected:
                        yield ChangedBlock(at, at + length)
    finally:
        fs.close(fd)


def _joined(compared: Iterable[ChangedBlock | int]) -> Iterator[ChangedBlock]:
    last: ChangedBlock | None = None
    for block in compared:
        if isinstance(block, ChangedBlock) and last is not None and last.end == block.begin:
            last = ChangedBlock(last.begin, block.end)
            continue
        if last is not None:
            yield last
        last = block if isinstance(block, ChangedBlock) else None
    if last is not None:
        yield last
