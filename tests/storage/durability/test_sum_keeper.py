"""Sums follow the watermark, a changed byte is found in its block, and a place is reported once."""

import errno
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.logs import SEGMENT_BYTES, read_file, small_config, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.storage.durability.summed_segments import (
    BLOCK_BYTES,
    CONFIG,
    change,
    cover_up_to,
    segment_path,
    segments,
    sum_path,
)
from wakelog.storage.durability.sum_file import SECTOR_BYTES, read_sectors
from wakelog.storage.durability.sum_keeper import (
    CHANGED_BLOCKS_KEPT_MAX,
    COMPARE_BYTES,
    FAILED_PAUSE_MS,
    IDLE_PAUSE_MS,
    ROUND_PAUSE_MS,
    SUM_PAUSE_MS,
    ChangedBlock,
    SumKeeper,
    SumWriter,
    compare_sums,
)
from wakelog.storage.durability.watermark import Watermark
from wakelog.storage.errors import StoreFull


def durable(fs: MemoryFileSystem, physical_offset: int) -> None:
    watermark = Watermark(fs, CONFIG.paths.watermark)
    watermark.note(physical_offset, 0)
    watermark.close()


def test_it_sums_then_compares_round_after_round() -> None:
    fs = segments(2)
    durable(fs, 2 * SEGMENT_BYTES)
    keeper = SumKeeper(fs, CONFIG)
    assert [keeper.step(0), keeper.step(1)] == [SUM_PAUSE_MS] * 2
    assert keeper.step(2) == IDLE_PAUSE_MS
    assert keeper.statistics() == (2 * SEGMENT_BYTES, 2 * SEGMENT_BYTES, 1, 0, 0)
    assert keeper.step(3) == IDLE_PAUSE_MS
    assert keeper.statistics().compare_rounds_count == 1
    keeper.step(2 + ROUND_PAUSE_MS)
    assert keeper.statistics().compare_rounds_count == 2
    keeper.close()


def test_a_changed_block_is_reported_once() -> None:
    fs = segments(1)
    durable(fs, SEGMENT_BYTES)
    keeper = SumKeeper(fs, CONFIG)
    keeper.step(0)
    change(fs, 200)
    for now_ms in (1, 2 * ROUND_PAUSE_MS):
        keeper.step(now_ms)
    assert keeper.statistics()[2:4] == (2, 1)
    (line,) = keeper.news
    assert "[128, 256)" in line and "wakelog log verify" in line


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_as_many_changed_blocks_are_named_as_are_kept(more: int) -> None:
    fs = segments(4)
    durable(fs, 4 * SEGMENT_BYTES)
    keeper = SumKeeper(fs, CONFIG)
    while keeper.step(0) == SUM_PAUSE_MS:
        pass
    for number in range(CHANGED_BLOCKS_KEPT_MAX + more):
        change(fs, number * BLOCK_BYTES)
    keeper.step(2 * ROUND_PAUSE_MS)
    kept = CHANGED_BLOCKS_KEPT_MAX + min(more, 0)
    assert (keeper.statistics().changed_blocks_count, len(keeper.news)) == (kept, kept)
    assert "[0, 128)" in keeper.news[0], "the first are not pushed out by later ones"


def test_a_round_is_compared_piece_by_piece() -> None:
    segment_bytes = 4 * COMPARE_BYTES
    fs = MemoryFileSystem()
    write_file(fs, segment_path(0), bytes(segment_bytes))
    durable(fs, segment_bytes)
    config = small_config(commit_log_file_bytes=segment_bytes, scrub_bytes_per_second=1 << 30)
    keeper = SumKeeper(fs, config)
    keeper.step(0)
    change(fs, 200)
    for piece in range(1, 5):
        keeper.step(piece * 1000)
        assert keeper.statistics()[1:4] == (piece * COMPARE_BYTES, 0, 1)
    keeper.step(5000)
    assert keeper.statistics()[1:4] == (segment_bytes, 1, 1)


def test_comparing_can_be_turned_off() -> None:
    fs = segments(1)
    durable(fs, SEGMENT_BYTES)
    keeper = SumKeeper(fs, small_config(scrub_bytes_per_second=0))
    assert [keeper.step(0), keeper.step(1)] == [SUM_PAUSE_MS, IDLE_PAUSE_MS]
    assert keeper.statistics()[:2] == (SEGMENT_BYTES, 0)


