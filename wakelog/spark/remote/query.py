"""A batch query over the wire: from options to tasks.

Invariants: a plan is made of what brokers say at that moment, and kept in its tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from wakelog.client.broker_calls import BrokerCalls, open_calls
from wakelog.client.options import ClientOptions
from wakelog.spark.bounds import Bounds, QueueKey, Selection
from wakelog.spark.options import ReadOptions
from wakelog.spark.remote.cluster import ClusterView, look
from wakelog.spark.remote.plan import PulledRange, PulledTask, cut
from wakelog.spark.remote.starts import select_queues


def plan_query(options: ReadOptions, narrow: Callable[[Selection], Selection]) -> list[PulledTask]:
    """Plan a batch read; `narrow` adds a query's filters. Raises: SourceError."""

    async def planned() -> list[PulledTask]:
        async with open_calls(remote_options(options)) as calls:
            return await plan_by(calls, options, narrow)

    return asyncio.run(planned())


async def plan_by(
    calls: BrokerCalls, options: ReadOptions, narrow: Callable[[Selection], Selection]
) -> list[PulledTask]:
    """Plan by what brokers say now. Raises: SourceError."""
    view = await look(calls, options)
    selection = narrow(await select_queues(calls, options, view))
    spans: dict[QueueKey, tuple[int, int]] = {}
    for key in view:
        bounds = selection.bounds(*key)
        if bounds is not None:
            begin, end = view[key].range
            spans[key] = max(begin, bounds.queue_begin), min(end, bounds.queue_end)
    return make_tasks(options, view, selection, spans)


def make_tasks(
    options: ReadOptions,
    view: ClusterView,
    selection: Selection,
    spans: Mapping[QueueKey, tuple[int, int]],
) -> list[PulledTask]:
    """Cut what is to be read into tasks."""
    pieces = cut(
        (PulledRange(view[key].at, *span) for key, span in spans.items()),
        records_max=options.partition_records_max,
        partitions_min=options.partitions_min,
    )
    # A task needs to know of its own queue alone; a cluster may have many.
    return [
        PulledTask(
            part,
            selection._replace(
                queues={part.queue.key: Bounds(queue_begin=part.begin, queue_end=part.end)}
            ),
        )
        for part in pieces
    ]


def remote_options(options: ReadOptions) -> ClientOptions:
    """Return how to ask; only queries over the wire get here."""
    assert options.remote is not None
    return options.remote
