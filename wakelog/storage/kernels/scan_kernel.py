"""The compiled form of `storage/log/scan.py`: loops over the log's bytes that fill columns.

Functions take and return only arrays and numbers; `columns.py` owns them.

The kernel leaves rare work to Python and sets a bit in `REFINE`: text that is not ASCII, delayed
messages, messages for several queues, and records with very many keys.

Invariants:
- No index is used before it is known to lie in the buffer, because numba checks none.
- A record that stops the scan leaves nothing in any column.

Source: java.lang.String#hashCode,
org.apache.rocketmq.store.index.IndexFile#indexKeyHashMethod (4.9.3).
"""

from typing import Final

from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.protocol.record import TOPIC_BYTES_MAX
from wakelog.protocol.sys_flag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from wakelog.storage.kernels import layout
from wakelog.storage.kernels.compilation import inlined, kernel
from wakelog.storage.kernels.integers import Array, Int
from wakelog.storage.kernels.record_kernel import copy_numbers, group_of, sound_size
from wakelog.storage.kernels.text_kernel import equals, find_properties, java_hash, next_byte

_INT32_MASK: Final = 0xFFFFFFFF
_SPACE: Final = 32
_SCHEDULE_TOPIC: Final = SCHEDULE_TOPIC.encode()


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
        keys[layout.KEY_HASH, key_count] = _positive(value)
        key_count += 1
    at = found[0]
    while at < found[1]:
        stop = next_byte(buffer, at, found[1], _SPACE)
        if stop > at:
            if key_count - first == layout.RECORD_KEYS_MAX:
                return first, layout.REFINE_KEYS
            value, bits = java_hash(buffer, at, stop, prefix)
            seen |= bits
            keys[layout.KEY_HASH, key_count] = _positive(value)
            key_count += 1
        at = stop + 1
    if seen:
        return first, layout.REFINE_TEXT
    return key_count, 0


@kernel
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
    parts: Array,
    found: Array,
    row: Int,
    key_count: Int,
    names_end: Int,
) -> tuple[Int, Int, Int, Int, Int]:
    """Scan sound records of buffer[begin:end], and append to what the columns hold.

    numbers: int64[records_max, NUMBER_FIELDS].
    keys: int32[2, keys_max]: hash and record number of each index key.
    table, firsts, names, name_begins, names_end: see `record_kernel.group_of`.
    parts, found: int64[PARTS_COUNT] and int64[PLACES_COUNT], room for the places in one record.
    row, key_count: what the columns hold.
    Returns: the new counts of records and keys, where the scan stopped, the new end of `names`, and
        the or of all REFINE bits of the new records.
    """
    refined = 0
    names_room = max(len(names) - TOPIC_BYTES_MAX, 0)
    at = begin
    keys_room = keys.shape[1] - layout.RECORD_KEYS_MAX
    while at < end and row < numbers.shape[0] and key_count < keys_room:
        if names_end > names_room:
            break
        size = sound_size(buffer, at, end, physical_offset + at - begin, parts)
        if size == 0:
            break
        copy_numbers(buffer, at, size, parts, numbers, row)
        topic_hash, seen = java_hash(buffer, parts[2], parts[3], 0)
        find_properties(buffer, parts[3] + 2, at + size, found)
        tags, tags_seen = java_hash(buffer, found[2], found[3], 0)
        refine = layout.REFINE_TEXT if seen | tags_seen else 0
        if found[9] > found[8]:
            refine |= layout.REFINE_MULTI
        if found[7] > found[6] and equals(buffer, parts[2], parts[3], _SCHEDULE_TOPIC):
            refine |= layout.REFINE_DELAY
        transaction = numbers[row, layout.SYS_FLAG] & TRANSACTION_MASK
        if transaction != TRANSACTION_ROLLBACK and not refine & layout.REFINE_TEXT:
            prefix = (topic_hash * 31 + 35) & _INT32_MASK
            first = key_count
            key_count, bits = _hash_keys(buffer, found, prefix, keys, key_count)
            keys[layout.KEY_RECORD, first:key_count] = row
            refine |= bits
        numbers[row, layout.TAGS_CODE] = tags - (1 << 32) if tags >= 1 << 31 else tags
        numbers[row, layout.REFINE] = refine
        refined |= refine
        numbers[row, layout.GROUP] = layout.NO_GROUP
        if not transaction & TRANSACTION_PREPARED:  # nor rolled back
            numbers[row, layout.GROUP], names_end = group_of(
                buffer, numbers, row, topic_hash, table, firsts, names, name_begins, names_end
            )
        row += 1
        at += size
    return row, key_count, at, names_end, refined