def test_comparing_keeps_its_rate() -> None:
    fs = segments(1)
    durable(fs, SEGMENT_BYTES)
    keeper = SumKeeper(fs, small_config(scrub_bytes_per_second=SEGMENT_BYTES // 64))
    keeper.step(0)
    keeper.step(1)
    assert keeper.step(ROUND_PAUSE_MS + 1) == IDLE_PAUSE_MS
    assert keeper.statistics().compare_rounds_count == 1
    keeper.step(64_001)
    assert keeper.statistics().compare_rounds_count == 2


def test_a_failure_is_reported_and_tried_again() -> None:
    fs = segments(1)
    durable(fs, SEGMENT_BYTES)
    keeper = SumKeeper(fs, CONFIG)
    fs.fail("pwrite", number=errno.EIO)
    assert keeper.step(0) == FAILED_PAUSE_MS
    assert (len(keeper.news), keeper.statistics().sum_failures_count) == (1, 1)
    assert keeper.step(1) == SUM_PAUSE_MS
    fs.unlink(segment_path(0))
    assert keeper.step(2) > 0


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


def test_a_log_without_segments_has_nothing_to_sum() -> None:
    assert SumWriter(segments(0), CONFIG).step(SEGMENT_BYTES, SEGMENT_BYTES) == 0


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


@given(st.sets(st.integers(0, 2 * SEGMENT_BYTES - 1), max_size=5))
def test_each_changed_byte_is_in_a_reported_block(places: set[int]) -> None:
    fs = segments(2)
    cover_up_to(fs, 2 * SEGMENT_BYTES)
    for place in places:
        change(fs, place)
    compared = list(compare_sums(fs, CONFIG))
    begins = sorted({place - place % BLOCK_BYTES for place in places})
    found = [one for one in compared if isinstance(one, ChangedBlock)]
    assert found == [ChangedBlock(begin, begin + BLOCK_BYTES) for begin in begins]
    sound_bytes = sum(one for one in compared if isinstance(one, int))
    assert sound_bytes == 2 * SEGMENT_BYTES - len(begins) * BLOCK_BYTES


def test_blocks_without_a_sum_are_not_compared() -> None:
    fs = segments(2)
    cover_up_to(fs, BLOCK_BYTES)
    change(fs, BLOCK_BYTES)
    assert list(compare_sums(fs, CONFIG)) == [BLOCK_BYTES]


def test_a_missing_segment_is_not_compared() -> None:
    fs = segments(3)
    cover_up_to(fs, 3 * SEGMENT_BYTES)
    fs.unlink(segment_path(1))
    assert sum(one for one in compare_sums(fs, CONFIG) if isinstance(one, int)) == 2 * SEGMENT_BYTES


def test_a_segment_that_is_removed_meanwhile_is_passed_over() -> None:
    fs = segments(2)
    cover_up_to(fs, 2 * SEGMENT_BYTES)
    compared = compare_sums(fs, CONFIG)
    assert next(compared) == BLOCK_BYTES
    for number in (0, 1):
        fs.unlink(segment_path(number))
    fd = fs.open(segment_path(0), create=True)
    fs.close(fd)
    assert all(isinstance(one, int) for one in compared)


@pytest.mark.parametrize("size_bytes", [1_024, 1_025, 1_055, 4_100, 4_159])
def test_a_segment_of_any_length_is_compared_to_its_end(size_bytes: int) -> None:
    """Its last block may be shorter."""
    fs, config = MemoryFileSystem(), small_config(commit_log_file_bytes=size_bytes)
    write_file(fs, segment_path(0), bytes(size_bytes))
    writer = SumWriter(fs, config)
    while writer.step(size_bytes, size_bytes):
        pass
    assert writer.summed_bytes == size_bytes
    for place in {0, size_bytes // 2, size_bytes - 1}:
        fd = fs.open(segment_path(0))
        fs.pwrite(fd, b"x", place)
        [found] = [one for one in compare_sums(fs, config) if isinstance(one, ChangedBlock)]
        assert found.begin <= place < found.end <= size_bytes
        sound = [one for one in compare_sums(fs, config) if isinstance(one, int)]
        assert sum(sound) == size_bytes - (found.end - found.begin)
        fs.pwrite(fd, b"\0", place)
        fs.close(fd)
