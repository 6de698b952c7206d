"""Integers and equal bytes at any place of a buffer, up to its end."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wakelog.storage.kernels.integers import byte_at, i32_at, i64_at, same_bytes, u32_at, word_at


@given(st.binary(min_size=9, max_size=20), st.data())
def test_integers_are_what_python_reads(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data) - 8))
    buffer = np.frombuffer(data, dtype=np.uint8)
    assert byte_at(buffer, at) == data[at]
    assert u32_at(buffer, at) == int.from_bytes(data[at : at + 4])
    assert i32_at(buffer, at) == int.from_bytes(data[at : at + 4], signed=True)
    assert i64_at(buffer, at) == int.from_bytes(data[at : at + 8], signed=True)
    assert int(word_at(buffer, at)) % (1 << 64) == int.from_bytes(data[at : at + 8], "little")


@given(st.binary(min_size=1, max_size=40), st.data())
def test_bytes_are_the_same_or_differ_in_one(data: bytes, draw: st.DataObject) -> None:
    begin = draw.draw(st.integers(0, len(data) - 1))
    at = draw.draw(st.integers(begin, len(data) - 1))
    length = len(data) - begin
    one = np.frombuffer(data, dtype=np.uint8)
    other = np.frombuffer(b"xyz" + data[begin:], dtype=np.uint8).copy()
    assert same_bytes(one, begin, other, 3, length)
    other[3 + at - begin] ^= 1 << draw.draw(st.integers(0, 7))
    assert not same_bytes(one, begin, other, 3, length)
