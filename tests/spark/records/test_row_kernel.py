"""The compiled loops by themselves, where `test_rows.py` cannot see into them."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from wakelog.spark.records import row_kernel
from wakelog.spark.records.fields import BODY_BEGIN, BODY_CRC, BODY_END, FIELDS


def test_spans_are_gathered_one_behind_the_other() -> None:
    buffer = np.frombuffer("ab€cd".encode(), dtype=np.uint8)
    begins, ends = np.array([5, 0, 2, 1]), np.array([7, 2, 2, 3])
    offsets, out = np.zeros(5, dtype=np.int32), np.zeros(6, dtype=np.uint8)
    seen = row_kernel.gather(buffer, begins, ends, offsets, out)
    assert (out.tobytes(), offsets.tolist()) == (b"cdabb\xe2", [0, 2, 4, 4, 6])
    assert seen & 0x80


@pytest.mark.parametrize("length", range(20))
def test_the_crc_is_zlibs(length: int) -> None:
    body = bytes((i * 37 + length) & 0xFF for i in range(length))
    fields = np.zeros((2, FIELDS), dtype=np.int64)
    fields[:, BODY_BEGIN], fields[:, BODY_END] = 1, 1 + length
    crc = zlib.crc32(body) & 0x7FFFFFFF
    fields[:, BODY_CRC] = crc, crc ^ 0x10
    sound = np.zeros(2, dtype=np.bool_)
    row_kernel.check_bodies(np.frombuffer(b"x" + body, dtype=np.uint8), fields, sound)
    assert sound.tolist() == [True, length == 0]


def test_a_mapped_address_is_written_as_java_takes_it() -> None:
    address = bytes(10) + b"\xff\xff\x01\x02\x03\x04" + (80).to_bytes(4, "big")
    offsets, out = np.zeros(2, dtype=np.int32), np.zeros(56, dtype=np.uint8)
    buffer = np.frombuffer(address, dtype=np.uint8)
    row_kernel.format_hosts(buffer, np.array([0]), np.array([True]), offsets, out)
    assert out[: offsets[1]].tobytes() == b"1.2.3.4:80"
