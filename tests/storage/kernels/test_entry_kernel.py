"""Entries as the kernel writes them: the bytes that struct writes."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.storage.kernels.entry_kernel import put_i32, put_i64


@pytest.mark.parametrize("value", [0, 1, -1, 0x01020304, (1 << 31) - 1, -(1 << 31)])
def test_an_int(value: int) -> None:
    out = np.zeros(6, dtype=np.uint8)
    put_i32(out, 1, value)
    assert out.tobytes() == b"\0" + struct.pack(">i", value) + b"\0"


@pytest.mark.parametrize("value", [0, 1, -1, 0x0102030405060708, (1 << 63) - 1, -(1 << 63)])
def test_a_long(value: int) -> None:
    out = np.zeros(10, dtype=np.uint8)
    put_i64(out, 1, value)
    assert out.tobytes() == b"\0" + struct.pack(">q", value) + b"\0"


@given(value=st.integers(-(1 << 31), (1 << 31) - 1), longer=st.integers(-(1 << 63), (1 << 63) - 1))
def test_any_number(value: int, longer: int) -> None:
    out = np.zeros(12, dtype=np.uint8)
    put_i32(out, 0, value)
    put_i64(out, 4, longer)
    assert out.tobytes() == struct.pack(">iq", value, longer)
