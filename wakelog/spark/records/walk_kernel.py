"""The compiled loops of a walk: which records are sound, of which queue, and which are wanted.

What Reput's scan (`storage/bulk/scan_kernel.py`) does beside that, the hashes of tags and of index
keys, no table needs; without it a walk takes half as long. To import this module is to import
numba.

Invariants:
- A record is sound for a walk exactly if it is for Reput: one function says so.
- A record that stops the walk has left nothing behind in any column.

Source: org.apache.rocketmq.store.CommitLog#checkMessageAndReturnSize (4.9.3).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from wakelog.protocol.java import LONG_MAX
from wakelog.storage.bulk.layout import (
    GROUP,
    NO_GROUP,
    PHYSICAL_OFFSET,
    QUEUE_ID,
    QUEUE_OFFSET,
    STORE_TIMESTAMP,
    SYS_FLAG,
    TOPIC_BEGIN,
    TOPIC_BYTES,
)
from wakelog.storage.bulk.scan_kernel import Array, Int, byte_at, sound_size, take_record

_TRANSACTION: Final = 12  # of the flags; 0 and 8, a committed one, are seen by consumers


@njit(cache=True, nogil=True)
def walk_records(
    buffer: Array,
    begin: Int,
    end: Int,
    physical_offset: Int,
    numbers: Array,
    table: Array,
    firsts: Array,
) -> tuple[Int, Int]:
    """Walk sound records; return how many, and where it stopped.

    numbers: int64[records_max, NUMBER_FIELDS]; TAGS_CODE and REFINE are not filled.
    table: int32, a power of two above twice records_max, filled with -1.
    firsts: int32[records_max + 1]: first record of each group, and their count at the end, 0.
    """
    parts = np.zeros(4, dtype=np.int64)
    row = 0
    at = begin
    while at < end and row < numbers.shape[0]:
        size = sound_size(buffer, at, end, physical_offset + at - begin, parts)
        if size == 0:
            break
        take_record(buffer, at, size, parts, numbers, row)
        transaction = numbers[row, SYS_FLAG] & _TRANSACTION
        if transaction == 0 or transaction == 8:
            numbers[row, GROUP] = _group_of(buffer, numbers, row, table, firsts)
        else:
            numbers[row, GROUP] = NO_GROUP
        row += 1
        at += size
    return row, at


@njit(cache=True, forceinline=True)
def _group_of(buffer: Array, numbers: Array, row: Int, table: Array, firsts: Array) -> Int:
    """Return the number of a record's (topic, queue id); firsts[-1] counts those seen."""
    mask = len(table) - 1
    begin = numbers[row, TOPIC_BEGIN]
    length = numbers[row, TOPIC_BYTES]
    queue_id = numbers[row, QUEUE_ID]
    value = length + queue_id * 0x85EBCA6B
    for at in range(begin, begin + length):
        value = value * 31 + byte_at(buffer, at)
    place = (value * 0x9E3779B1) >> 7 & mask
    while table[place] >= 0:
        group = np.int64(table[place])
        other = firsts[group]
        if numbers[other, QUEUE_ID] == queue_id and numbers[other, TOPIC_BYTES] == length:
            there = numbers[other, TOPIC_BEGIN]
            same = 0
            while same < length and byte_at(buffer, there + same) == byte_at(buffer, begin + same):
                same += 1
            if same == length:
                return group
        place = (place + 1) & mask
    group = np.int64(firsts[-1])
    table[place] = group
    firsts[group] = row
    firsts[-1] += 1
    return group


@njit(cache=True, nogil=True)
def wanted_records(
    numbers: Array, count: Int, limits: Array, begin_ms: Int, end_ms: Int, rows: Array
) -> Int:
    """Put the numbers of records within their queue's limits into `rows`; return how many.

    limits: int64[groups, 4], the `Bounds` of each queue. LONG_MAX at an end is no bound.
    """
    kept = 0
    for row in range(count):
        group = numbers[row, GROUP]
        if group < 0:
            continue
        offset, place = numbers[row, QUEUE_OFFSET], numbers[row, PHYSICAL_OFFSET]
        if offset < limits[group, 0] or place < limits[group, 2] or place >= limits[group, 3]:
            continue
        if offset >= limits[group, 1] and limits[group, 1] != LONG_MAX:
            continue
        stored_ms = numbers[row, STORE_TIMESTAMP]
        if stored_ms < begin_ms or (stored_ms >= end_ms and end_ms != LONG_MAX):
            continue
        rows[kept] = row
        kept += 1
    return kept
