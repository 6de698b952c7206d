"""Which records of a walk a query selects: decided for each queue, compared in compiled code.

Invariants: no Python for a single record; each queue is decoded once in a task.
"""

import numpy as np

from wakelog.spark.bounds import Bounds, Selection
from wakelog.spark.records.column_walk import Array, Scanned

_NOTHING = Bounds(1, 0, 1, 0)


class Wanted:
    """The records of one broker's log that a selection wants."""

    def __init__(self, selection: Selection, broker: str) -> None:
        """Keep the selection and the broker's name."""
        self._selection = selection
        self._broker = broker
        self._known: dict[tuple[bytes, int], Bounds] = {}

    def rows(self, walk: Scanned) -> Array:
        """Return the numbers of the wanted records of the walk's last step, in log order."""
        # Imports numba, which filled the walk already.
        from wakelog.spark.records.walk_kernel import wanted_records

        limits = np.array([self._bounds(queue) for queue in walk.queues()], dtype=np.int64)
        rows = np.empty(walk.count, dtype=np.int64)
        count = wanted_records(walk.numbers, walk.count, limits.reshape(-1, 4), rows)
        return rows[:count]

    def _bounds(self, queue: tuple[bytes, int]) -> Bounds:
        found = self._known.get(queue)
        if found is None:
            topic, queue_id = queue[0].decode("utf-8", "replace"), queue[1]
            found = self._selection.bounds(self._broker, topic, queue_id) or _NOTHING
            self._known[queue] = found
        return found
