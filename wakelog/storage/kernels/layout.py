"""The columns that a compiled scan fills. This module does not import numba.

numba decides by the time of a kernel's own file whether its cached code is still good. It does not
notice a change of this file, so that `loader.py` tries the kernels on a record first.
"""

from typing import Final

# Fields of a row of `numbers` (int64), one row for a record, so that one touches two cache lines.
# Begins are positions in the scanned buffer.
PHYSICAL_OFFSET, SIZE, QUEUE_ID, QUEUE_OFFSET, SYS_FLAG = 0, 1, 2, 3, 4
STORE_TIMESTAMP, PREPARED_OFFSET, TAGS_CODE = 5, 6, 7
TOPIC_BEGIN, TOPIC_BYTES, PROPERTIES_BEGIN, PROPERTIES_BYTES = 8, 9, 10, 11
REFINE, GROUP = 12, 13
NUMBER_FIELDS: Final = 14

# Rows of `keys` (int32), one column for each index key, in the order in which keys are put.
KEY_HASH, KEY_RECORD = 0, 1
KEY_ROWS: Final = 2

# Bits of REFINE: what the kernel leaves to Python.
REFINE_TEXT: Final = 1  # a name, a key or the tags are not ASCII
REFINE_DELAY: Final = 2  # SCHEDULE_TOPIC_XXXX: the tags code is a time
REFINE_MULTI: Final = 4  # INNER_MULTI_DISPATCH: more queues than its own
REFINE_KEYS: Final = 8  # more than RECORD_KEYS_MAX keys

NO_GROUP: Final = -1  # no consume queue entry: a prepared or rolled back message
RECORD_KEYS_MAX: Final = 64  # of one record in the kernel; messages have one or two
PARTS_COUNT: Final = 4  # room for the places that `record_kernel.sound_size` finds
PLACES_COUNT: Final = 10  # room for those that `text_kernel.find_properties` finds
ENTRY_BYTES: Final = 20  # of a consume queue, and of an index file
