"""The compiled scan at the edges of its arrays; test_columns.py compares what it finds."""

import struct

import numpy as np
import pytest

from tests.fakes.records import properties, record
from wakelog.storage.kernels.kernels import Kernels
from wakelog.storage.kernels.layout import KEY_ROWS, NUMBER_FIELDS, RECORD_KEYS_MAX

RECORD = record(0, properties(UNIQ_KEY="u", KEYS="a b"), body=b"0123456789")
BODY_LENGTH_AT, TOPIC_LENGTH_AT = 84, 98


def scan(kernels: Kernels, data: bytes, *, begin: int = 0) -> tuple[int, int, int]:
    # Arrays that end where the data ends: a read after it would meet other memory.
    records_max = 4
    buffer = np.frombuffer(bytearray(data), dtype=np.uint8)
    firsts = np.zeros(records_max + 1, dtype=np.int32)
    count, key_count, stop, _, _ = kernels.scan_records(
        buffer,
        begin,
        len(data),
        begin,
        np.zeros((records_max, NUMBER_FIELDS), dtype=np.int64),
        np.zeros((KEY_ROWS, 4 * RECORD_KEYS_MAX), dtype=np.int32),
        np.zeros((2, 16), dtype=np.int32),
        firsts,
        buffer,
        firsts,
        0,
        0,
        -1,
    )
    return count, key_count, stop


def test_counts_records_and_keys(kernels: Kernels) -> None:
    assert scan(kernels, RECORD) == (1, 3, len(RECORD))
    both = RECORD + record(len(RECORD))
    assert scan(kernels, both) == (2, 3, len(both))


@pytest.mark.parametrize("length", range(len(RECORD)))
def test_a_cut_record_stops_it_with_nothing_taken(kernels: Kernels, length: int) -> None:
    assert scan(kernels, RECORD[:length]) == (0, 0, 0)


@pytest.mark.parametrize("at", [0, BODY_LENGTH_AT])
@pytest.mark.parametrize("value", [-1, 0, 90, len(RECORD) - 1, len(RECORD) + 1, (1 << 31) - 1])
def test_wrong_lengths_stop_it(kernels: Kernels, at: int, value: int) -> None:
    data = bytearray(RECORD)
    struct.pack_into(">i", data, at, value)
    assert scan(kernels, bytes(data)) == (0, 0, 0)


@pytest.mark.parametrize("value", [0, 2, 127, 128, 255])
def test_wrong_topic_lengths_stop_it(kernels: Kernels, value: int) -> None:
    data = bytearray(RECORD)
    data[TOPIC_LENGTH_AT] = value
    assert scan(kernels, bytes(data)) == (0, 0, 0)
