"""Divides the bytes to read among tasks.

    bounds of a store, [begin, end)  ->  ranges, one a segment  ->  cut at records  ->  tasks

A range is cut only at the begin of a record. Consume queues or a walk of the segment give it. A
body may contain bytes that look like a record, so a place in the middle proves nothing.

Small ranges share a task, in the order of the log.

Invariants:
- The ranges of a plan cover each store's bounds once. Bytes in no range belong to a missing
  segment, and are a gap.
- The same stores, bounds and limits give the same plan.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from wakelog.spark.records.column_walk import Damage
from wakelog.spark.stores import Segment, StoreLog

PARTITION_BYTES: Final = 128 << 20
"""Bytes of the log in one task, as in Spark's own file sources."""
NARROW_PARTITION_BYTES: Final = 512 << 20
"""For queries without bodies and properties. A task reads its bytes several times as fast, and a
small task would take less time than Spark needs to start it."""
PIECES_MAX: Final = 1000
"""Pieces of one segment: the driver searches for each, and more tasks cost more than they save."""

_LARGE_COLUMNS: Final = frozenset({"body", "value", "properties", "headers"})


class ReadRange(NamedTuple):
    """Bytes [begin, end) of a segment; a record or the file begins at `begin`."""

    broker: str
    segment: Segment
    begin: int
    end: int

    @property
    def size_bytes(self) -> int:
        """The length in bytes."""
        return self.end - self.begin


Task = tuple[ReadRange, ...]
RecordBegins = Callable[[ReadRange, Sequence[int]], list[int]]
"""Return the begin of a record at or after each place of a range, if there is one."""


class Limits(NamedTuple):
    """The size of tasks, and their least number.

    cut_all: cut ranges at every place that `RecordBegins` returns; each piece is a task.
    """

    partition_bytes: int = PARTITION_BYTES
    partitions_min: int = 1
    cut_all: bool = False


class Plan(NamedTuple):
    """Tasks, and the bytes that are in no file: (broker name, damage)."""

    tasks: list[Task]
    gaps: list[tuple[str, Damage]]


def partition_bytes(columns: Collection[str]) -> int:
    """Return the default size of a task for these columns."""
    return NARROW_PARTITION_BYTES if _LARGE_COLUMNS.isdisjoint(columns) else PARTITION_BYTES


def make_plan(
    bounds: Iterable[tuple[StoreLog, int, int]], limits: Limits, record_begins: RecordBegins
) -> Plan:
    """Plan to read [begin, end) of each store."""
    ranges: list[ReadRange] = []
    gaps: list[tuple[str, Damage]] = []
    for store, begin, end in bounds:
        ranges += [ReadRange(store.broker, *part) for part in store.parts(begin, end)]
        gaps += [(store.broker, gap) for gap in _gaps(store, begin, end)]
    total = sum(part.size_bytes for part in ranges)
    share = max(-(-total // max(limits.partitions_min, 1)), 1)
    goal = min(limits.partition_bytes, share)
    pieces = [piece for part in ranges for piece in _cut(part, goal, record_begins, limits)]
    return Plan([(x,) for x in pieces] if limits.cut_all else _packed(pieces, goal), gaps)


def _gaps(store: StoreLog, begin: int, end: int) -> Iterator[Damage]:
    for before, after in itertools.pairwise(store.segments):
        low, high = max(begin, before.end), min(end, after.begin)
        if low < high:
            yield Damage(low, high, "no file of the log holds these bytes")


def _cut(
    part: ReadRange, goal_bytes: int, record_begins: RecordBegins, limits: Limits
) -> list[ReadRange]:
    """Cut a range into pieces of about equal size, at most the goal plus a record."""
    count = min(-(-part.size_bytes // goal_bytes), PIECES_MAX)
    if count <= 1 and not limits.cut_all:
        return [part]
    places = [part.begin + part.size_bytes * i // count for i in range(1, count)]
    inside = {place for place in record_begins(part, places) if part.begin < place < part.end}
    borders = [part.begin, *sorted(inside), part.end]
    return [part._replace(begin=low, end=high) for low, high in itertools.pairwise(borders)]


def _packed(pieces: Iterable[ReadRange], goal_bytes: int) -> list[Task]:
    """Put adjacent pieces into one task up to the goal."""
    tasks: list[Task] = []
    open_bytes = 0
    for piece in pieces:
        if tasks and open_bytes + piece.size_bytes <= goal_bytes:
            tasks[-1] = (*tasks[-1], piece)
            open_bytes += piece.size_bytes
        else:
            tasks.append((piece,))
            open_bytes = piece.size_bytes
    return tasks
