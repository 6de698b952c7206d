"""The queues of a query over the wire: their offsets now, and where each begins and ends.

Invariants: each queue is readable, and the options want it; begin is not above end. Positions mean
what they mean for files (`spark/starts.py`). A time becomes the offset of the first message of that
time or later.

Source: org.apache.rocketmq.client.impl.MQAdminImpl#fetchSubscribeMessageQueues (4.9.3).
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from wakelog.client.broker_calls import BrokerCalls
from wakelog.client.route import QueueAt
from wakelog.spark.bounds import QueueKey
from wakelog.spark.columns import nearest
from wakelog.spark.errors import DataLost, OptionError
from wakelog.spark.options import ReadOptions
from wakelog.spark.positions import (
    EARLIEST,
    EARLIEST_OFFSET,
    LATEST,
    LATEST_OFFSET,
    Offsets,
    Position,
    each_queue,
)
from wakelog.spark.starts import check_there
from wakelog.spark.store_view import QueueRange


class RemoteQueue(NamedTuple):
    """A queue and its messages."""

    at: QueueAt
    range: QueueRange


Queues = Mapping[QueueKey, RemoteQueue]
QueueOffsets = dict[QueueKey, int]


async def find_queues(calls: BrokerCalls, options: ReadOptions) -> Queues:
    """Return all queues that a query may read, with their offsets now.

    Raises: DataLost for a named topic that does not exist; ClientError.
    """
    topics, routes = options.topics, calls.routes
    names = sorted(topics.named or filter(topics.accept_topic, await routes.topics()))
    found = await asyncio.gather(*(routes.readable(name) for name in names))
    if topics.named and options.fail_on_data_loss and None in found:
        missing = names[found.index(None)]
        raise DataLost(
            f"topic {missing!r} is at no broker that the name server knows: it was deleted or "
            f"never existed{nearest(missing, await routes.topics())}"
        )
    queues = [queue for each in found for queue in each or () if topics.accept(*queue.key)]
    ranges = await asyncio.gather(*map(calls.range_of, queues))
    return {
        queue.key: RemoteQueue(queue, QueueRange(*found))
        for queue, found in zip(queues, ranges, strict=True)
    }


async def find_spans(
    calls: BrokerCalls, options: ReadOptions, queues: Queues
) -> dict[QueueKey, tuple[int, int]]:
    """Return [begin, end) of what a batch query reads of each queue.

    Raises: OptionError, DataLost, ClientError.
    """
    begins, ends = await asyncio.gather(
        find_begins(calls, options, queues, default=EARLIEST), _find_ends(calls, options, queues)
    )
    return {key: (begin, max(begin, ends[key])) for key, begin in begins.items()}


async def find_begins(
    calls: BrokerCalls, options: ReadOptions, queues: Queues, *, default: str
) -> QueueOffsets:
    """Return where each queue begins. Raises: OptionError, DataLost, ClientError."""
    position = options.begin
    begins = {key: queue.range.begin for key, queue in queues.items()}
    if position.group:
        return begins | await _group_begins(calls, options, queues)
    if position.time_ms is not None or position.times_ms:
        found = await _at_times(calls, options, queues, position)
        _check_times(options, queues, found)
        return begins | found
    if (position.word or default) == LATEST and not position.offsets:
        return {key: queue.range.end for key, queue in queues.items()}
    return begins | _at_offsets(options, queues, position.offsets, ending=False)


async def _find_ends(calls: BrokerCalls, options: ReadOptions, queues: Queues) -> QueueOffsets:
    position = options.end
    ends = {key: queue.range.end for key, queue in queues.items()}
    if position.time_ms is not None or position.times_ms:
        return ends | await _at_times(calls, options, queues, position)
    return ends | _at_offsets(options, queues, position.offsets, ending=True)


def _broker_names(queues: Queues) -> list[str]:
    return sorted({broker for broker, _, _ in queues})


def _at_offsets(
    options: ReadOptions, queues: Queues, offsets: Offsets, *, ending: bool
) -> QueueOffsets:
    found: QueueOffsets = {}
    for key, offset in each_queue(offsets, options.topics, _broker_names(queues), "broker"):
        queue = queues.get(key)
        if offset >= 0 and options.fail_on_data_loss:
            check_there(key, None if queue is None else queue.range, offset, ending=ending)
        if queue is not None and offset != EARLIEST_OFFSET:
            begin, end = queue.range
            found[key] = end if offset == LATEST_OFFSET else min(max(offset, begin), end)
    return found


async def _group_begins(calls: BrokerCalls, options: ReadOptions, queues: Queues) -> QueueOffsets:
    group = options.begin.group
    committed = await asyncio.gather(
        *(calls.committed_offset(queue.at, group) for queue in queues.values())
    )
    found: QueueOffsets = {}
    for (key, queue), offset in zip(queues.items(), committed, strict=True):
        if offset is not None:
            if options.fail_on_data_loss:
                check_there(key, queue.range, offset)
            found[key] = min(max(offset, queue.range.begin), queue.range.end)
    if not found:
        raise OptionError(f"group {group!r} has committed no offset of these topics")
    return found


async def _at_times(
    calls: BrokerCalls, options: ReadOptions, queues: Queues, position: Position
) -> QueueOffsets:
    if position.time_ms is not None:
        times_ms = dict.fromkeys(queues, position.time_ms)
    else:
        named = each_queue(position.times_ms, options.topics, _broker_names(queues), "broker")
        times_ms = {key: time_ms for key, time_ms in named if key in queues}
    found = await asyncio.gather(
        *(
            calls.first_at(queues[key].at, time_ms, queues[key].range)
            for key, time_ms in times_ms.items()
        )
    )
    return dict(zip(times_ms, found, strict=True))


def _check_times(options: ReadOptions, queues: Queues, found: QueueOffsets) -> None:
    """Refuse a time that is later than all messages: of a broker, or of a queue with its own."""
    if options.by_timestamp_strategy != "error":
        return
    of_brokers = options.begin.time_ms is not None
    some_later = {key[0] for key, place in found.items() if place < queues[key].range.end}
    for key, place in found.items():
        if place == queues[key].range.end and not (of_brokers and key[0] in some_later):
            what = key[0] if of_brokers else f"queue {key[2]} of {key[1]!r} at {key[0]}"
            raise OptionError(
                f"{what} has no message of that time or later; set "
                "startingOffsetsByTimestampStrategy to latest to begin with the next message"
            )
