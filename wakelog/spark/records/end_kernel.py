"""The compiled half of `log_end.py`: for a log's end far behind what is known of it.

Imports numba.
"""

from __future__ import annotations

import numpy as np

from wakelog.spark.records.fields import FIELDS
from wakelog.spark.records.record_walk import RecordWalk, SegmentFile, Sound
from wakelog.spark.records.row_kernel import check_bodies, read_fields
from wakelog.storage.kernels.layout import PHYSICAL_OFFSET, SIZE


def last_sound_end(walk: RecordWalk, file: SegmentFile, begin: int, end: int) -> int | None:
    """Return the end of the last sound record of [begin, end) whose body has its CRC."""
    found = None
    for step in walk.steps(file, begin, end):
        if isinstance(step, Sound):
            found = _last_in_step(walk) or found
    return found


def _last_in_step(walk: RecordWalk) -> int | None:
    """Look from the step's last record backwards: mostly its body is the only one to be read."""
    for row in range(walk.count - 1, -1, -1):
        fields = np.zeros((1, FIELDS), dtype=np.int64)
        sound = np.ones(1, dtype=np.bool_)
        read_fields(walk.bytes, walk.numbers, np.array([row]), fields, walk.has_bodies)
        check_bodies(walk.bytes, fields, sound)
        if sound[0]:
            return int(walk.numbers[row, PHYSICAL_OFFSET] + walk.numbers[row, SIZE])
    return None
