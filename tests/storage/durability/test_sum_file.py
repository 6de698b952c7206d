"""A sector counts as a whole or not at all; sums above a cut are removed first."""

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.logs import SEGMENT_BYTES, read_file
from tests.storage.durability.summed_segments import (
    BLOCK_BYTES,
    CONFIG,
    cover_up_to,
    segment_path,
    segments,
    sum_path,
)
from wakelog.storage.durability.sum_file import (
    SECTOR_BYTES,
    SECTOR_SUMS,
    blocks_of,
    decode_sector,
    drop_sums_from,
    drop_sums_of_changed,
    encode_sector,
    read_sectors,
    sum_names,
)
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.paths import StorePaths


@given(st.lists(st.integers(0, 0xFFFFFFFF), max_size=SECTOR_SUMS))
def test_a_sector_comes_back(sums: list[int]) -> None:
    sector = encode_sector(sums)
    assert len(sector) == SECTOR_BYTES
    assert decode_sector(sector) == sums


@given(st.integers(0, 8 * SECTOR_BYTES - 1))
def test_a_sector_with_a_changed_bit_says_nothing(bit: int) -> None:
    sector = bytearray(encode_sector([7] * 100))
    sector[bit // 8] ^= 1 << bit % 8
    assert decode_sector(bytes(sector)) == []


def test_what_was_never_written_says_nothing() -> None:
    assert decode_sector(bytes(SECTOR_BYTES)) == decode_sector(b"") == []


@pytest.mark.parametrize(
    ("segment_bytes", "expected"),
    [
        (1 << 30, (64 << 10, 16384, 131)),
        ((1 << 30) - 1, (64 << 10, 16384, 131)),
        (4096, (128, 32, 1)),
        (1024, (32, 32, 1)),
        (1100, (34, 33, 1)),
    ],
)
def test_blocks(segment_bytes: int, expected: tuple[int, int, int]) -> None:
    assert blocks_of(segment_bytes) == expected


def test_of_a_file_that_is_too_long_no_more_is_read_than_a_segment_needs() -> None:
    fs = segments(1)
    cover_up_to(fs, SEGMENT_BYTES)
    fd = fs.open(sum_path(0))
    fs.truncate(fd, 1 << 20)
    assert [len(sums) for sums in read_sectors(fs, sum_path(0), 1)] == [32]


def test_other_names_are_not_taken_for_segments() -> None:
    fs = segments(1)
    cover_up_to(fs, SEGMENT_BYTES)
    fs.close(fs.open("/store/wakelog.crc/notes.txt", create=True))
    assert sum_names(fs, CONFIG.paths) == ["0" * 20]


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ("0" * 20)).touch()
    paths = StorePaths(str(tmp_path / "store"))
    (tmp_path / "store").mkdir()
    assert sum_names(FileSystem(), paths) == []
    Path(paths.sums_directory).symlink_to(elsewhere)
    assert sum_names(FileSystem(), paths) == []
    drop_sums_from(FileSystem(), paths, 0, SEGMENT_BYTES)
    assert len(list(elsewhere.iterdir())) == 1


@pytest.mark.parametrize("begun_blocks", [0, 1, 5, 31, 32, 33, 64, 90])
@pytest.mark.parametrize("more_bytes", [0, 1])
def test_a_cut_forgets_what_reaches_above_it(begun_blocks: int, more_bytes: int) -> None:
    fs = segments(3)
    cover_up_to(fs, 3 * SEGMENT_BYTES)
    cut = begun_blocks * BLOCK_BYTES + more_bytes
    drop_sums_from(fs, CONFIG.paths, cut, SEGMENT_BYTES)
    kept = sum(len(sums) for number in range(3) for sums in read_sectors(fs, sum_path(number), 1))
    assert kept == begun_blocks


def test_a_cut_above_all_sums_writes_nothing() -> None:
    fs = segments(2)
    cover_up_to(fs, SEGMENT_BYTES + 3 * BLOCK_BYTES)
    fs.calls.clear()
    drop_sums_from(fs, CONFIG.paths, SEGMENT_BYTES + 3 * BLOCK_BYTES, SEGMENT_BYTES)
    assert fs.calls["pwrite"] == fs.calls["unlink"] == fs.calls["datasync"] == 0


def test_a_cut_is_forgotten_durably() -> None:
    fs = segments(2)
    cover_up_to(fs, 2 * SEGMENT_BYTES)
    fs.calls.clear()
    drop_sums_from(fs, CONFIG.paths, BLOCK_BYTES, SEGMENT_BYTES)
    assert (fs.calls["datasync"], fs.calls["sync_directory"]) == (1, 1)
    fs.fail("sync_directory", number=errno.EIO)
    cover_up_to(fs, 2 * SEGMENT_BYTES)
    with pytest.raises(StoreFailed):
        drop_sums_from(fs, CONFIG.paths, 0, SEGMENT_BYTES)


def test_another_brokers_segments_lose_their_sums() -> None:
    fs = segments(6)
    cover_up_to(fs, 6 * SEGMENT_BYTES)
    fs.set_modified_ms(segment_path(1), 1)
    fs.unlink(segment_path(0))
    files = commit_log_files(fs, CONFIG)
    files.load()
    before = read_file(fs, sum_path(2))
    fs.calls.clear()
    drop_sums_of_changed(fs, CONFIG.paths, files)
    assert (fs.calls["unlink"], fs.calls["sync_directory"]) == (5, 1)
    assert sum_names(fs, CONFIG.paths) == [sum_path(2).rpartition("/")[2]]
    assert read_file(fs, sum_path(2)) == before
