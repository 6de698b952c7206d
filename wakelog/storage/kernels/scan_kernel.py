"""The compiled form of `storage/log/scan.py`: loops over the log's bytes that fill columns.

Functions take and return only arrays and numbers; `columns.py` owns them. This module imports
numba, which takes about a second. `loader.py` imports it in a thread, when there is much to read.

The kernel leaves rare work to Python and sets a bit in `REFINE`: text that is not ASCII, delayed
messages, messages for several queues, and records with very many keys.

Invariants:
- No index is used before it is known to lie in the buffer, because numba checks none.
- A record that stops the scan leaves nothing in any column.

Source: java.lang.String#hashCode,
org.apache.rocketmq.store.index.IndexFile#indexKeyHashMethod (4.9.3).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from wakelog.protocol.record import TOPIC_BYTES_MAX
from wakelog.storage.kernels.compilation import inlined, making
from wakelog.storage.kernels.integers import (
    Array,
    Int,
)
from wakelog.storage.kernels.layout import (
    GROUP,
    KEY_HASH,
    KEY_RECORD,
    NO_GROUP,
    RECORD_KEYS_MAX,
    REFINE,
    REFINE_DELAY,
    REFINE_KEYS,
    REFINE_MULTI,
    REFINE_TEXT,
    SYS_FLAG,
    TAGS_CODE,
)
from wakelog.storage.kernels.record_kernel import PARTS_COUNT, copy_numbers, group_of, sound_size
from wakelog.storage.kernels.text_kernel import (
    PLACES_COUNT,
    equals,
    find_properties,
    java_hash,
    next_byte,
)

_INT32_MASK: Final = 0xFFFFFFFF
_SPACE: Final = 32


@inlined
def _positive(value: Int) -> Int:
    """Return the absolute value of a Java int, 0 for the smallest one, as in Java's index."""
    if value >= 1 << 31:
        value = (1 << 32) - value
        if value == 1 << 31:
            return 0
    return value


@inlined
def _hash_keys(
    buffer: Array, found: Array, prefix: Int, keys: Array, key_count: Int
) -> tuple[Int, Int]:
    """Append the hashes of a record's keys; return the new count and REFINE bits."""
    first = key_count
    seen = 0
    if found[5] > found[4]:
        value, seen = java_hash(buffer, found[4], found[5], prefix)
        keys[KEY_HASH, key_count] = _positive(value)
        key_count += 1
    at = found[0]
    while at < found[1]:
        stop = next_byte(buffer, at, found[1], _SPACE)
        if stop > at:
            if key_count - first == RECORD_KEYS_MAX:
                return first, REFINE_KEYS
            value, bits = java_hash(buffer, at, stop, prefix)
            seen |= bits
            keys[KEY_HASH, key_count] = _positive(value)
            key_count += 1
        at = stop + 1
    if seen:
        return first, REFINE_TEXT
    return key_count, 0


@inlined
def _scan(
    buffer: Array,
    begin: Int,
    end: Int,
    physical_offset: Int,
    numbers: Array,
    keys: Array,
    table: Array,
    firsts: Array,
    names: Array,
    name_begins: Array,
    row: Int,
    key_count: Int,
    names_end: Int,
    parts: Array,
    found: Array,
) -> tuple[Int, Int, Int, Int, Int]:
    """Do the work of `scan_records`, with two small arrays as room."""
    refined = 0
    names_room = max(len(names) - TOPIC_BYTES_MAX, 0)
    at = begin
    while at < end and row < numbers.shape[0] and key_count + RECORD_KEYS_MAX < keys.shape[1]:
        if names_end > names_room:
            break
        size = sound_size(buffer, at, end, physical_offset + at - begin, parts)
        if size == 0:
            break
        copy_numbers(buffer, at, size, parts, numbers, row)
        topic_hash, seen = java_hash(buffer, parts[2], parts[3], 0)
        find_properties(buffer, parts[3] + 2, at + size, found)
        tags, tags_seen = java_hash(buffer, found[2], found[3], 0)
        refine = REFINE_TEXT if seen | tags_seen else 0
        if found[9] > found[8]:
            refine |= REFINE_MULTI
        if found[7] > found[6] and equals(buffer, parts[2], parts[3], b"SCHEDULE_TOPIC_XXXX"):
            refine |= REFINE_DELAY
        transaction = numbers[row, SYS_FLAG] & 0xC
        if transaction != 0xC and not refine & REFINE_TEXT:
            prefix = (topic_hash * 31 + 35) & _INT32_MASK
            first = key_count
            key_count, bits = _hash_keys(buffer, found, prefix, keys, key_count)
            keys[KEY_RECORD, first:key_count] = row
            refine |= bits
        numbers[row, TAGS_CODE] = tags - (1 << 32) if tags >= 1 << 31 else tags
        numbers[row, REFINE] = refine
        refined |= refine
        numbers[row, GROUP] = NO_GROUP
        if transaction == 0 or transaction == 8:
            numbers[row, GROUP], names_end = group_of(
                buffer, numbers, row, topic_hash, table, firsts, names, name_begins, names_end
            )
        row += 1
        at += size
    return row, key_count, at, names_end, refined


@making
def scan_records(
    buffer: Array,
    begin: Int,
    end: Int,
    physical_offset: Int,
    numbers: Array,
    keys: Array,
    table: Array,
    firsts: Array,
    names: Array,
    name_begins: Array,
    row: Int,
    key_count: Int,
    names_end: Int,
) -> tuple[Int, Int, Int, Int, Int]:
    """Scan sound records of buffer[begin:end], and append to what the columns hold.

    numbers: int64[records_max, NUMBER_FIELDS].
    keys: int32[2, keys_max]: hash and record number of each index key.
    table, firsts, names, name_begins, names_end: see `record_kernel.group_of`.
    row, key_count: what the columns hold.
    Returns: the new counts of records and keys, where the scan stopped, the new end of `names`, and
        the or of all REFINE bits of the new records.
    """
    parts = np.zeros(PARTS_COUNT, dtype=np.int64)
    found = np.zeros(PLACES_COUNT, dtype=np.int64)
    return _scan(
        buffer,
        begin,
        end,
        physical_offset,
        numbers,
        keys,
        table,
        firsts,
        names,
        name_begins,
        row,
        key_count,
        names_end,
        parts,
        found,
    )
