"""The compiled encoders of many entries: consume queue entries by group, and chained index entries.

The plain encoders are `consume_queue_writer.py` and `index_append.py`; both give the same bytes.

Source: org.apache.rocketmq.store.ConsumeQueue#putMessagePositionInfo,
org.apache.rocketmq.store.index.IndexFile#putKey (4.9.3).
"""

from typing import Final

import numpy as np

from wakelog.storage.kernels import layout
from wakelog.storage.kernels.compilation import inlined, kernel
from wakelog.storage.kernels.instructions import prefetch
from wakelog.storage.kernels.integers import Array, Int

# A slot is prefetched this many keys before it is needed. Slots are spread over 20 MB. The memory
# serves some dozens of requests at once, and one takes as long as several keys.
_KEYS_AHEAD: Final = 24


@inlined
def put_i64(out: Array, at: Int, value: Int) -> None:
    """Write a big-endian long."""
    for i in range(8):
        out[at + i] = (value >> (56 - 8 * i)) & 0xFF


@inlined
def put_i32(out: Array, at: Int, value: Int) -> None:
    """Write a big-endian int."""
    for i in range(4):
        out[at + i] = (value >> (24 - 8 * i)) & 0xFF


@kernel
def encode_groups(
    numbers: Array,
    count: Int,
    firsts: Array,
    order: Array,
    ends: Array,
    unbroken: Array,
    entries: Array,
) -> None:
    """Sort records by group, in log order inside each, and encode their consume queue entries.

    firsts: from `scan_records`.
    order: gets the numbers of records that have a group. Group g is order[ends[g - 1]:ends[g]], and
        its entries lie at 20 times these places in `entries`.
    unbroken: gets for each group whether its queue offsets go up by one.
    """
    group_count = np.int64(firsts[-1])
    ends[: group_count + 1] = 0
    for row in range(count):
        group = numbers[row, layout.GROUP]
        if group >= 0:
            ends[group + 1] += 1
    for group in range(group_count):
        ends[group + 1] += ends[group]
    for row in range(count):
        group = numbers[row, layout.GROUP]
        if group >= 0:
            place = np.int64(ends[group])
            if row == firsts[group]:
                unbroken[group] = True
            else:
                before = numbers[order[place - 1], layout.QUEUE_OFFSET]
                unbroken[group] &= numbers[row, layout.QUEUE_OFFSET] == before + 1
            ends[group] += 1
            order[place] = row
            put_i64(entries, layout.ENTRY_BYTES * place, numbers[row, layout.PHYSICAL_OFFSET])
            put_i32(entries, layout.ENTRY_BYTES * place + 8, numbers[row, layout.SIZE])
            put_i64(entries, layout.ENTRY_BYTES * place + 12, numbers[row, layout.TAGS_CODE])


@kernel
def link_keys(
    slots: Array,
    entry_next: Int,
    begin_timestamp_ms: Int,
    keys: Array,
    begin: Int,
    end: Int,
    numbers: Array,
    entries: Array,
) -> Int:
    """Link keys [begin, end) into `slots` and encode their entries; count slots that were empty.

    slots: int32, in memory; entry numbers go up from `entry_next`.
    entries: gets 20 bytes for each key.
    """
    newly_used = 0
    count = np.uint64(len(slots))
    soon = min(begin + _KEYS_AHEAD, end)
    for key in range(begin, soon):
        prefetch(slots, np.uint64(keys[layout.KEY_HASH, key]) % count)
    for key in range(begin, end):
        if soon < end:
            prefetch(slots, np.uint64(keys[layout.KEY_HASH, soon]) % count)
            soon += 1
        row = keys[layout.KEY_RECORD, key]
        key_hash = np.int64(keys[layout.KEY_HASH, key])
        slot = np.uint64(key_hash) % count
        previous: Int = np.int64(slots[slot])
        if previous <= 0 or previous > entry_next:
            previous = 0
            newly_used += 1
        elapsed = numbers[row, layout.STORE_TIMESTAMP] - begin_timestamp_ms
        seconds = 0
        if begin_timestamp_ms > 0 and elapsed > 0:
            seconds = min(elapsed // 1000, (1 << 31) - 1)
        at = layout.ENTRY_BYTES * (key - begin)
        put_i32(entries, at, key_hash)
        put_i64(entries, at + 4, numbers[row, layout.PHYSICAL_OFFSET])
        put_i32(entries, at + 12, seconds)
        put_i32(entries, at + 16, previous)
        slots[slot] = entry_next
        entry_next += 1
    return newly_used
