"""The sums of one segment, `wakelog.crc/<segment>`: a CRC-32 for each block that is durable.

A record's own CRC covers its body alone. A changed byte in a topic, a property or a queue offset
looks like another message; these sums show it. A block is 64 KiB, in segments below 2 MiB a 32nd
part of the segment. The last one may be shorter.

A file consists of sectors of 512 bytes, each for the next 126 blocks of the segment. A sector has a
CRC-32 of the rest, the number of blocks with a sum, and the sums (docs/formats/sums.md). The file
is not synced when it is written, and a sector is one write. A sector that a crash tore or lost has
a wrong CRC and counts as empty; its blocks are summed again.

Invariants:
- A block has a sum only when all of it is below the durable watermark, where nothing is written.
- Before the log is cut the sums above the cut are removed durably (`drop_sums_from`).

Source: none upstream.
"""

import struct
from collections.abc import Mapping, Sequence
from posixpath import basename, join
from typing import Final, NamedTuple
from zlib import crc32

from wakelog.storage.errors import store_errors
from wakelog.storage.file_system import FileSystem, names_in, opened, read_file
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.paths import StorePaths, parse_offset_name

BLOCK_BYTES_MAX: Final = 64 << 10
BLOCKS_MIN: Final = 32
REWRITTEN_SEGMENTS: Final = 3
"""A recovery of 4.9.3 checks, and may cut, this many at the end."""
SECTOR_BYTES: Final = 512
SECTOR_SUMS: Final = 126

_SECTOR: Final = struct.Struct(f">I{SECTOR_SUMS}I")
_CRC: Final = struct.Struct(">I")

assert _CRC.size + _SECTOR.size == SECTOR_BYTES


class Blocks(NamedTuple):
    """How a segment is divided into blocks and sectors."""

    block_bytes: int
    blocks_count: int
    sectors_count: int


def blocks_of(segment_bytes: int) -> Blocks:
    """Return the blocks of a segment of a given length."""
    block_bytes = max(1, min(BLOCK_BYTES_MAX, segment_bytes // BLOCKS_MIN))
    count = -(-segment_bytes // block_bytes)
    return Blocks(block_bytes, count, -(-count // SECTOR_SUMS))


def encode_sector(sums: Sequence[int]) -> bytes:
    """Build a sector of up to SECTOR_SUMS sums."""
    data = _SECTOR.pack(len(sums), *sums, *[0] * (SECTOR_SUMS - len(sums)))
    return _CRC.pack(crc32(data)) + data


def decode_sector(sector: bytes) -> list[int]:
    """Return the sums of a sector, none if it is torn, short or was never written."""
    if len(sector) < SECTOR_BYTES or _CRC.unpack_from(sector)[0] != crc32(sector[_CRC.size :]):
        return []
    count, *sums = _SECTOR.unpack_from(sector, _CRC.size)
    return sums[: min(count, SECTOR_SUMS)]


def read_sectors(fs: FileSystem, path: str, sectors_count: int) -> list[list[int]]:
    """Return the sums of a file's sectors, empty where there are none. Raises: StoreFailed."""
    data = read_file(fs, path, sectors_count * SECTOR_BYTES) or b""
    starts = range(0, sectors_count * SECTOR_BYTES, SECTOR_BYTES)
    return [decode_sector(data[start : start + SECTOR_BYTES]) for start in starts]


def write_sectors(
    fs: FileSystem, path: str, sectors: Mapping[int, Sequence[int]], *, durable: bool = False
) -> None:
    """Write sectors by their numbers. Raises: StoreFailed, StoreFull."""
    with store_errors(path, "write"), opened(fs, path, create=True) as fd:
        for number, sums in sectors.items():
            fs.pwrite(fd, encode_sector(sums), number * SECTOR_BYTES)
        if durable:
            fs.datasync(fd)


def sum_names(fs: FileSystem, paths: StorePaths) -> list[str]:
    """Return the names of segments with sums, in order; none through a link.

    Raises: StoreFailed.
    """
    directory = paths.sums_directory
    with store_errors(directory, "list"):
        if fs.read_link(directory) is not None:
            return []
    return [name for name in names_in(fs, directory) if parse_offset_name(name) is not None]


def drop_sums_from(
    fs: FileSystem, paths: StorePaths, physical_offset: int, segment_bytes: int
) -> None:
    """Remove durably the sums of every block that reaches above an offset, before the log's cut.

    Raises: StoreFailed, StoreFull.
    """
    blocks = blocks_of(segment_bytes)
    removed = []
    for name in sum_names(fs, paths):
        start = int(name)
        if start >= physical_offset:
            removed.append(name)
        elif start + segment_bytes > physical_offset:
            kept = (physical_offset - start) // blocks.block_bytes
            _cut(fs, join(paths.sums_directory, name), blocks.sectors_count, kept)
    _remove_durably(fs, paths, removed)


def drop_sums_of_changed(fs: FileSystem, paths: StorePaths, files: MappedFileQueue) -> None:
    """Remove durably the sums of segments that another broker may have written.

    These are segments modified since they were summed, and the last ones, whose times a crash may
    have lost. Sums of segments that do not exist go too. Raises: StoreFailed.
    """
    segments = {basename(file.path): file for file in files.files[:-REWRITTEN_SEGMENTS]}
    removed = []
    for name in sum_names(fs, paths):
        path, segment = join(paths.sums_directory, name), segments.get(name)
        with store_errors(path, "stat"):
            if segment is None or segment.modified_ms() > fs.modified_ms(path):
                removed.append(name)
    _remove_durably(fs, paths, removed)


def _cut(fs: FileSystem, path: str, sectors_count: int, kept: int) -> None:
    """Keep the first sums of one file."""
    sectors = read_sectors(fs, path, sectors_count)
    kept_counts = [max(kept - number * SECTOR_SUMS, 0) for number in range(sectors_count)]
    changed = {
        number: sums[:count]
        for number, (sums, count) in enumerate(zip(sectors, kept_counts, strict=True))
        if len(sums) > count
    }
    if changed:
        write_sectors(fs, path, changed, durable=True)


def remove_sums(fs: FileSystem, path: str) -> None:
    """Remove the sums of one segment, not durably. Raises: StoreFailed."""
    with store_errors(path, "remove"):
        fs.unlink(path)


def _remove_durably(fs: FileSystem, paths: StorePaths, names: Sequence[str]) -> None:
    for name in names:
        remove_sums(fs, join(paths.sums_directory, name))
    if names:
        with store_errors(paths.sums_directory, "sync"):
            fs.sync_directory(paths.sums_directory)
