"""Answers to pulls as columns: what `record_walk.py` is to a segment of the log.

Answers of one queue are gathered until there is enough for a batch, and scanned together.

Invariants: what is scanned is sound; where the scan stops before the end, a record is damaged.
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
        """Hold nothing; `scan_pulled` is `pulled_kernel.scan_pulled`."""
        self._scan_pulled = scan_pulled
        self.buffer = bytearray()
        self.bytes: Array = np.frombuffer(self.buffer, dtype=np.uint8)
        self.numbers: Array = np.zeros((0, NUMBER_FIELDS), dtype=np.int64)
        self.group_firsts: Array = np.zeros(1, dtype=np.int32)
        self.count = 0

    @property
    def group_count(self) -> int:
        """How many queues the records are of: one, or none if they are not what was asked for."""
        return len(self.group_firsts) - 1

    def scan(self, bodies: list[bytes], topic: str, queue_id: int, records_max: int) -> bool:
        """Scan the bodies of answers; return whether all of them was sound.

        records_max: more are not in them, as the broker counts.
        """
        self.buffer = bytearray().join(bodies)
        self.bytes = np.frombuffer(self.buffer, dtype=np.uint8)
        self.numbers = np.zeros((records_max, NUMBER_FIELDS), dtype=np.int64)
        name = np.frombuffer(topic.encode(), dtype=np.uint8)
        self.count, end = self._scan_pulled(self.bytes, name, queue_id, self.numbers)
        own = np.flatnonzero(self.numbers[: self.count, GROUP] != NO_GROUP)
        self.group_firsts = np.append(own[:1], len(own[:1])).astype(np.int32)
        return end == len(self.buffer)
