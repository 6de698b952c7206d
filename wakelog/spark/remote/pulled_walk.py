"""Pulled records as columns, as `record_walk.py` does for a segment of the log.

Responses of one queue are collected until they fill a batch, and scanned together.

Invariants: all scanned records are sound; a scan that stops early has met a damaged record.
"""

import numpy as np

from wakelog.compiled.layout import GROUP, NO_GROUP, NUMBER_FIELDS
from wakelog.spark.records.column_walk import Scanned
from wakelog.spark.records.functions import FUNCTIONS


class PulledWalk(Scanned):
    """See the module. One owner, one thread.

    Its records have one queue, or none if none is of the queue that was pulled.
    """

    def __init__(self) -> None:
        """Hold no record yet."""
        super().__init__(buffer_bytes=0, records_max=0)

    def scan(self, bodies: list[bytes], topic: str, queue_id: int, records_max: int) -> bool:
        """Scan the bodies of responses; return whether all records are sound.

        records_max: the number of messages in them, as the broker counts.
        """
        self.buffer = bytearray().join(bodies)
        self.numbers = np.zeros((records_max, NUMBER_FIELDS), dtype=np.int64)
        self.count, end = FUNCTIONS.scan_pulled(self.buffer, topic.encode(), queue_id, self.numbers)
        own = np.flatnonzero(self.numbers[: self.count, GROUP] != NO_GROUP)
        self.group_firsts = np.append(own[:1], len(own[:1])).astype(np.int32)
        return end == len(self.buffer)
