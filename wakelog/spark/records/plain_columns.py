"""The twin in plain Python of `RowFunctions`, for a worker of Spark without the compiled library.

It fills the same arrays with the same numbers, at some fortieth of the speed. It leaves `table`
and `places` as they are: groups are known by `firsts`.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from wakelog.compiled import layout
from wakelog.compiled.columns import Array, Buffer
from wakelog.compiled.fields import KEYS_BEGIN, RECORD, STORE_HOST, UNIQ_BEGIN, UNIQ_END
from wakelog.protocol import record
from wakelog.protocol.sys_flag import (
    MESSAGE_BORN_HOST_V6,
    MESSAGE_STORE_HOST_V6,
    TRANSACTION_PREPARED,
)
from wakelog.storage.log import record_walk

_LONG: Final = struct.Struct(">q")
_MAPPED: Final = bytes(10) + b"\xff\xff"
_PLACES_OF: Final = (b"KEYS", b"TAGS", b"UNIQ_KEY")
"""In the order of the fields from KEYS_BEGIN on."""


def walk_records(
    buffer: Buffer,
    begin: int,
    end: int,
    physical_offset: int,
    numbers: Array,
    table: Array,
    firsts: Array,
    takes_groups: bool,
) -> tuple[int, int]:
    """Walk sound records; return how many, and where the walk stopped."""
    row, at = 0, begin
    for found in record_walk.walk_records(buffer, begin, end, physical_offset):
        if row == len(numbers):
            break
        _fill_row(numbers[row], found)
        row, at = row + 1, found[1]
    if takes_groups:
        _fill_groups(buffer, numbers, 0, row, firsts)
    return row, at


def scan_pulled(buffer: Buffer, topic: bytes, queue_id: int, numbers: Array) -> tuple[int, int]:
    """Scan pulled records, of any place in the log; return as `walk_records` does."""
    row, at, end = 0, 0, len(buffer)
    while at + record.RECORD_BYTES_MIN <= end and row < len(numbers):
        (stated,) = _LONG.unpack_from(buffer, at + record.PHYSICAL_OFFSET_OFFSET)
        found = next(record_walk.walk_records(buffer, at, end, stated), None)
        if found is None:
            break
        _fill_row(numbers[row], found)
        is_own = _queue_of(buffer, numbers[row]) == (topic, queue_id)
        is_own = is_own and not numbers[row, layout.SYS_FLAG] & TRANSACTION_PREPARED
        numbers[row, layout.GROUP] = 0 if is_own else layout.NO_GROUP
        row, at = row + 1, found[1]
    return row, at


def keep_records(
    window: Buffer,
    found: Array,
    begin: int,
    end: int,
    kept: Buffer,
    kept_end: int,
    numbers: Array,
    row: int,
    table: Array,
    firsts: Array,
) -> tuple[int, int, int]:
    """Append records [begin, end) of `found`, without their bodies, to the kept ones."""
    out, view, first, number = memoryview(kept), memoryview(window), row, begin
    for number in range(begin, end + 1):
        if number == end or row == len(numbers):
            break
        head_begin, body_begin = _head_of(found[number])
        tail_begin = int(found[number, layout.TOPIC_BEGIN]) - 1
        record_end = head_begin + int(found[number, layout.SIZE])
        tail_at = kept_end + body_begin - head_begin
        if tail_at + record_end - tail_begin > len(kept):
            break
        out[kept_end:tail_at] = view[head_begin:body_begin]
        kept_end = tail_at + record_end - tail_begin
        out[tail_at:kept_end] = view[tail_begin:record_end]
        numbers[row] = found[number]
        numbers[row, [layout.TOPIC_BEGIN, layout.PROPERTIES_BEGIN]] += tail_at - tail_begin
        row += 1
    _fill_groups(kept, numbers, first, row, firsts)
    return number, kept_end, row


def check_bodies(buffer: Buffer, numbers: Array, first: int, count: int, damaged: Array) -> int:
    """Return how many records of [first, count) have a body with another CRC than they state."""
    damaged_count, view = 0, memoryview(buffer)
    for row in range(first, count):
        head_begin, body_begin = _head_of(numbers[row])
        body = view[body_begin : int(numbers[row, layout.TOPIC_BEGIN]) - 1]
        (stated,) = record.INT.unpack_from(view, head_begin + record.BODY_CRC_OFFSET)
        if body and zlib.crc32(body) & record.CRC_MASK != stated:
            damaged[damaged_count] = row
            damaged_count += 1
    return damaged_count


def read_fields(
    buffer: Buffer, numbers: Array, rows: Array, fields: Array, has_bodies: bool
) -> int:
    """Fill one row of `fields` for each record of `rows`; return 0."""
    for i, row in enumerate(rows.tolist()):
        sys_flag = int(numbers[row, layout.SYS_FLAG])
        body_end = int(numbers[row, layout.TOPIC_BEGIN]) - 1
        at = body_end - _head_bytes(sys_flag)
        if has_bodies:
            at, _ = _head_of(numbers[row])
        born = record.V6_EXTRA_BYTES if sys_flag & MESSAGE_BORN_HOST_V6 else 0
        body_begin = at + _head_bytes(sys_flag)
        reconsume_at = body_begin - record.HEAD_BYTES_V4 + record.RECONSUME_TIMES_OFFSET_V4
        fields[i, :KEYS_BEGIN] = (
            at,
            *record.INT.unpack_from(buffer, at + record.FLAG_OFFSET),
            *record.INT.unpack_from(buffer, at + record.BODY_CRC_OFFSET),
            *_LONG.unpack_from(buffer, at + record.BORN_TIMESTAMP_OFFSET),
            at + record.BORN_HOST_OFFSET,
            at + record.STORE_HOST_OFFSET_V4 + born,
            *record.INT.unpack_from(buffer, reconsume_at),
            body_begin,
            body_end,
        )
        spans = {name: span for name, _, span in _properties(buffer, numbers[row])}
        fields[i, KEYS_BEGIN:] = [x for name in _PLACES_OF for x in spans.get(name, (0, 0))]
    return 0


def gather(buffer: Buffer, begins: Array, ends: Array, offsets: Array, out: Array) -> int:
    """Copy spans of `buffer` one after another; return the or of all their bytes."""
    view = memoryview(buffer)
    spans = zip(begins.tolist(), ends.tolist(), strict=True)
    data = np.frombuffer(b"".join([view[begin:end] for begin, end in spans]), dtype=np.uint8)
    out[: len(data)] = data
    offsets[0] = 0
    np.cumsum(ends - begins, out=offsets[1 : len(begins) + 1])
    return int(np.bitwise_or.reduce(data))


def find_pairs(
    buffer: Buffer, numbers: Array, rows: Array, row_ends: Array, pairs: Array, places: Array
) -> int:
    """Find the properties of each record; return the total count."""
    count = 0
    for i, row in enumerate(rows.tolist()):
        row_ends[i] = count
        found: dict[bytes, tuple[int, int, int, int]] = {}
        for name, at, (begin, end) in _properties(buffer, numbers[row]):
            first = found[name][0] if name in found else at
            found[name] = first, first + len(name), begin, end
        if found:
            pairs[count : count + len(found)] = list(found.values())
        count += len(found)
    row_ends[len(rows)] = count
    return count


def format_ids(
    buffer: Buffer, fields: Array, is_v6: Array, use_uniq: bool, offsets: Array, out: Array
) -> int:
    """Write message ids: the store host and the physical offset in hexadecimal."""
    view, seen, to = memoryview(buffer), 0, 0
    for i, row in enumerate(fields[: len(is_v6)].tolist()):
        offsets[i] = to
        if use_uniq and row[UNIQ_END] > row[UNIQ_BEGIN]:
            text = bytes(view[row[UNIQ_BEGIN] : row[UNIQ_END]])
            seen |= int(np.bitwise_or.reduce(np.frombuffer(text, dtype=np.uint8)))
        else:
            host_bytes = record.HOST_BYTES_V4 + (record.V6_EXTRA_BYTES if is_v6[i] else 0)
            host = bytes(view[row[STORE_HOST] : row[STORE_HOST] + host_bytes])
            if is_v6[i]:
                host = host.removeprefix(_MAPPED)
            offset_at = row[RECORD] + record.PHYSICAL_OFFSET_OFFSET
            text = (host + view[offset_at : offset_at + _LONG.size]).hex().upper().encode()
        out[to : to + len(text)] = np.frombuffer(text, dtype=np.uint8)
        to += len(text)
    offsets[len(is_v6)] = to
    return seen


def _head_bytes(sys_flag: int) -> int:
    hosts_count = bool(sys_flag & MESSAGE_BORN_HOST_V6) + bool(sys_flag & MESSAGE_STORE_HOST_V6)
    return record.HEAD_BYTES_V4 + hosts_count * record.V6_EXTRA_BYTES


def _head_of(row: Array) -> tuple[int, int]:
    """Return where the head of a record with its body begins and ends."""
    end = int(row[layout.PROPERTIES_BEGIN] + row[layout.PROPERTIES_BYTES])
    begin = end - int(row[layout.SIZE])
    return begin, begin + _head_bytes(int(row[layout.SYS_FLAG]))


def _fill_row(row: Array, found: record_walk.SoundRecord) -> None:
    begin, end, _, body_end, topic_end, queue_id, queue_offset, stated, *rest = found
    row[: layout.TAGS_CODE] = stated, end - begin, queue_id, queue_offset, *rest
    properties_begin = topic_end + record.PROPERTIES_LENGTH_BYTES
    texts = body_end + 1, topic_end - body_end - 1, properties_begin, end - properties_begin
    row[layout.TOPIC_BEGIN : layout.REFINE] = texts


def _queue_of(buffer: Buffer, row: Array) -> tuple[bytes, int]:
    begin = int(row[layout.TOPIC_BEGIN])
    topic = bytes(buffer[begin : begin + int(row[layout.TOPIC_BYTES])])
    return topic, int(row[layout.QUEUE_ID])


def _fill_groups(buffer: Buffer, numbers: Array, begin: int, end: int, firsts: Array) -> None:
    """Fill in the queues of records [begin, end) that consumers see."""
    known_count = int(firsts[-1])
    groups: dict[Any, int] = {
        _queue_of(buffer, numbers[row]): group
        for group, row in enumerate(firsts[:known_count].tolist())
    }
    for row in range(begin, end):
        numbers[row, layout.GROUP] = layout.NO_GROUP
        if not numbers[row, layout.SYS_FLAG] & TRANSACTION_PREPARED:  # nor rolled back
            group = groups.setdefault(_queue_of(buffer, numbers[row]), len(groups))
            numbers[row, layout.GROUP] = group
            if group == firsts[-1]:
                firsts[group] = row
                firsts[-1] += 1


def _properties(buffer: Buffer, row: Array) -> Iterator[tuple[bytes, int, tuple[int, int]]]:
    """Yield each property's name, where it begins, and begin and end of its value."""
    at = int(row[layout.PROPERTIES_BEGIN])
    text = bytes(buffer[at : at + int(row[layout.PROPERTIES_BYTES])])
    for pair in text.split(b"\x02"):
        name, _, value = pair.partition(b"\x01")
        if name and value:
            yield name, at, (at + len(name) + 1, at + len(pair))
        at += len(pair) + 1
