"""The columns that a compiled scan fills; `wakelog/compiled/records.h` has the same numbers."""

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

# Bits of REFINE: what the scan leaves to Python.
REFINE_TEXT: Final = 1  # a name, a key or the tags are not ASCII
REFINE_DELAY: Final = 2  # SCHEDULE_TOPIC_XXXX: the tags code is a time
REFINE_MULTI: Final = 4  # INNER_MULTI_DISPATCH: more queues than its own
REFINE_KEYS: Final = 8  # more than RECORD_KEYS_MAX keys

NO_GROUP: Final = -1  # no consume queue entry: a prepared or rolled back message
RECORD_KEYS_MAX: Final = 64  # of one record in the scan; messages have one or two
ENTRY_BYTES: Final = 20  # of a consume queue, and of an index file
