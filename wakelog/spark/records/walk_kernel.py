"""The compiled loops of a walk: which records are sound, their queues, and which are selected.

Reput's scan (`storage/kernels/scan_kernel.py`) also hashes tags and index keys. No table needs
these, and a walk without them takes a quarter of the time. This module imports numba.

Invariants:
- A record is sound for a walk exactly if it is sound for Reput: both use `record_kernel`.
- A record that stops the walk leaves nothing in any column.

Source: org.apache.rocketmq.store.CommitLog#checkMessageAndReturnSize (4.9.3).
"""

import numpy as np

from wakelog.protocol.java import LONG_MAX
from wakelog.protocol.record import HEAD_BYTES_V4
from wakelog.protocol.sys_flag import TRANSACTION_PREPARED
from wakelog.storage.kernels import layout
from wakelog.storage.kernels.compilation import inlined, kernel
from wakelog.storage.kernels.integers import Array, Int
from wakelog.storage.kernels.record_kernel import (
    copy_numbers,
    group_of,
    hosts_extra_bytes,
    sound_size,
)
from wakelog.storage.kernels.text_kernel import java_hash


@kernel
def walk_records(
    buffer: Array,
    begin: Int,
    end: Int,
    physical_offset: Int,
    numbers: Array,
    table: Array,
    firsts: Array,
    parts: Array,
    takes_groups: bool,
) -> tuple[Int, Int]:
    """Walk sound records; return how many, and where the walk stopped.

    numbers: int64[records_max, NUMBER_FIELDS]; TAGS_CODE and REFINE are not filled.
    table, firsts: see `record_kernel.group_of`.
    parts: int64[PARTS_COUNT], room for the walk itself.
    takes_groups: fill in the records' queues.
    """
    row = 0
    at = begin
    while at < end and row < numbers.shape[0]:
        size = sound_size(buffer, at, end, physical_offset + at - begin, parts)
        if size == 0:
            break
        copy_numbers(buffer, at, size, parts, numbers, row)
        if takes_groups:
            _fill_group(buffer, numbers, row, table, firsts)
        row += 1
        at += size
    return row, at


@kernel
def keep_records(
    window: Array,
    found: Array,
    begin: Int,
    end: Int,
    kept: Array,
    kept_end: Int,
    numbers: Array,
    row: Int,
    table: Array,
    firsts: Array,
) -> tuple[Int, Int, Int]:
    """Append records [begin, end) of `found`, without their bodies, to the kept ones.

    kept: gets the bytes, from `kept_end` on.
    numbers: gets the rows, from `row` on, with their positions in `kept`.
    Returns: the first record without room, and the new ends of `kept` and `numbers`.
    """
    for number in range(begin, end):
        head_bytes = HEAD_BYTES_V4 + hosts_extra_bytes(found[number, layout.SYS_FLAG])
        tail_begin = found[number, layout.TOPIC_BEGIN] - 1
        record_end = found[number, layout.PROPERTIES_BEGIN] + found[number, layout.PROPERTIES_BYTES]
        record_begin = record_end - found[number, layout.SIZE]
        tail_bytes = record_end - tail_begin
        if row == numbers.shape[0] or kept_end + head_bytes + tail_bytes > len(kept):
            return number, kept_end, row
        for at in range(head_bytes):
            kept[np.uintp(kept_end + at)] = window[np.uintp(record_begin + at)]
        kept_end += head_bytes
        for at in range(tail_bytes):
            kept[np.uintp(kept_end + at)] = window[np.uintp(tail_begin + at)]
        for field in range(layout.NUMBER_FIELDS):
            numbers[row, field] = found[number, field]
        numbers[row, layout.TOPIC_BEGIN] += kept_end - tail_begin
        numbers[row, layout.PROPERTIES_BEGIN] += kept_end - tail_begin
        kept_end += tail_bytes
        _fill_group(kept, numbers, row, table, firsts)
        row += 1
    return end, kept_end, row


@inlined
def _fill_group(buffer: Array, numbers: Array, row: Int, table: Array, firsts: Array) -> None:
    """Fill in the queue of a record that consumers see."""
    numbers[row, layout.GROUP] = layout.NO_GROUP
    if not numbers[row, layout.SYS_FLAG] & TRANSACTION_PREPARED:  # nor rolled back
        begin = numbers[row, layout.TOPIC_BEGIN]
        value, _ = java_hash(buffer, begin, begin + numbers[row, layout.TOPIC_BYTES], 0)
        group, _ = group_of(buffer, numbers, row, value, table, firsts, buffer, firsts, -1)
        numbers[row, layout.GROUP] = group


@kernel
def wanted_records(numbers: Array, count: Int, limits: Array, rows: Array) -> Int:
    """Put the numbers of records within their queue's limits into `rows`; return how many.

    limits: int64[groups, 4], the `Bounds` of each queue. LONG_MAX at an end is no bound.
    """
    kept = 0
    for row in range(count):
        group = numbers[row, layout.GROUP]
        if group < 0:
            continue
        offset, place = numbers[row, layout.QUEUE_OFFSET], numbers[row, layout.PHYSICAL_OFFSET]
        if offset < limits[group, 0] or place < limits[group, 2] or place >= limits[group, 3]:
            continue
        if offset >= limits[group, 1] and limits[group, 1] != LONG_MAX:
            continue
        rows[kept] = row
        kept += 1
    return kept
