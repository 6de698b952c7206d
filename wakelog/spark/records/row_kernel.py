"""Compiled loops from a walk's columns to the buffers of Arrow arrays.

`record_walk.py` finds the records, and `rows.py` makes arrays of what is filled here. Functions
take and return only arrays and numbers. This module imports numba; only a task that reads imports
it.

Invariants:
- Every position comes from a sound record, so that no index is checked here.
- Text that may not be UTF-8 is copied as it is; `rows.py` checks it.

Source: org.apache.rocketmq.common.message.MessageDecoder#decode, #string2messageProperties (4.9.3).
"""

from typing import Final

import numpy as np

from wakelog.protocol.record import (
    BODY_CRC_OFFSET,
    BORN_HOST_OFFSET,
    BORN_TIMESTAMP_OFFSET,
    FLAG_OFFSET,
    HEAD_BYTES_V4,
    HOST_BYTES_V4,
    PHYSICAL_OFFSET_OFFSET,
    RECONSUME_TIMES_OFFSET_V4,
    STORE_HOST_OFFSET_V4,
    V6_EXTRA_BYTES,
)
from wakelog.storage.kernels.compilation import inlined, kernel, making
from wakelog.storage.kernels.integers import Array, Int, i32_at, i64_at, same_bytes
from wakelog.storage.kernels.layout import (
    PLACES_COUNT,
    PROPERTIES_BEGIN,
    PROPERTIES_BYTES,
    SIZE,
    SYS_FLAG,
    TOPIC_BEGIN,
)
from wakelog.storage.kernels.record_kernel import born_extra_bytes, hosts_extra_bytes
from wakelog.storage.kernels.text_kernel import find_properties, next_property

# Fields of a row of `fields` (int64), one row for a record. Begins and ends are positions in the
# walk's buffer. A property that a record lacks has an empty span.
RECORD, FLAG, BODY_CRC, BORN_TIMESTAMP, BORN_HOST, STORE_HOST = 0, 1, 2, 3, 4, 5
RECONSUME_TIMES, BODY_BEGIN, BODY_END = 6, 7, 8
KEYS_BEGIN, KEYS_END, TAGS_BEGIN, TAGS_END, UNIQ_BEGIN, UNIQ_END = 9, 10, 11, 12, 13, 14
FIELDS: Final = 15

PAIR_BYTES_MIN: Final = 4
"""Of the properties string for one pair: a name, a value and two separators, but for the last."""

_DIGITS: Final = np.frombuffer(b"0123456789ABCDEF", dtype=np.uint8)
_PAIRS_TABLE: Final = 1 << 14  # a power of two above twice the pairs of 32 KiB of properties


@making
def read_fields(
    buffer: Array, numbers: Array, rows: Array, fields: Array, has_bodies: bool
) -> None:
    """Fill one row of `fields` for each record of `rows`.

    fields: int64[rows, FIELDS].
    has_bodies: False if a record's topic follows its head at once.
    """
    found = np.zeros(PLACES_COUNT, dtype=np.int64)
    for i in range(len(rows)):
        row = rows[i]
        born = born_extra_bytes(numbers[row, SYS_FLAG])
        hosts = hosts_extra_bytes(numbers[row, SYS_FLAG])
        # The physical offset of a pulled record does not give its position in the buffer.
        at = numbers[row, TOPIC_BEGIN] - 1 - hosts - HEAD_BYTES_V4
        if has_bodies:
            record_end = numbers[row, PROPERTIES_BEGIN] + numbers[row, PROPERTIES_BYTES]
            at = record_end - numbers[row, SIZE]
        fields[i, RECORD] = at
        fields[i, FLAG] = i32_at(buffer, at + FLAG_OFFSET)
        fields[i, BODY_CRC] = i32_at(buffer, at + BODY_CRC_OFFSET)
        fields[i, BORN_TIMESTAMP] = i64_at(buffer, at + BORN_TIMESTAMP_OFFSET)
        fields[i, BORN_HOST] = at + BORN_HOST_OFFSET
        fields[i, STORE_HOST] = at + STORE_HOST_OFFSET_V4 + born
        fields[i, RECONSUME_TIMES] = i32_at(buffer, at + RECONSUME_TIMES_OFFSET_V4 + hosts)
        fields[i, BODY_BEGIN] = at + HEAD_BYTES_V4 + hosts
        fields[i, BODY_END] = numbers[row, TOPIC_BEGIN] - 1
        begin = numbers[row, PROPERTIES_BEGIN]
        find_properties(buffer, begin, begin + numbers[row, PROPERTIES_BYTES], found)
        for k in range(FIELDS - KEYS_BEGIN):
            fields[i, KEYS_BEGIN + k] = found[k]


