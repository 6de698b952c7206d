"""Where the parts of a sound record lie; which records are sound is in test_record_walk.py."""

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.records import STORE_MS, record
from wakelog.storage.kernels.compilation import making
from wakelog.storage.kernels.entry_kernel import put_i32, put_i64
from wakelog.storage.kernels.integers import byte_at, i32_at, i64_at, same_bytes, u32_at, word_at
from wakelog.storage.kernels.layout import (
    NUMBER_FIELDS,
    PARTS_COUNT,
    PREPARED_OFFSET,
    PROPERTIES_BEGIN,
    STORE_TIMESTAMP,
    TOPIC_BEGIN,
)
from wakelog.storage.kernels.record_kernel import copy_numbers, hosts_extra_bytes, sound_size


@making
def numbers_of(buffer: Any) -> Any:
    parts = np.zeros(PARTS_COUNT, dtype=np.int64)
    numbers = np.zeros((1, NUMBER_FIELDS), dtype=np.int64)
    size = sound_size(buffer, 0, len(buffer), 0, parts)
    copy_numbers(buffer, 0, size, parts, numbers, 0)
    return numbers[0]


@pytest.mark.parametrize("born_host", ["1.2.3.4", "::1"])
@pytest.mark.parametrize("store_host", ["1.2.3.4", "::1"])
def test_v6_hosts_move_the_fields_after_them(born_host: str, store_host: str) -> None:
    data = record(
        0,
        b"PROPERTIES",
        topic="TOPIC",
        born_host=(born_host, 1),
        store_host=(store_host, 2),
        prepared_transaction_offset=77,
    )
    numbers = numbers_of(np.frombuffer(bytearray(data), dtype=np.uint8))
    assert (numbers[STORE_TIMESTAMP], numbers[PREPARED_OFFSET]) == (STORE_MS, 77)
    assert numbers[TOPIC_BEGIN] == data.index(b"TOPIC")
    assert numbers[PROPERTIES_BEGIN] == data.index(b"PROPERTIES")


def test_each_v6_host_adds_twelve_bytes() -> None:
    assert [hosts_extra_bytes(flags) for flags in (0, 0x10, 0x20, 0x3F)] == [0, 12, 12, 24]


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
