"""Many bytes at once give what they give one by one, compiled or not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from wakelog.storage.kernels.vectors import (
    CHUNK_BYTES,
    HASHED_BYTES,
    bytes_in,
    bytes_in_plain,
    hash_last,
    hash_last_plain,
    lowest_bit,
    lowest_bit_plain,
)


@njit
def hashed(buffer, end, skip):  # type: ignore[no-untyped-def]
    return hash_last(buffer, end, skip)


@njit
def inside(buffer, at, first, last):  # type: ignore[no-untyped-def]
    return bytes_in(buffer, at, first, last)


@njit
def lowest(bits):  # type: ignore[no-untyped-def]
    return lowest_bit(bits)


def java_hash(data: bytes) -> int:
    value = 0
    for byte in data:
        value = (31 * value + byte) % (1 << 32)
    return value


@settings(deadline=None)
@given(st.binary(min_size=HASHED_BYTES, max_size=HASHED_BYTES), st.integers(0, HASHED_BYTES))
def test_sixteen_bytes_of_a_hash(data: bytes, skip: int) -> None:
    buffer = np.frombuffer(data, dtype=np.uint8)
    signs = sum(1 << i for i in range(skip, HASHED_BYTES) if data[i] > 127)
    expected = (java_hash(data[skip:]), signs)
    assert hashed(buffer, HASHED_BYTES, skip) == expected
    assert hash_last_plain(buffer, HASHED_BYTES, skip) == expected


@settings(deadline=None)
@given(st.binary(min_size=CHUNK_BYTES, max_size=CHUNK_BYTES), st.integers(0, 255), st.data())
def test_which_bytes_are_in_a_range(data: bytes, first: int, draw: st.DataObject) -> None:
    last = draw.draw(st.integers(first, 255))
    buffer = np.frombuffer(data, dtype=np.uint8)
    expected = sum(1 << i for i, byte in enumerate(data) if first <= byte <= last)
    assert int(inside(buffer, 0, first, last)) == expected
    assert int(bytes_in_plain(buffer, 0, first, last)) == expected


@pytest.mark.parametrize("bit", [0, 1, 31, 32, 62, 63])
def test_the_lowest_bit(bit: int) -> None:
    bits = np.uint64(1 << bit | 1 << 63)
    assert lowest(bits) == lowest_bit_plain(int(bits)) == bit
