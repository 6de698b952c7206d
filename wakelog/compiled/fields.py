"""The fields of records that rows need beside a walk's numbers, one row of `fields` for a record.

Begins and ends are positions in the walk's buffer. A property that a record lacks has an empty
span. `wakelog/compiled/rows.h` has the same order.
"""

from typing import Final

RECORD, FLAG, BODY_CRC, BORN_TIMESTAMP, BORN_HOST, STORE_HOST = 0, 1, 2, 3, 4, 5
RECONSUME_TIMES, BODY_BEGIN, BODY_END = 6, 7, 8
KEYS_BEGIN, KEYS_END, TAGS_BEGIN, TAGS_END, UNIQ_BEGIN, UNIQ_END = 9, 10, 11, 12, 13, 14
FIELDS: Final = 15

PAIR_BYTES_MIN: Final = 4
"""Of the properties string for one pair: a name, a value and two separators, but for the last."""
PAIRS_TABLE: Final = 1 << 14
"""A power of two above twice the pairs of 32 KiB of properties."""
