"""Which records of a walk a selection wants: asked once a queue, then compared in whole columns.

Invariants: no Python for a single record; a queue is decoded and asked about once a task.
"""

from __future__ import annotations

import numpy as np

from wakelog.protocol.java import LONG_MAX
from wakelog.spark.bounds import Bounds, Selection
from wakelog.spark.records.record_walk import Array, Scanned
from wakelog.storage.bulk.layout import (
    GROUP,
    PHYSICAL_OFFSET,
    QUEUE_ID,
    QUEUE_OFFSET,
    STORE_TIMESTAMP,
    TOPIC_BEGIN,
    TOPIC_BYTES,
)

_NOTHING = Bounds(1, 0, 1, 0)


class Wanted:
    """The records of one broker's log that a selection wants."""

    def __init__(self, selection: Selection, broker: str) -> None:
        """Keep what to ask."""
        self._selection = selection
        self._broker = broker
        self._known: dict[tuple[bytes, int], Bounds] = {}

    def rows(self, walk: Scanned) -> Array:
        """Return the numbers of the wanted records of the walk's last step, in log order."""
        numbers = walk.numbers[: walk.count]
        firsts = walk.group_firsts[: walk.group_count].tolist()
        bounds = [*(self._bounds(walk, first) for first in firsts), _NOTHING]
        # What is in no queue, a prepared or rolled back message, has group -1: the last of these.
        limits = np.array(bounds, dtype=np.int64)[numbers[:, GROUP]]
        offsets, places = numbers[:, QUEUE_OFFSET], numbers[:, PHYSICAL_OFFSET]
        keep = (offsets >= limits[:, 0]) & ((offsets < limits[:, 1]) | (limits[:, 1] == LONG_MAX))
        keep &= (places >= limits[:, 2]) & (places < limits[:, 3])
        if self._selection.store_ms is not None:
            begin_ms, end_ms = self._selection.store_ms
            times = numbers[:, STORE_TIMESTAMP]
            keep &= (times >= begin_ms) & (times < end_ms)
        return np.flatnonzero(keep)

    def _bounds(self, walk: Scanned, row: int) -> Bounds:
        begin = int(walk.numbers[row, TOPIC_BEGIN])
        topic = bytes(walk.buffer[begin : begin + int(walk.numbers[row, TOPIC_BYTES])])
        queue_id = int(walk.numbers[row, QUEUE_ID])
        found = self._known.get((topic, queue_id))
        if found is None:
            name = topic.decode("utf-8", "replace")
            found = self._selection.bounds(self._broker, name, queue_id) or _NOTHING
            self._known[topic, queue_id] = found
        return found
