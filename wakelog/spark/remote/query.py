"""The plan of a query over the wire: which offsets of which queue each task pulls.

A queue with messages to read is one task, unless `maxRecordsPerPartition` or `minPartitions` ask
for more. Counts are known before the pull, sizes are not.

Invariants: the ranges of a plan cover each queue's bounds once, and nothing else. A plan uses what
the brokers say at that moment, and its tasks keep it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from wakelog.client.broker_calls import BrokerCalls, open_calls
from wakelog.client.options import ClientOptions
from wakelog.client.route import QueueAt
from wakelog.spark.bounds import Bounds, QueueKey, Selection
from wakelog.spark.options import ReadOptions
from wakelog.spark.remote.queues import Queues, find_queues, select_queues


class PulledRange(NamedTuple):
    """Offsets [begin, end) of a queue."""

    queue: QueueAt
    begin: int
    end: int


class PulledTask(NamedTuple):
    """The range of one task, and what the query wants of it."""

    range: PulledRange
    selection: Selection


def plan_query(options: ReadOptions) -> list[PulledTask]:
    """Plan a batch read. Raises: SourceError, ClientError."""

    async def plan() -> list[PulledTask]:
        async with open_calls(remote_options(options)) as calls:
            return await plan_with(calls, options)

    return asyncio.run(plan())


async def plan_with(calls: BrokerCalls, options: ReadOptions) -> list[PulledTask]:
    """Plan by what brokers say now. Raises: SourceError, ClientError."""
    queues = await find_queues(calls, options)
    selection = await select_queues(calls, options, queues)
    spans = {
        key: (bounds.queue_begin, bounds.queue_end) for key, bounds in selection.queues.items()
    }
    return make_tasks(options, queues, selection, spans)


def make_tasks(
    options: ReadOptions,
    queues: Queues,
    selection: Selection,
    spans: Mapping[QueueKey, tuple[int, int]],
) -> list[PulledTask]:
    """Cut the offsets to read into tasks. spans: [begin, end) of each queue."""
    pieces = cut(
        (PulledRange(queues[key].at, *span) for key, span in spans.items()),
        records_max=options.partition_records_max,
        partitions_min=options.partitions_min,
    )
    # A task needs the bounds of its own queue only; a cluster may have many queues.
    return [
        PulledTask(
            part,
            selection._replace(
                queues={part.queue.key: Bounds(queue_begin=part.begin, queue_end=part.end)}
            ),
        )
        for part in pieces
    ]


def cut(
    ranges: Iterable[PulledRange], *, records_max: int | None, partitions_min: int
) -> list[PulledRange]:
    """Cut ranges into at least `partitions_min` pieces of at most `records_max` messages."""
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


def remote_options(options: ReadOptions) -> ClientOptions:
    """Return the client's options of a query over the wire."""
    assert options.remote is not None
    return options.remote
