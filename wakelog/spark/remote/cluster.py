"""What a cluster has of a query's topics: which queues, and the offsets of each, at one moment.

Invariants: a queue is one that may be read and that the options are about; its range is what its
broker says, begin not above end.

Source: org.apache.rocketmq.client.impl.MQAdminImpl#fetchSubscribeMessageQueues (4.9.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from wakelog.client.broker_calls import BrokerCalls
from wakelog.client.route import QueueAt
from wakelog.protocol.message_record import decode_record
from wakelog.spark.bounds import QueueKey
from wakelog.spark.columns import nearest
from wakelog.spark.errors import DataLost
from wakelog.spark.options import ReadOptions
from wakelog.spark.store_view import QueueRange


class RemoteQueue(NamedTuple):
    """A queue and its messages."""

    at: QueueAt
    range: QueueRange


ClusterView = Mapping[QueueKey, RemoteQueue]


async def look(calls: BrokerCalls, options: ReadOptions) -> ClusterView:
    """Look at all queues that a query may read. Raises: DataLost, ClientError."""
    topics = options.topics
    names: Iterable[str] = topics.named
    if not topics.named:
        names = filter(topics.accept_topic, await calls.routes.topics())
    names = sorted(names)
    routes = await asyncio.gather(*(calls.routes.readable(name) for name in names))
    if topics.named and options.fail_on_data_loss:
        missing = [name for name, found in zip(names, routes, strict=True) if found is None]
        for name in missing:
            others = await calls.routes.topics()
            raise DataLost(
                f"topic {name!r} is at no broker that the name server knows: it was deleted or "
                f"never was{nearest(name, others)}"
            )
    queues = [queue for found in routes for queue in found or () if topics.accept(*queue.key)]
    ranges = await asyncio.gather(*(range_of(calls, queue) for queue in queues))
    return {
        queue.key: RemoteQueue(queue, found) for queue, found in zip(queues, ranges, strict=True)
    }


async def range_of(calls: BrokerCalls, queue: QueueAt) -> QueueRange:
    """Return the messages that a queue has. Raises: ClientError."""
    end, begin = await asyncio.gather(calls.max_offset(queue), calls.min_offset(queue))
    return QueueRange(min(begin, end), end)


async def first_at(calls: BrokerCalls, queue: RemoteQueue, timestamp_ms: int) -> int:
    """Return the offset of the first message stored then or later, the queue's end if none was.

    A broker's own search gives a message near that time, and any of those of one millisecond; from
    there the first is looked for, in steps that grow. Raises: ClientError.
    """
    low, high = queue.range
    if low == high:
        return high
    probe, step = await calls.search_offset(queue.at, timestamp_ms), 1
    while low < high:
        if not low <= probe < high:
            probe = probe if step == 1 else (low + high) // 2
            probe = min(max(probe, low), high - 1)
        if await _stored_ms(calls, queue.at, probe) >= timestamp_ms:
            high, probe = probe, probe - step
        else:
            low, probe = probe + 1, probe + step
        step *= 2
    return low


async def _stored_ms(calls: BrokerCalls, queue: QueueAt, queue_offset: int) -> int:
    """Return when a message was stored; -1 if it is not there any more."""
    found = await calls.pull(queue, queue_offset, 1)
    return decode_record(found.body).store_timestamp_ms if found.body else -1