@kernel
def gather(buffer: Array, begins: Array, ends: Array, offsets: Array, out: Array) -> Int:
    """Copy spans of `buffer` one after another; return the or of all their bytes.

    offsets: int32, gets the begin of each span in `out`, and the end.
    """
    seen = np.uint8(0)
    at = 0
    for i in range(len(begins)):
        offsets[i] = at
        begin = begins[i]
        for place in range(ends[i] - begin):
            value = buffer[np.uintp(begin + place)]
            out[np.uintp(at + place)] = value
            seen |= value
        at += ends[i] - begin
    offsets[len(begins)] = at
    return seen


@making
def find_pairs(buffer: Array, numbers: Array, rows: Array, row_ends: Array, pairs: Array) -> Int:
    """Find the properties of each record; return the total count.

    The last value of a repeated name counts, in the place of the first one.
    row_ends: int32[rows + 1], gets the begin of each record's pairs in `pairs`, and the end.
    pairs: int64[pairs_max, 4], gets begin and end of name and value.
    """
    table = np.zeros(_PAIRS_TABLE, dtype=np.int32)
    used = np.zeros(_PAIRS_TABLE, dtype=np.int32)
    count = 0
    for i in range(len(rows)):
        first = count
        row_ends[i] = count
        begin = numbers[rows[i], PROPERTIES_BEGIN]
        end = begin + numbers[rows[i], PROPERTIES_BYTES]
        at = begin
        while at < end:
            separator, stop, is_property = next_property(buffer, at, end)
            if is_property:
                place = _place_of(buffer, at, separator, pairs, table)
                if table[place] == 0:
                    used[count - first] = place
                    pairs[count, 0] = at
                    pairs[count, 1] = separator
                    count += 1
                    table[place] = count
                pair = table[place] - 1
                pairs[pair, 2] = separator + 1
                pairs[pair, 3] = stop
            at = stop + 1
        for k in range(count - first):
            table[used[k]] = 0
    row_ends[len(rows)] = count
    return count


@inlined
def _place_of(buffer: Array, begin: Int, end: Int, pairs: Array, table: Array) -> Int:
    """Return the place of a name in `table`, or a free place."""
    value = np.uint64(end - begin)
    for at in range(begin, end):
        value = value * np.uint64(31) + np.uint64(buffer[at])
    place = np.int64((value * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(50))
    while table[place] > 0:
        pair = table[place] - 1
        there, length = pairs[pair, 0], pairs[pair, 1] - pairs[pair, 0]
        if length == end - begin and same_bytes(buffer, there, buffer, begin, length):
            break
        place = (place + 1) & (_PAIRS_TABLE - 1)
    return place


@inlined
def _is_mapped(buffer: Array, at: Int) -> bool:
    """Return whether 16 bytes hold a v4 address, as which Java reads them."""
    for i in range(10):
        if buffer[at + i] != 0:
            return False
    both: bool = buffer[at + 10] == 0xFF and buffer[at + 11] == 0xFF
    return both


@inlined
def _put_hex(out: Array, to: Int, value: Int) -> Int:
    out[to] = _DIGITS[value >> 4]
    out[to + 1] = _DIGITS[value & 15]
    return to + 2


@kernel
def format_ids(
    buffer: Array, fields: Array, v6: Array, use_uniq: bool, offsets: Array, out: Array
) -> Int:
    """Write message ids: the store host and the physical offset in hexadecimal.

    use_uniq: write the property UNIQ_KEY instead, if a record has it.
    Returns: the or of all bytes of these properties.
    """
    to = 0
    seen = np.uint8(0)
    for i in range(len(fields)):
        offsets[i] = to
        if use_uniq and fields[i, UNIQ_END] > fields[i, UNIQ_BEGIN]:
            for at in range(fields[i, UNIQ_BEGIN], fields[i, UNIQ_END]):
                out[to] = buffer[at]
                seen |= buffer[at]
                to += 1
            continue
        at = fields[i, STORE_HOST]
        length = HOST_BYTES_V4
        if v6[i]:
            length += V6_EXTRA_BYTES
            if _is_mapped(buffer, at):
                at += V6_EXTRA_BYTES
                length = HOST_BYTES_V4
        for k in range(length):
            to = _put_hex(out, to, np.int64(buffer[at + k]))
        for k in range(8):
            to = _put_hex(out, to, np.int64(buffer[fields[i, RECORD] + PHYSICAL_OFFSET_OFFSET + k]))
    offsets[len(fields)] = to
    return seen
