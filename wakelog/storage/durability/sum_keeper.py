"""Make sums of the durable log, and compare the log with its sums; Retention's thread runs both.

`SumWriter` reads what was just written from the page cache, so a sum holds what the broker meant to
write. For a log that existed before, such as one of 4.9.3, it holds what is there at that time.
`compare_sums` yields the blocks that differ from their sum. `SumKeeper.step` decides what is next:

    there is                            it                 next step after
    something durable without a sum     sums a piece       SUM_PAUSE_MS
    nothing to sum, comparing is on     compares a piece   what its rate gives
    a whole round compared              -                  ROUND_PAUSE_MS
    neither                             -                  IDLE_PAUSE_MS
    a failure of the disk               counts it          FAILED_PAUSE_MS

Between two pieces of a slow comparison it checks for something to sum, while that is still in the
page cache.

Source: none upstream.
"""

from collections import deque
from collections.abc import Iterator
from posixpath import basename, join
from typing import Final, NamedTuple

from wakelog.compiled.library import crc32
from wakelog.protocol.java import LONG_MAX
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.sum_file import (
    SECTOR_SUMS,
    blocks_of,
    read_sectors,
    remove_sums,
    sum_names,
    write_sectors,
)
from wakelog.storage.durability.watermark import read_mark
from wakelog.storage.errors import StoreError, StoreFailed, store_errors
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.log.mapped_file import MappedFile

SUM_BYTES: Final = 1 << 20
SUM_PAUSE_MS: Final = 10
"""Limits the reading of an existing log to 90 MB a second and a tenth of a core."""
COMPARE_BYTES: Final = 256 << 10
IDLE_PAUSE_MS: Final = 1_000
ROUND_PAUSE_MS: Final = 60_000
FAILED_PAUSE_MS: Final = 10_000
CHANGED_BLOCKS_KEPT_MAX: Final = 100
"""Enough to look into by hand; `wakelog log verify` lists all."""


class SumWriter:
    """Sums what has become durable, a piece at a time, in log order. One owner, one thread."""

    def __init__(self, fs: FileSystem, config: StoreConfig) -> None:
        """Read nothing yet."""
        self._fs = fs
        self._paths = config.paths
        self._blocks = blocks_of(config.commit_log_file_bytes)
        self._files = commit_log_files(fs, config, read_only=True)
        self._begin = -1
        self._segment: MappedFile | None = None
        self._sectors: list[list[int]] = []
        self.summed_bytes = 0

    def step(self, watermark: int, bytes_max: int) -> int:
        """Sum up to `bytes_max` bytes below the watermark; return how many, 0 if none is left.

        Raises: StoreFailed, StoreFull.
        """
        self._follow()
        while (segment := self._segment) is not None and segment.start_offset < watermark:
            number = None if segment.is_missing else self._first_unfinished()
            if number is not None:
                return self._sum(segment, number, watermark, bytes_max)
            following = self._files.find(segment.end_offset)
            if following is None:
                break
            self._load(following)
        return 0

    def close(self) -> None:
        """Close the log's files."""
        self._files.close()

    def _follow(self) -> None:
        """List the segments again; remove the sums of those that retention removed."""
        self._files.refresh()
        begin = self._files.min_offset
        if begin != self._begin:
            self._begin = begin
            for name in sum_names(self._fs, self._paths):
                if int(name) < begin:
                    remove_sums(self._fs, join(self._paths.sums_directory, name))
        if self._segment is None or self._segment.start_offset < begin:
            self._load(self._files.find(begin))

    def _load(self, segment: MappedFile | None) -> None:
        """Continue with a segment, after the sums that it has."""
        self._segment = segment
        if segment is not None:
            path = self._path_of(segment)
            self._sectors = read_sectors(self._fs, path, self._blocks.sectors_count)

    def _first_unfinished(self) -> int | None:
        """Return the number of the first sector with a block without a sum, None if all have."""
        for number, sums in enumerate(self._sectors):
            if len(sums) < min(SECTOR_SUMS, self._blocks.blocks_count - number * SECTOR_SUMS):
                return number
        return None

    def _sum(self, segment: MappedFile, number: int, watermark: int, bytes_max: int) -> int:
        """Add to the sums of a sector; return how many bytes, 0 if no block is durable."""
        sums, first = list(self._sectors[number]), number * SECTOR_SUMS
        blocks_count = min(SECTOR_SUMS, self._blocks.blocks_count - first)
        begin = (first + len(sums)) * self._blocks.block_bytes
        summed_bytes = 0
        while len(sums) < blocks_count and summed_bytes < bytes_max:
            length = min(self._blocks.block_bytes, segment.size_bytes - begin)
            if segment.start_offset + begin + length > watermark:
                break
            data = segment.read(begin, length)
            if len(data) < length:
                break  # removed meanwhile, and cut to free its space
            sums.append(crc32(data))
            begin += length
            summed_bytes += length
        if summed_bytes:
            directory = self._paths.sums_directory
            if not self._fs.exists(directory):
                with store_errors(directory, "make"):
                    self._fs.make_directories(directory, [])
            write_sectors(self._fs, self._path_of(segment), {number: sums})
            self._sectors[number] = sums
        self.summed_bytes += summed_bytes
        return summed_bytes

    def _path_of(self, segment: MappedFile) -> str:
        return join(self._paths.sums_directory, basename(segment.path))


