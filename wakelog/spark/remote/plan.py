"""Which ranges of which queues each task pulls.

A queue with something to read is a task, unless `maxRecordsPerPartition` or `minPartitions` ask for
more: sizes are not known before messages are pulled, counts are.

Invariants: the ranges of a plan cover each queue's bounds once, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from wakelog.client.route import QueueAt
from wakelog.spark.bounds import Selection


class PulledRange(NamedTuple):
    """Offsets [begin, end) of a queue."""

    queue: QueueAt
    begin: int
    end: int


class PulledTask(NamedTuple):
    """What one task gets: a range, and what of it is wanted."""

    range: PulledRange
    selection: Selection


class PulledPartition(InputPartition):
    """A task as Spark hands it out."""

    def __init__(self, planned: PulledTask) -> None:
        """Keep it as the partition's value."""
        super().__init__(planned)
        self.planned = planned


def cut(
    ranges: Iterable[PulledRange], *, records_max: int | None, partitions_min: int
) -> list[PulledRange]:
    """Cut ranges into pieces of at most so many messages, and into so many pieces at least."""
    whole = [part for part in ranges if part.begin < part.end]
    total = sum(part.end - part.begin for part in whole)
    goal = max(-(-total // partitions_min), 1) if partitions_min > 1 else max(total, 1)
    if records_max is not None:
        goal = min(goal, records_max)
    return [
        part._replace(begin=begin, end=min(begin + goal, part.end))
        for part in whole
        for begin in range(part.begin, part.end, goal)
    ]
