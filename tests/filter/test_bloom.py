"""Bits of names: sizes, positions, bitmaps."""

import pytest

from tests.filter.bits import bitmap_of
from wakelog.filter.bloom import BloomFilter, BloomPositions, murmur3_low_half

# consumerFilter.json of the golden store filter_ext, written by a real broker.
GOLDEN_POSITIONS = {
    "sql_g1#FilterTopic": (97, 37, 60),
    "sql_g2#FilterTopic": (47, 36, 23),
    "sql_g3#FilterTopic": (48, 93, 26),
}


def test_the_default_filter_makes_the_positions_that_a_real_broker_wrote() -> None:
    bloom = BloomFilter(error_percent=20, names_count=32)
    assert (bloom.hash_count, bloom.bit_count) == (3, 112)
    assert {name: bloom.positions(name).bits for name in GOLDEN_POSITIONS} == GOLDEN_POSITIONS


def test_a_bitmap_holds_what_was_put_in() -> None:
    bloom = BloomFilter(error_percent=20, names_count=32)
    names = [bloom.positions(name) for name in GOLDEN_POSITIONS]
    bitmap = bitmap_of(names[:2])
    assert len(bitmap) == 14
    assert [bloom.may_hold(bitmap, positions) for positions in names] == [True, True, False]
    assert bitmap_of([]) == bytes(14)
    assert bitmap_of([BloomPositions((0, 9, 111), 112)]) == b"\x01\x02" + bytes(11) + b"\x80"


def test_positions_of_another_filter_are_recognised() -> None:
    bloom = BloomFilter(error_percent=20, names_count=32)
    assert bloom.made(bloom.positions("g#t"))
    assert not bloom.made(BloomFilter(error_percent=20, names_count=64).positions("g#t"))
    assert not bloom.made(BloomPositions((1, 2), 112))
    assert not bloom.made(None)


@pytest.mark.parametrize(("error_percent", "names_count"), [(0, 1), (100, 1), (20, 0)])
def test_sizes_that_make_no_filter_are_refused(error_percent: int, names_count: int) -> None:
    with pytest.raises(ValueError, match="error rate"):
        BloomFilter(error_percent=error_percent, names_count=names_count)


def test_the_hash_of_nothing_is_zero() -> None:
    assert murmur3_low_half(b"") == 0
