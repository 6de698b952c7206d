"""The shape of what a compiled scan fills, apart from numba so that it can be read without it.

numba keeps compiled code by the time of the file that holds the function, not of this one. So
`loader.py` tries the kernels on a record before it trusts them.
"""

from __future__ import annotations

from typing import Final

# Fields of a row of `numbers` (int64), one row a record: a record touches two cache lines then.
# Begins are positions in the scanned buffer.
PHYSICAL_OFFSET, SIZE, QUEUE_ID, QUEUE_OFFSET, SYS_FLAG = 0, 1, 2, 3, 4
STORE_TIMESTAMP, PREPARED_OFFSET, TAGS_CODE = 5, 6, 7
TOPIC_BEGIN, TOPIC_BYTES, PROPERTIES_BEGIN, PROPERTIES_BYTES = 8, 9, 10, 11
REFINE, GROUP = 12, 13
NUMBER_FIELDS: Final = 14

# Rows of `keys` (int32), one column an index key in the order of putting.
KEY_HASH, KEY_RECORD = 0, 1
KEY_ROWS: Final = 2

# Bits of REFINE: what the kernel leaves to Python.
REFINE_TEXT: Final = 1  # a name, a key or the tags are not ASCII
REFINE_DELAY: Final = 2  # SCHEDULE_TOPIC_XXXX: the tags code is a time
REFINE_MULTI: Final = 4  # INNER_MULTI_DISPATCH: queues beside its own
REFINE_KEYS: Final = 8  # more keys than the kernel takes of one record

NO_GROUP: Final = -1  # no consume queue entry: a prepared or rolled back message
NAME_BYTES_MAX: Final = 127  # of a topic: its length is a signed byte
RECORD_KEYS_MAX: Final = 64  # of one record in the kernel; messages have one or two
ENTRY_BYTES: Final = 20  # of a consume queue and of an index file alike
