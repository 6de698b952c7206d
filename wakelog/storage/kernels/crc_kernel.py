"""The CRC-32 of record bodies in compiled code, equal to `protocol.record.body_crc`.

There are two ways to the same result. Tables take sixteen bytes a step, on any processor. If the
processor has carry-less multiplication, bodies from 64 bytes on are folded first, and the tables
finish the rest. zlib has a tenth of that speed, and holds the interpreter's lock for usual bodies.

Invariants: no byte outside of [begin, end) is read.

Source: java.util.zip.CRC32; for folding see `instructions.py`.
"""

from typing import Any, Final

import numpy as np

from wakelog.protocol.record import BODY_CRC_OFFSET, HEAD_BYTES_V4
from wakelog.storage.kernels import layout
from wakelog.storage.kernels.compilation import inlined, kernel
from wakelog.storage.kernels.instructions import BLOCK_BYTES, CAN_FOLD, LANE_BYTES, fold_blocks
from wakelog.storage.kernels.integers import Array, Int, byte_at, i32_at, word_at
from wakelog.storage.kernels.record_kernel import hosts_extra_bytes

_POLYNOMIAL_REVERSED: Final = 0xEDB88320
_INT32_MASK: Final = 0xFFFFFFFF
CRC_MASK: Final = 0x7FFFFFFF  # a record keeps 31 bits


def _tables() -> Array:
    tables = np.zeros((LANE_BYTES, 256), dtype=np.uint32)
    for value in range(256):
        crc = value
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL_REVERSED if crc & 1 else 0)
        tables[0, value] = crc
    for step in range(1, LANE_BYTES):
        before = tables[step - 1]
        tables[step] = (before >> 8) ^ tables[0][before & 0xFF]
    return tables


_TABLES: Final = _tables()


@inlined
def _table(step: Int, value: Int) -> Int:
    return np.int64(_TABLES[np.uintp(step), np.uintp(value & 0xFF)])


@inlined
def _word(step: Int, word: Int) -> Int:
    """Look up the four bytes of a word; the first byte is `step` bytes before the end."""
    return (
        _table(step, word)
        ^ _table(step - 1, word >> 8)
        ^ _table(step - 2, word >> 16)
        ^ _table(step - 3, word >> 24)
    )


@inlined
def _sixteen(low: Int, high: Int) -> Int:
    """Return the CRC of two little-endian longs, into the first of which the old CRC is xored."""
    return _word(15, low) ^ _word(11, low >> 32) ^ _word(7, high) ^ _word(3, high >> 32)


@inlined
def _continue(buffer: Array, begin: Int, end: Int, crc: Int) -> Int:
    """Continue an inverted CRC with bytes [begin, end), by tables."""
    at = begin
    while at + LANE_BYTES <= end:
        crc = _sixteen(word_at(buffer, at) ^ crc, word_at(buffer, at + 8))
        at += LANE_BYTES
    while at < end:
        crc = _table(0, crc ^ byte_at(buffer, at)) ^ (crc >> 8)
        at += 1
    return crc


@inlined
def crc_by_tables(buffer: Array, begin: Int, end: Int) -> Int:
    """Return the CRC-32 of bytes [begin, end)."""
    return _continue(buffer, begin, end, _INT32_MASK) ^ _INT32_MASK


@inlined
def crc_by_folding(buffer: Array, begin: Int, end: Int) -> Int:
    """Return the CRC-32 of bytes [begin, end); only if CAN_FOLD."""
    crc: Int = np.int64(_INT32_MASK)
    blocks = (end - begin) // BLOCK_BYTES
    if blocks > 0:
        low, high = fold_blocks(buffer, begin, blocks, np.uint64(crc))
        crc = _sixteen(np.int64(low), np.int64(high))
    return _continue(buffer, begin + blocks * BLOCK_BYTES, end, crc) ^ _INT32_MASK


crc_of: Any = crc_by_folding if CAN_FOLD else crc_by_tables


@kernel
def crc_of_all(buffer: Array) -> Int:
    """Return the CRC-32 of all bytes."""
    return crc_of(buffer, 0, len(buffer))


@kernel
def check_bodies(buffer: Array, numbers: Array, first: Int, count: Int, damaged: Array) -> Int:
    """Return how many records of [first, count) have a body with another CRC than they state.

    numbers: from a scan of that buffer, or some rows of them.
    damaged: int32, gets their rows.
    """
    damaged_count = 0
    for row in range(first, count):
        record_end = numbers[row, layout.PROPERTIES_BEGIN] + numbers[row, layout.PROPERTIES_BYTES]
        head = record_end - numbers[row, layout.SIZE]
        body_begin = head + HEAD_BYTES_V4 + hosts_extra_bytes(numbers[row, layout.SYS_FLAG])
        body_end = numbers[row, layout.TOPIC_BEGIN] - 1
        if body_end > body_begin:
            crc = crc_of(buffer, body_begin, body_end) & CRC_MASK
            if crc != i32_at(buffer, head + BODY_CRC_OFFSET):
                damaged[damaged_count] = row
                damaged_count += 1
    return damaged_count
