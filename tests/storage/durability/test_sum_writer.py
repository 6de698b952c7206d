"""Sums follow the watermark, and what a crash left is completed."""

from __future__ import annotations

import errno
from zlib import crc32

import pytest

from tests.fakes.logs import SEGMENT_BYTES, read_file
from tests.storage.durability.summed_segments import (
    BLOCK_BYTES,
    CONFIG,
    cover_up_to,
    segment_path,
    segments,
    sum_path,
)
from wakelog.storage.durability.sum_file import SECTOR_BYTES, read_sectors
from wakelog.storage.durability.sum_keeper import SumWriter
from wakelog.storage.errors import StoreFull


def test_a_sum_is_the_crc_of_its_block() -> None:
    fs = segments(1)
    assert cover_up_to(fs, SEGMENT_BYTES) == SEGMENT_BYTES
    data = read_file(fs, segment_path(0))
    expected = [crc32(data[i : i + BLOCK_BYTES]) for i in range(0, SEGMENT_BYTES, BLOCK_BYTES)]
    assert read_sectors(fs, sum_path(0), 1) == [expected]


@pytest.mark.parametrize(
    ("watermark", "blocks"),
    [
        (0, 0),
        (BLOCK_BYTES - 1, 0),
        (BLOCK_BYTES, 1),
        (SEGMENT_BYTES - 1, 31),
        (SEGMENT_BYTES + 2 * BLOCK_BYTES + 5, 34),
        (9 * SEGMENT_BYTES, 64),
    ],
)
def test_only_blocks_wholly_below_the_watermark_have_one(watermark: int, blocks: int) -> None:
    assert cover_up_to(segments(2), watermark) == blocks * BLOCK_BYTES


def test_it_goes_on_where_it_was_and_as_the_log_grows() -> None:
    fs = segments(2)
    writer = SumWriter(fs, CONFIG)
    assert writer.step(5 * BLOCK_BYTES, 2 * BLOCK_BYTES) == 2 * BLOCK_BYTES
    assert writer.step(5 * BLOCK_BYTES, 9 * BLOCK_BYTES) == 3 * BLOCK_BYTES
    assert writer.step(5 * BLOCK_BYTES, 9 * BLOCK_BYTES) == 0
    assert writer.step(6 * BLOCK_BYTES, 9 * BLOCK_BYTES) == BLOCK_BYTES
    assert cover_up_to(fs, 2 * SEGMENT_BYTES) == 2 * SEGMENT_BYTES - 6 * BLOCK_BYTES


def test_a_torn_sector_is_summed_again() -> None:
    fs = segments(2)
    cover_up_to(fs, 2 * SEGMENT_BYTES)
    fd = fs.open(sum_path(0))
    fs.pwrite(fd, b"torn", SECTOR_BYTES - 4)
    assert cover_up_to(fs, 2 * SEGMENT_BYTES) == SEGMENT_BYTES


def test_a_missing_segment_gets_no_sums_and_keeps_those_it_has() -> None:
    fs = segments(4)
    cover_up_to(fs, 2 * SEGMENT_BYTES)
    kept = read_file(fs, sum_path(1))
    fs.unlink(segment_path(1))
    fs.unlink(segment_path(2))
    assert cover_up_to(fs, 4 * SEGMENT_BYTES) == SEGMENT_BYTES
    assert read_file(fs, sum_path(1)) == kept
    assert not fs.exists(sum_path(2))
    assert sum(map(len, read_sectors(fs, sum_path(3), 1))) == SEGMENT_BYTES // BLOCK_BYTES


def test_sums_go_with_their_segments() -> None:
    fs = segments(3)
    cover_up_to(fs, 3 * SEGMENT_BYTES)
    writer = SumWriter(fs, CONFIG)
    writer.step(3 * SEGMENT_BYTES, 1)
    fs.unlink(segment_path(0))
    fs.unlink(segment_path(1))
    assert writer.step(3 * SEGMENT_BYTES, 1) == 0
    assert fs.list_directory("/store/wakelog.crc") == [sum_path(2).rpartition("/")[2]]


def test_a_full_disk_is_an_error_and_the_block_is_summed_later() -> None:
    fs = segments(1)
    writer = SumWriter(fs, CONFIG)
    fs.fail("pwrite", number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        writer.step(SEGMENT_BYTES, SEGMENT_BYTES)
    assert writer.step(SEGMENT_BYTES, SEGMENT_BYTES) == SEGMENT_BYTES
