"""A log of segments with known bytes, for tests of its sums."""

from tests.fakes.logs import SEGMENT_BYTES, small_config, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.durability.sum_file import blocks_of
from wakelog.storage.durability.sum_keeper import SumWriter
from wakelog.storage.paths import offset_name

CONFIG = small_config()
BLOCK_BYTES = blocks_of(SEGMENT_BYTES).block_bytes


def segments(count: int) -> MemoryFileSystem:
    """Return a disk with so many segments, no two blocks of which are alike."""
    fs = MemoryFileSystem()
    for number in range(count):
        data = b"".join(i.to_bytes(4, "big") for i in range(SEGMENT_BYTES // 4))
        write_file(fs, segment_path(number), bytes([number]) + data[1:])
    return fs


def segment_path(number: int) -> str:
    """Return where a segment lies."""
    return f"/store/commitlog/{offset_name(number * SEGMENT_BYTES)}"


def sum_path(number: int) -> str:
    """Return where its sums lie."""
    return f"/store/wakelog.crc/{offset_name(number * SEGMENT_BYTES)}"


def cover_up_to(fs: MemoryFileSystem, watermark: int) -> int:
    """Sum all that is durable; return how many bytes that were."""
    writer = SumWriter(fs, CONFIG)
    while writer.step(watermark, SEGMENT_BYTES):
        pass
    writer.close()
    return writer.summed_bytes


def change(fs: MemoryFileSystem, physical_offset: int) -> None:
    """Change one byte of the log."""
    fd = fs.open(segment_path(physical_offset // SEGMENT_BYTES))
    position = physical_offset % SEGMENT_BYTES
    (byte,) = fs.pread(fd, 1, position)
    fs.pwrite(fd, bytes([byte ^ 1]), position)
    fs.close(fd)
