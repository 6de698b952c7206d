"""Pulled records as columns, as `record_walk.py` does for a segment of the log.

Responses of one queue are collected until they fill a batch, and scanned together.

Invariants: all scanned records are sound; a scan that stops early has met a damaged record.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wakelog.spark.records.record_walk import Array
from wakelog.storage.kernels.layout import GROUP, NO_GROUP, NUMBER_FIELDS

ScanPulled = Callable[[Array, Array, int, Array], tuple[int, int]]


class PulledWalk:
    """See the module; a `Scanned` for `Rows`. One owner, one thread."""

    has_bodies = True

    def __init__(self, scan_pulled: ScanPulled) -> None:
        """scan_pulled: `pulled_kernel.scan_pulled`, or the same in plain Python."""
        self._scan_pulled = scan_pulled
        self.buffer = bytearray()
        self.bytes: Array = np.frombuffer(self.buffer, dtype=np.uint8)
        self.numbers: Array = np.zeros((0, NUMBER_FIELDS), dtype=np.int64)
        self.group_firsts: Array = np.zeros(1, dtype=np.int32)
        self.count = 0

    @property
    def group_count(self) -> int:
        """The number of queues: one, or 0 if no record is of the queue that was pulled."""
        return len(self.group_firsts) - 1

    def scan(self, bodies: list[bytes], topic: str, queue_id: int, records_max: int) -> bool:
        """Scan the bodies of responses; return whether all records are sound.

        records_max: the number of messages in them, as the broker counts.
        """
        self.buffer = bytearray().join(bodies)
        self.bytes = np.frombuffer(self.buffer, dtype=np.uint8)
        self.numbers = np.zeros((records_max, NUMBER_FIELDS), dtype=np.int64)
        name = np.frombuffer(topic.encode(), dtype=np.uint8)
        self.count, end = self._scan_pulled(self.bytes, name, queue_id, self.numbers)
        own = np.flatnonzero(self.numbers[: self.count, GROUP] != NO_GROUP)
        self.group_firsts = np.append(own[:1], len(own[:1])).astype(np.int32)
        return end == len(self.buffer)
