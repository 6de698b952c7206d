"""What a dispatched batch causes outside: arrivals for held pulls, or a slave's put statistics.

A record that got a queue entry is an arrival in its own queue and in each further one
(`multi_dispatch.py`). As in 4.9.3 that holds even if multi dispatch is disabled. A bulk batch makes
one arrival for each queue: a held pull has something to read there, whatever its tags.

Source: org.apache.rocketmq.store.DefaultMessageStore.ReputMessageService#doReput,
#notifyMessageArrive4MultiQueue (4.9.3), which also notifies of messages without a queue entry.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from wakelog.compiled.layout import (
    GROUP,
    NO_GROUP,
    QUEUE_OFFSET,
    REFINE,
    REFINE_MULTI,
    SIZE,
    TAGS_CODE,
)
from wakelog.dispatchers.dispatcher import DispatchBatch
from wakelog.protocol.sys_flag import CONSUMED_TYPES, transaction_type
from wakelog.storage.columns.scan_columns import Columns
from wakelog.storage.log.dispatch_request import DispatchRequest
from wakelog.storage.log.multi_dispatch import multi_targets
from wakelog.storage.queue.entries import Arrival


class TopicPuts(NamedTuple):
    """A slave's counts of a topic, made at dispatch; a master counts at put."""

    messages_count: int
    messages_bytes: int


def batch_arrivals(batch: DispatchBatch, *, enable_lmq: bool) -> list[Arrival]:
    """Return the arrivals of a batch, in log order, or by queue for a bulk batch."""
    if batch.columns is None:
        requests = batch.requests
        arrivals = [_arrival(request) for request in requests if _is_visible(request)]
    else:
        requests = _multi_requests(batch.columns)
        arrivals = _column_arrivals(batch.columns)
    for request in requests:
        if request.properties and _is_visible(request):
            for topic, queue_id, queue_offset in multi_targets(
                request.properties, request.queue_id, enable_lmq=enable_lmq
            ):
                further = _arrival(request)._replace(
                    topic=topic, queue_id=queue_id, next_queue_offset=queue_offset + 1
                )
                arrivals.append(further)
    return arrivals


def count_puts(batch: DispatchBatch, topic_puts: dict[str, TopicPuts]) -> None:
    """Add each record of a batch to the puts of its topic."""
    columns = batch.columns
    found = (
        ((request.topic, TopicPuts(1, request.size_bytes)) for request in batch.requests)
        if columns is None
        else _column_puts(columns)
    )
    for topic, (count, size_bytes) in found:
        puts = topic_puts.get(topic, TopicPuts(0, 0))
        topic_puts[topic] = TopicPuts(puts.messages_count + count, puts.messages_bytes + size_bytes)


def _column_puts(columns: Columns) -> Iterator[tuple[str, TopicPuts]]:
    """Yield what each queue has got, then each record that no queue gets."""
    numbers = columns.numbers[: columns.count]
    groups = numbers[:, GROUP]
    # Place 0 is of records without a group: NO_GROUP is -1.
    counts = np.bincount(groups + 1)[1:].tolist()
    sizes = np.bincount(groups + 1, weights=numbers[:, SIZE])[1:].tolist()
    for group, count, size_bytes in zip(columns.groups(), counts, sizes, strict=True):
        yield group.topic, TopicPuts(count, int(size_bytes))
    for row in np.flatnonzero(groups == NO_GROUP).tolist():
        yield columns.topic(row), TopicPuts(1, int(numbers[row, SIZE]))


def _column_arrivals(columns: Columns) -> list[Arrival]:
    groups = columns.groups()
    # By column: a value of a row alone takes as long as an arrival.
    lasts = columns.numbers[columns.order[[group.end - 1 for group in groups]]]
    tags_codes = lasts[:, TAGS_CODE].tolist()
    return list(
        map(
            Arrival,
            [group.topic for group in groups],
            [group.queue_id for group in groups],
            (lasts[:, QUEUE_OFFSET] + 1).tolist(),
            [
                tags_code if group.end - group.begin == 1 else None
                for group, tags_code in zip(groups, tags_codes, strict=True)
            ],
        )
    )


def _multi_requests(columns: Columns) -> list[DispatchRequest]:
    marked = columns.numbers[:, REFINE]
    return [columns.request(row) for row in columns.refined if marked[row] & REFINE_MULTI]


def _is_visible(request: DispatchRequest) -> bool:
    return transaction_type(request.sys_flag) in CONSUMED_TYPES


def _arrival(request: DispatchRequest) -> Arrival:
    return Arrival(
        request.topic,
        request.queue_id,
        request.queue_offset + 1,
        request.tags_code,
    )
