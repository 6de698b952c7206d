"""Which ranges of which files each task reads.

    bounds of a store, [begin, end)  ->  ranges, one a segment  ->  cut at records  ->  tasks

A range is cut only where a record is known to begin: consume queues say where, or the segment is
walked. A body may hold bytes that look like a record, so that a place in the middle proves nothing.

Small ranges share a task, in the order of the log.

Invariants:
- The ranges of a plan cover each store's bounds once: no byte is in two of them, and what is in
  none belongs to a segment that is missing, which is a gap.
- The same stores, bounds and limits give the same plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from wakelog.spark.records.record_walk import Damage
from wakelog.spark.stores import Segment, StoreLog

PARTITION_BYTES: Final = 128 << 20
"""Of the log in one task, as of files in Spark's own sources."""
NARROW_PARTITION_BYTES: Final = 512 << 20
"""Where neither bodies nor properties are asked for: such a task reads its bytes some times as fast
and would take less time than Spark takes to hand it out."""
PIECES_MAX: Final = 1000
"""Of one segment: each is looked for on the driver, and more tasks cost more than they read."""


_LARGE_COLUMNS: Final = frozenset({"body", "value", "properties", "headers"})


class ReadRange(NamedTuple):
    """Bytes [begin, end) of a segment, in physical offsets; `begin` is a record's or the file's."""

    broker: str
    segment: Segment
    begin: int
    end: int

    @property
    def size_bytes(self) -> int:
        """How long it is."""
        return self.end - self.begin


Task = tuple[ReadRange, ...]
RecordBegins = Callable[[ReadRange, Sequence[int]], list[int]]
"""Finds, for each place in a range, a record's begin at or behind it; fewer if there is none."""


class Limits(NamedTuple):
    """How large tasks are, and how many there are at least.

    cut_all: ranges are cut wherever `RecordBegins` says, and each piece is a task.
    """

    partition_bytes: int = PARTITION_BYTES
    partitions_min: int = 1
    cut_all: bool = False


class Plan(NamedTuple):
    """Tasks, and what of the bounds no file holds: (broker name, damage)."""

    tasks: list[Task]
    gaps: list[tuple[str, Damage]]


def partition_bytes(columns: Collection[str]) -> int:
    """Return how much of the log a task reads for these columns, if nobody says."""
    return NARROW_PARTITION_BYTES if _LARGE_COLUMNS.isdisjoint(columns) else PARTITION_BYTES


def make_plan(
    bounds: Iterable[tuple[StoreLog, int, int]], limits: Limits, record_begins: RecordBegins
) -> Plan:
    """Plan to read [begin, end) of each store."""
    ranges: list[ReadRange] = []
    gaps: list[tuple[str, Damage]] = []
    for store, begin, end in bounds:
        ranges += _ranges(store, begin, end)
        gaps += [(store.broker, gap) for gap in _gaps(store, begin, end)]
    total = sum(part.size_bytes for part in ranges)
    share = max(-(-total // max(limits.partitions_min, 1)), 1)
    goal = min(limits.partition_bytes, share)
    pieces = [piece for part in ranges for piece in _cut(part, goal, record_begins, limits)]
    return Plan([(x,) for x in pieces] if limits.cut_all else _packed(pieces, goal), gaps)


def _ranges(store: StoreLog, begin: int, end: int) -> Iterator[ReadRange]:
    for segment in store.segments:
        low, high = max(begin, segment.begin), min(end, segment.end)
        if low < high:
            yield ReadRange(store.broker, segment, low, high)


def _gaps(store: StoreLog, begin: int, end: int) -> Iterator[Damage]:
    for before, behind in zip(store.segments, store.segments[1:], strict=False):
        low, high = max(begin, before.end), min(end, behind.begin)
        if low < high:
            yield Damage(low, high, "no file of the log holds these bytes")


def _cut(
    part: ReadRange, goal_bytes: int, record_begins: RecordBegins, limits: Limits
) -> list[ReadRange]:
    """Cut a range into about equal pieces of at most the goal, give or take a record."""
    count = min(-(-part.size_bytes // goal_bytes), PIECES_MAX)
    if count <= 1 and not limits.cut_all:
        return [part]
    places = [part.begin + part.size_bytes * i // count for i in range(1, count)]
    inside = {place for place in record_begins(part, places) if part.begin < place < part.end}
    borders = [part.begin, *sorted(inside), part.end]
    return [part._replace(begin=low, end=high) for low, high in itertools.pairwise(borders)]


def _packed(pieces: Iterable[ReadRange], goal_bytes: int) -> list[Task]:
    """Put neighbours into one task while they fit the goal."""
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
