"""Cover: sums what has become durable, a piece at a time, and forgets segments that are gone.

Belongs to Retention. It reads what was written a moment ago out of the page cache, so that a sum
says what the broker meant to write. Of a log that was there before, as one of 4.9.3 is, it says
what stood there then.

    step        what it does
    1           goes to the first block without a sum, in the log's order
    2           stops in front of the first block that is not wholly below the watermark
    3           sums the blocks of one sector, up to the bytes allowed, and writes it
    4           removes the sums of segments that retention has removed

Source: none upstream.
"""

from __future__ import annotations

from posixpath import basename, join
from zlib import crc32

from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import store_failure
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.sums.sum_file import (
    SECTOR_SUMS,
    blocks_of,
    read_sectors,
    remove_sums,
    sum_names,
    write_sectors,
)


class Cover:
    """See the module. One owner, one thread."""

    def __init__(self, fs: FileSystem, config: StoreConfig) -> None:
        """Read nothing yet."""
        self._fs = fs
        self._paths = config.paths
        self._blocks = blocks_of(config.commit_log_file_bytes)
        self._files = commit_log_files(fs, config, read_only=True)
        self._begin = -1
        self._segment: MappedFile | None = None
        self._sectors: list[list[int]] = []
        self._sector = 0
        self.covered_bytes = 0

    def step(self, watermark: int, bytes_max: int) -> int:
        """Sum up to `bytes_max` bytes below the watermark; return how many, 0 if none is left.

        Raises: StoreFailed, StoreFull.
        """
        self._follow()
        while (segment := self._next_segment()) is not None:
            if segment.start_offset >= watermark:
                return 0
            while self._sector < len(self._sectors):
                found = self._sum(segment, watermark, bytes_max)
                if found is not None:
                    return found
                self._sector += 1
        return 0

    def close(self) -> None:
        """Close the log's files."""
        self._files.close()

    def _follow(self) -> None:
        """See segments that came and went; remove the sums of those that went."""
        self._files.refresh()
        begin = self._files.min_offset
        if begin == self._begin:
            return
        self._begin = begin
        for name in sum_names(self._fs, self._paths):
            if int(name) < begin:
                remove_sums(self._fs, join(self._paths.sums_directory, name))

    def _next_segment(self) -> MappedFile | None:
        """Return the segment that is summed now; the next one when all of its blocks have sums."""
        segment = self._segment
        if segment is not None and segment.start_offset >= self._begin:
            if self._sector < len(self._sectors):
                return segment
            begin = segment.end_offset
        else:
            begin = self._begin
        segment = self._files.find(begin)
        if segment is not None:
            self._segment = segment
            self._sectors = read_sectors(
                self._fs, self._path_of(segment), self._blocks.sectors_count
            )
            self._sector = 0
        return segment

    def _sum(self, segment: MappedFile, watermark: int, bytes_max: int) -> int | None:
        """Add to the sums of the present sector; None if it is full, 0 if nothing is durable."""
        if segment.is_missing:
            return None
        sums = self._sectors[self._sector]
        first = self._sector * SECTOR_SUMS
        blocks_count = min(SECTOR_SUMS, self._blocks.blocks_count - first)
        if len(sums) >= blocks_count:
            return None
        begin = (first + len(sums)) * self._blocks.block_bytes
        added: list[int] = []
        summed_bytes = 0
        while len(sums) + len(added) < blocks_count and summed_bytes < bytes_max:
            length = min(self._blocks.block_bytes, segment.size_bytes - begin)
            if segment.start_offset + begin + length > watermark:
                break
            data = segment.read(begin, length)
            if len(data) < length:
                break  # removed meanwhile, and cut to free its space
            added.append(crc32(data))
            begin += length
            summed_bytes += length
        if added:
            self._write(segment, [*sums, *added])
        self.covered_bytes += summed_bytes
        return summed_bytes

    def _write(self, segment: MappedFile, sums: list[int]) -> None:
        directory = self._paths.sums_directory
        try:
            if not self._fs.exists(directory):
                self._fs.make_directories(directory, [])
        except OSError as error:
            raise store_failure(directory, "make", error) from error
        write_sectors(self._fs, self._path_of(segment), {self._sector: sums})
        self._sectors[self._sector] = sums

    def _path_of(self, segment: MappedFile) -> str:
        return join(self._paths.sums_directory, basename(segment.path))
