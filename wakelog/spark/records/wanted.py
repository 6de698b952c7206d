"""Which records of a walk a query selects: decided for each queue, compared as arrays.

Invariants: no Python for a single record; each queue is decoded once in a task.
"""

import numpy as np

from wakelog.compiled.layout import GROUP, NO_GROUP, PHYSICAL_OFFSET, QUEUE_OFFSET
from wakelog.protocol.java import LONG_MAX
from wakelog.spark.bounds import Bounds, Selection
from wakelog.spark.records.column_walk import Array, Scanned

_EVERYTHING = Bounds()
_NOTHING = Bounds(1, 0, 1, 0)


def wanted_records(numbers: Array, limits: list[Bounds]) -> Array:
    """Return the numbers of the records that are in a queue and within its limits."""
    groups = numbers[:, GROUP]
    wanted = groups != NO_GROUP
    if any(bounds != _EVERYTHING for bounds in limits):
        # Behind the queues' limits are those of records in no queue, which is number -1.
        bounds = np.array([*limits, _NOTHING], dtype=np.int64)[groups]
        offsets, places = numbers[:, QUEUE_OFFSET], numbers[:, PHYSICAL_OFFSET]
        wanted &= (offsets >= bounds[:, 0]) & (places >= bounds[:, 2]) & (places < bounds[:, 3])
        wanted &= (offsets < bounds[:, 1]) | (bounds[:, 1] == LONG_MAX)  # which is no bound
    return np.flatnonzero(wanted)


class Wanted:
    """The records of one broker's log that a selection wants."""

    def __init__(self, selection: Selection, broker: str) -> None:
        """Keep the selection and the broker's name."""
        self._selection = selection
        self._broker = broker
        self._known: dict[tuple[bytes, int], Bounds] = {}

    def rows(self, walk: Scanned) -> Array:
        """Return the numbers of the wanted records of the walk's last step, in log order."""
        limits = [self._bounds(queue) for queue in walk.queues()]
        return wanted_records(walk.numbers[: walk.count], limits)

    def _bounds(self, queue: tuple[bytes, int]) -> Bounds:
        found = self._known.get(queue)
        if found is None:
            topic, queue_id = queue[0].decode("utf-8", "replace"), queue[1]
            found = self._selection.bounds(self._broker, topic, queue_id) or _NOTHING
            self._known[queue] = found
        return found
