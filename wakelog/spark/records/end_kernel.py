"""The compiled half of `log_end.py`: for a log's end far behind what is known of it.

Imports numba.
"""

from __future__ import annotations

import numpy as np

from wakelog.spark.records.fields import FIELDS
from wakelog.spark.records.record_walk import RecordWalk, SegmentFile, Sound
from wakelog.spark.records.row_kernel import check_bodies, read_fields
from wakelog.storage.bulk.layout import PHYSICAL_OFFSET, SIZE


def last_sound_end(walk: RecordWalk, file: SegmentFile, begin: int, end: int) -> int | None:
    """Return the end of the last sound record of [begin, end) whose body has its CRC."""
    found = None
    for step in walk.steps(file, begin, end):
        if isinstance(step, Sound):
            fields = np.zeros((walk.count, FIELDS), dtype=np.int64)
            rows = np.arange(walk.count)
            read_fields(walk.bytes, walk.shift, walk.numbers, rows, fields)
            sound = np.ones(walk.count, dtype=np.bool_)
            check_bodies(walk.bytes, fields, sound)
            good = np.flatnonzero(sound)
            if len(good):
                last = walk.numbers[good[-1]]
                found = int(last[PHYSICAL_OFFSET] + last[SIZE])
    return found
