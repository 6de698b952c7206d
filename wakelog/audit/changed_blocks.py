"""Blocks of the log that differ from their sums, adjacent ones as one: of a store, or of a range.

Source: none upstream; the format is `docs/formats/sums.md`.
"""

from collections.abc import Iterable, Iterator
from posixpath import basename, dirname, join

from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.sum_keeper import ChangedBlock, compare_segment, compare_sums
from wakelog.storage.file_system import FileSystem, size_of
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.paths import StorePaths


def changed_blocks(fs: FileSystem, config: StoreConfig) -> Iterator[ChangedBlock]:
    """Yield what has changed in the log of a store. Raises: StoreFailed."""
    return _joined(compare_sums(fs, config))


CHANGED = "something differs from when they were durable"


def changed_in_range(
    fs: FileSystem, path: str, segment_begin: int, begin: int, end: int
) -> Iterator[ChangedBlock]:
    """Yield what has changed in the blocks that begin in [begin, end) of one segment file.

    A file outside of a store has no sums, and nothing has changed in it. Raises: StoreFailed,
    OSError.
    """
    sums_path = join(StorePaths(dirname(dirname(path))).sums_directory, basename(path))
    size_bytes = size_of(fs, path)
    if size_bytes:
        segment = MappedFile(
            fs, path, start_offset=segment_begin, size_bytes=size_bytes, read_only=True
        )
        yield from _joined(compare_segment(fs, segment, sums_path, begin, end))


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
