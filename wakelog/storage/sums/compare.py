"""Holds the log against its sums: which blocks are not as they were when they were durable.

Source: none upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from posixpath import basename, join
from typing import NamedTuple
from zlib import crc32

from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.sums.sum_file import (
    SECTOR_SUMS,
    blocks_of,
    read_sectors,
    sum_names,
)


class ChangedBlock(NamedTuple):
    """Bytes [begin, end) of the log that differ from what was durable there."""

    begin: int
    end: int


Looked = ChangedBlock | int
"""A changed block, or how many bytes were found as they should be since the last item."""


def compare_sums(
    fs: FileSystem, config: StoreConfig, crc: Callable[[bytes], int] = crc32
) -> Iterator[Looked]:
    """Read every block that has a sum, in the log's order.

    crc: a quicker way to CRC-32, where one is loaded.
    A segment that is removed meanwhile is passed over. Raises: StoreFailed.
    """
    named = set(sum_names(fs, config.paths))
    files = commit_log_files(fs, config, read_only=True)
    files.refresh()
    blocks = blocks_of(config.commit_log_file_bytes)
    try:
        for segment in files.files:
            name = basename(segment.path)
            if name in named and not segment.is_missing:
                path = join(config.paths.sums_directory, name)
                sectors = read_sectors(fs, path, blocks.sectors_count)
                try:
                    yield from _compare(segment, sectors, blocks.block_bytes, crc)
                except StoreFailed as error:
                    if not isinstance(error.cause, FileNotFoundError):
                        raise
                finally:
                    segment.release()  # a slow round must not keep removed segments open
    finally:
        files.close()


def _compare(
    segment: MappedFile, sectors: list[list[int]], block_bytes: int, crc: Callable[[bytes], int]
) -> Iterator[Looked]:
    for number, sums in enumerate(sectors):
        for index, expected in enumerate(sums):
            position = (number * SECTOR_SUMS + index) * block_bytes
            length = min(block_bytes, segment.size_bytes - position)
            start = segment.start_offset + position
            if length <= 0:
                return
            data = segment.read(position, length)
            if len(data) < length:
                return  # removed meanwhile, and cut to free its space
            yield length if crc(data) == expected else ChangedBlock(start, start + length)


class Scrub:
    """Compares the whole log again and again, as slowly as it is stepped."""

    def __init__(self, fs: FileSystem, config: StoreConfig) -> None:
        """Read nothing yet."""
        self._fs = fs
        self._config = config
        self._round: Iterator[Looked] | None = None
        self.rounds_count = 0
        self.compared_bytes = 0

    def step(self, bytes_max: int) -> tuple[list[ChangedBlock], bool]:
        """Compare up to `bytes_max` bytes; return what is changed, and whether a round ended.

        Raises: StoreFailed; the next step begins a round.
        """
        looked = self._round
        if looked is None:
            looked = compare_sums(self._fs, self._config)
        self._round = None
        found: list[ChangedBlock] = []
        compared_bytes = 0
        for item in looked:
            if isinstance(item, ChangedBlock):
                found.append(item)
                compared_bytes += item.end - item.begin
            else:
                compared_bytes += item
            if compared_bytes >= bytes_max:
                self._round = looked
                break
        else:
            self.rounds_count += 1
        self.compared_bytes += compared_bytes
        return found, self._round is None
