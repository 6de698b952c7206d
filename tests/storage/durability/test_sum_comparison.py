"""A changed byte is found in its block, and nothing else is."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.logs import SEGMENT_BYTES
from tests.storage.durability.summed_segments import (
    BLOCK_BYTES,
    CONFIG,
    change,
    cover_up_to,
    segment_path,
    segments,
)
from wakelog.storage.durability.sum_keeper import ChangedBlock, compare_sums


@settings(max_examples=30)
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
