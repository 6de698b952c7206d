"""Entries as the kernel writes them: the bytes that struct writes."""

import struct

import numpy as np
import pytest

from wakelog.storage.bulk.entry_kernel import put_i32, put_i64


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