class ChangedBlock(NamedTuple):
    """Bytes [begin, end) of the log that differ from what was durable there."""

    begin: int
    end: int


ComparedBlock = ChangedBlock | int
"""A changed block, or the length of one that agrees with its sum."""


def compare_sums(fs: FileSystem, config: StoreConfig) -> Iterator[ComparedBlock]:
    """Compare every block that has a sum, in log order; skip a segment that is removed meanwhile.

    Raises: StoreFailed.
    """
    named = set(sum_names(fs, config.paths))
    files = commit_log_files(fs, config, read_only=True)
    files.refresh()
    try:
        for segment in files.files:
            name = basename(segment.path)
            if name in named and not segment.is_missing:
                path = join(config.paths.sums_directory, name)
                yield from compare_segment(fs, segment, path)
    finally:
        files.close()


def compare_segment(
    fs: FileSystem,
    segment: MappedFile,
    sums_path: str,
    begin: int = 0,
    end: int = LONG_MAX,
) -> Iterator[ComparedBlock]:
    """Compare the blocks with a sum that begin in [begin, end); end early if it is removed.

    Raises: StoreFailed.
    """
    block_bytes, _, sectors_count = blocks_of(segment.size_bytes)
    sectors = read_sectors(fs, sums_path, sectors_count)
    try:
        for number, sums in enumerate(sectors):
            for index, expected in enumerate(sums):
                position = (number * SECTOR_SUMS + index) * block_bytes
                length = min(block_bytes, segment.size_bytes - position)
                start = segment.start_offset + position
                if length <= 0:
                    return
                if begin <= start < end:
                    data = segment.read(position, length)
                    if len(data) < length:
                        return  # removed meanwhile, and cut to free its space
                    yield length if crc32(data) == expected else ChangedBlock(start, start + length)
    except StoreFailed as error:
        if not isinstance(error.cause, FileNotFoundError):
            raise
    finally:
        segment.release()  # a slow round must not keep removed segments open


class SumStatistics(NamedTuple):
    """Counters; `changed_blocks_count` counts a place once, however often it was seen."""

    summed_bytes: int
    compared_bytes: int
    compare_rounds_count: int
    changed_blocks_count: int
    sum_failures_count: int


class SumKeeper:
    """Sums and compares the log of one store. One owner, one thread."""

    def __init__(self, fs: FileSystem, config: StoreConfig) -> None:
        """Read nothing yet."""
        self._fs = fs
        self._bytes_per_second = config.scrub_bytes_per_second
        self._config = config
        self._writer = SumWriter(fs, config)
        self._round: Iterator[ComparedBlock] | None = None
        self._compare_at_ms = 0
        self._compared_bytes = self._rounds_count = self._failures_count = 0
        self._changed: set[ChangedBlock] = set()
        self.news: deque[str] = deque(maxlen=CHANGED_BLOCKS_KEPT_MAX)

    def step(self, now_ms: int) -> int:
        """Do one piece of work; return the milliseconds until the next.

        `news` gets a line for each new changed block and for each failure.
        """
        try:
            mark = read_mark(self._fs, self._config.paths.watermark)
            if self._writer.step(mark.physical_offset, SUM_BYTES):
                return SUM_PAUSE_MS
            if self._bytes_per_second and now_ms >= self._compare_at_ms:
                self._compare(now_ms)
        except StoreError as error:
            self._failures_count += 1
            self.news.append(f"sums: {error}")
            return FAILED_PAUSE_MS
        if not self._bytes_per_second:
            return IDLE_PAUSE_MS
        return max(1, min(IDLE_PAUSE_MS, self._compare_at_ms - now_ms))

    def statistics(self) -> SumStatistics:
        """Return counters; for any thread."""
        return SumStatistics(
            summed_bytes=self._writer.summed_bytes,
            compared_bytes=self._compared_bytes,
            compare_rounds_count=self._rounds_count,
            changed_blocks_count=len(self._changed),
            sum_failures_count=self._failures_count,
        )

    def close(self) -> None:
        """Close the log's files."""
        self._writer.close()

    def _compare(self, now_ms: int) -> None:
        """Compare a piece of the present round; after a failure the next call begins a new one."""
        compared = self._round or compare_sums(self._fs, self._config)
        self._round = None
        found, compared_bytes = [], 0
        for block in compared:
            if isinstance(block, ChangedBlock):
                found.append(block)
                compared_bytes += block.end - block.begin
            else:
                compared_bytes += block
            if compared_bytes >= COMPARE_BYTES:
                self._round = compared
                break
        self._compared_bytes += compared_bytes
        pause_ms = max(compared_bytes * 1000 // self._bytes_per_second, 1)
        if self._round is None:
            self._rounds_count += 1
            pause_ms = max(pause_ms, ROUND_PAUSE_MS)
        self._compare_at_ms = now_ms + pause_ms
        for block in found:
            if block not in self._changed and len(self._changed) < CHANGED_BLOCKS_KEPT_MAX:
                self._changed.add(block)
                self.news.append(
                    f"the log differs from what was durable in [{block.begin}, {block.end}): "
                    "`wakelog log verify` says which messages that concerns"
                )
