"""The plan of a query over the wire: which offsets of which queue each task pulls.

A queue with messages to read is one task, unless `maxRecordsPerPartition` or `minPartitions` ask
for more. Counts are known before the pull, sizes are not.

Invariants: the ranges of a plan cover each queue's bounds once, and nothing else. A plan uses what
the brokers say at that moment, and its tasks keep it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, TypeAlias, TypeVar

from wakelog.client.broker_calls import BrokerCalls, open_calls
from wakelog.client.options import ClientOptions
from wakelog.client.route import QueueAt
from wakelog.spark.bounds import Bounds, QueueKey, Selection
from wakelog.spark.errors import in_words_of_spark
from wakelog.spark.options import ReadOptions
from wakelog.spark.remote.queues import Queues, find_queues, find_spans

Answer = TypeVar("Answer")
Connect: TypeAlias = Callable[[ClientOptions], AbstractAsyncContextManager[BrokerCalls]]


class PulledRange(NamedTuple):
    """Offsets [begin, end) of a queue."""

    queue: QueueAt
    begin: int
    end: int


class PulledTask(NamedTuple):
    """The range of one task, and what the query wants of it."""

    range: PulledRange
    selection: Selection


def plan_query(options: ReadOptions, connect: Connect = open_calls) -> list[PulledTask]:
    """Plan a batch read by what brokers say now. Raises: SourceError, ClientError."""

    async def plan(calls: BrokerCalls) -> list[PulledTask]:
        queues = await find_queues(calls, options)
        return make_tasks(options, queues, await find_spans(calls, options, queues))

    return ask(options, plan, connect)


def ask(
    options: ReadOptions, question: Callable[[BrokerCalls], Awaitable[Answer]], connect: Connect
) -> Answer:
    """Connect to the brokers of a query for one question, and return its answer."""

    async def asked() -> Answer:
        async with connect(remote_options(options)) as calls:
            return await question(calls)

    with in_words_of_spark():
        return asyncio.run(asked())


def make_tasks(
    options: ReadOptions, queues: Queues, spans: Mapping[QueueKey, tuple[int, int]]
) -> list[PulledTask]:
    """Cut the offsets to read into tasks. spans: [begin, end) of each queue."""
    pieces = cut(
        (PulledRange(queues[key].at, *span) for key, span in spans.items()),
        records_max=options.partition_records_max,
        partitions_min=options.partitions_min,
    )
    selection = Selection(options.topics, tags=options.tags, sql=options.sql)
    tasks = []
    for part in pieces:
        # A task needs the bounds of its own queue only; a cluster may have many queues.
        own = {part.queue.key: Bounds(queue_begin=part.begin, queue_end=part.end)}
        tasks.append(PulledTask(part, selection._replace(queues=own)))
    return tasks


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
