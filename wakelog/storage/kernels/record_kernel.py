"""The compiled twin of `storage/log/record_walk.py`: sound records, and where their parts lie.

Shared by the scan of Reput, rebuild and verify (`scan_kernel.py`) and by Spark's walk. All offsets
come from `protocol/record.py`.

Invariants:
- It accepts exactly the records that `walk_records` yields (`test_record_walk.py`).
- No index is used before it is known to lie in the buffer, because numba checks none.

Source: org.apache.rocketmq.store.CommitLog#checkMessageAndReturnSize (4.9.3).
"""

from typing import Final

import numpy as np

from wakelog.protocol import record
from wakelog.protocol.sys_flag import MESSAGE_BORN_HOST_V6, MESSAGE_STORE_HOST_V6
from wakelog.storage.kernels import layout
from wakelog.storage.kernels.compilation import inlined
from wakelog.storage.kernels.integers import Array, Int, byte_at, i32_at, i64_at, same_bytes, u32_at

_MAGIC: Final = int.from_bytes(record.MAGIC_BYTES)


@inlined
def born_extra_bytes(sys_flag: Int) -> Int:
    """Return how much longer than a v4 host the born host is."""
    return record.V6_EXTRA_BYTES if sys_flag & MESSAGE_BORN_HOST_V6 else 0


@inlined
def hosts_extra_bytes(sys_flag: Int) -> Int:
    """Return how much longer than with two v4 hosts a record's head is."""
    store = record.V6_EXTRA_BYTES if sys_flag & MESSAGE_STORE_HOST_V6 else 0
    return born_extra_bytes(sys_flag) + store


@inlined
def sound_size(buffer: Array, at: Int, end: Int, physical_offset: Int, parts: Array) -> Int:
    """Return the size of the sound record at buffer[at], 0 if there is none.

    parts: gets the positions of store timestamp, prepared transaction offset, topic, and the
        topic's end.
    """
    if end - at < record.RECORD_BYTES_MIN:
        return 0
    size = i32_at(buffer, at + record.SIZE_OFFSET)
    if (
        u32_at(buffer, at + record.MAGIC_OFFSET) != _MAGIC
        or i64_at(buffer, at + record.PHYSICAL_OFFSET_OFFSET) != physical_offset
    ):
        return 0
    sys_flag = i32_at(buffer, at + record.SYS_FLAG_OFFSET)
    hosts = hosts_extra_bytes(sys_flag)
    body_begin = at + record.HEAD_BYTES_V4 + hosts
    record_end = at + size
    if record_end > end or body_begin + record.TAIL_BYTES_MIN > record_end:
        return 0
    body_end = body_begin + max(i32_at(buffer, at + record.BODY_SIZE_OFFSET_V4 + hosts), 0)
    if body_end + record.TAIL_BYTES_MIN > record_end:
        return 0
    topic_bytes = byte_at(buffer, body_end)
    topic_end = body_end + 1 + topic_bytes
    if (
        topic_bytes > record.TOPIC_BYTES_MAX
        or topic_end + record.PROPERTIES_LENGTH_BYTES > record_end
    ):
        return 0
    properties_bytes: Int = (byte_at(buffer, topic_end) << 8) | byte_at(buffer, topic_end + 1)
    if properties_bytes > record.RECORD_PROPERTIES_BYTES_MAX:
        properties_bytes = 0  # a negative length
    if topic_end + record.PROPERTIES_LENGTH_BYTES + properties_bytes != record_end:
        return 0
    parts[0] = at + record.STORE_TIMESTAMP_OFFSET_V4 + born_extra_bytes(sys_flag)
    parts[1] = at + record.PREPARED_TRANSACTION_OFFSET_OFFSET_V4 + hosts
    parts[2] = body_end + 1
    parts[3] = topic_end
    return size


@inlined
def copy_numbers(buffer: Array, at: Int, size: Int, parts: Array, numbers: Array, row: Int) -> None:
    """Fill one row of `numbers` with the fields of a sound record and the places of its texts."""
    numbers[row, layout.PHYSICAL_OFFSET] = i64_at(buffer, at + record.PHYSICAL_OFFSET_OFFSET)
    numbers[row, layout.SIZE] = size
    numbers[row, layout.QUEUE_ID] = i32_at(buffer, at + record.QUEUE_ID_OFFSET)
    numbers[row, layout.QUEUE_OFFSET] = i64_at(buffer, at + record.QUEUE_OFFSET_OFFSET)
    numbers[row, layout.SYS_FLAG] = i32_at(buffer, at + record.SYS_FLAG_OFFSET)
    numbers[row, layout.STORE_TIMESTAMP] = i64_at(buffer, parts[0])
    numbers[row, layout.PREPARED_OFFSET] = i64_at(buffer, parts[1])
    numbers[row, layout.TOPIC_BEGIN] = parts[2]
    numbers[row, layout.TOPIC_BYTES] = parts[3] - parts[2]
    numbers[row, layout.PROPERTIES_BEGIN] = parts[3] + record.PROPERTIES_LENGTH_BYTES
    numbers[row, layout.PROPERTIES_BYTES] = at + size - parts[3] - record.PROPERTIES_LENGTH_BYTES


@inlined
def group_of(
    buffer: Array,
    numbers: Array,
    row: Int,
    topic_hash: Int,
    table: Array,
    firsts: Array,
    names: Array,
    name_begins: Array,
    names_end: Int,
) -> tuple[Int, Int]:
    """Return the group number of a record's (topic, queue id), and the new end of `names`.

    table: int32[2, a power of two above twice the records]: by place, a group's number plus 1, or
        0; by group, its place.
    firsts: int32[records + 1]: first record of each group; the last element counts groups.
    names, name_begins: the groups' topics, which outlive the buffer, and where each begins. With
        names_end -1 nothing is copied: `names` is the buffer, and has the topics of all rows.
    """
    mask = table.shape[1] - 1
    begin = numbers[row, layout.TOPIC_BEGIN]
    length = numbers[row, layout.TOPIC_BYTES]
    queue_id = numbers[row, layout.QUEUE_ID]
    place = (topic_hash * 0x9E3779B1 + queue_id * 0x85EBCA6B) >> 7 & mask
    while table[0, place] > 0:
        group = np.int64(table[0, place]) - 1
        other = firsts[group]
        is_same_queue = numbers[other, layout.QUEUE_ID] == queue_id
        if is_same_queue and numbers[other, layout.TOPIC_BYTES] == length:
            there = numbers[other, layout.TOPIC_BEGIN]
            if names_end >= 0:
                there = np.int64(name_begins[group])
            if same_bytes(names, there, buffer, begin, length):
                return group, names_end
        place = (place + 1) & mask
    group = np.int64(firsts[-1])
    table[0, place] = group + 1
    table[1, group] = place
    firsts[group] = row
    firsts[-1] += 1
    if names_end >= 0:
        name_begins[group] = names_end
        for i in range(length):
            names[names_end + i] = buffer[begin + i]
        names_end += length
    return group, names_end
