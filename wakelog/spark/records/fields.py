"""The columns of `row_kernel.read_fields`, apart from numba so that they can be read without it.

What `storage/kernels/layout.py` is to a scan: one int64 row a record, begins and ends are positions
in the walk's buffer. A property that a record lacks has an empty span.
"""

from __future__ import annotations

from typing import Final

RECORD, FLAG, BODY_CRC, BORN_TIMESTAMP, BORN_HOST, STORE_HOST = 0, 1, 2, 3, 4, 5
RECONSUME_TIMES, BODY_BEGIN, BODY_END = 6, 7, 8
KEYS_BEGIN, KEYS_END, TAGS_BEGIN, TAGS_END, UNIQ_BEGIN, UNIQ_END = 9, 10, 11, 12, 13, 14
FIELDS: Final = 15

HOST_TEXT_MAX: Final = 56
"""Characters of a host: a v6 address in brackets and a signed port."""
PAIR_BYTES_MIN: Final = 4
"""Of the properties string for one pair: a name, a value and two separators, but for the last."""
