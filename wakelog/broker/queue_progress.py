"""How far each queue reaches, and how far each group is behind: measured when somebody asks.

Nothing is counted on the way of a message. `select` copies a bounded piece of the offset table, on
the Broker's thread; `measure` then reads queue ends and store times, on any thread, since that may
wait for the disk.

    max offset    where a queue ends for consumers now
    lag           from the offset that a group committed to there; of a queue in which it committed
                  nothing, everything that is there, if it committed in another queue of the topic
    oldest        how long the oldest message that a group has not consumed has been stored

Above QUEUES_MAX, or when `has_time` says that the time is over, the rest is left out and counted:
a scrape that says less is worth more than one that comes too late.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.getConsumeStats (4.9.3), which
takes 0 for an offset that was never committed, also where the queue's begin has been deleted.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from wakelog.broker.consumer_offsets import ConsumerOffsets
from wakelog.storage.message_store import MessageStore

QUEUES_MAX = 2_000
"""Queues in one answer, and queues of groups: 2,000 of each are some 0.2 s of reading, 300 KB.
A broker of 4.9.3 makes 8 queues a topic, so these are 250 topics, each with one group."""


class GroupOffsets(NamedTuple):
    """What one group committed in one topic, by queue id."""

    group: str
    topic: str
    offsets: dict[int, int]


class Selection(NamedTuple):
    """What is measured, and of how many queues of groups there was no room."""

    groups: list[GroupOffsets]
    left_out_count: int


class QueueProgress(msgspec.Struct):
    """Offsets by topic and queue id; lags by group, topic and queue id; ages by group and topic."""

    max_offset: dict[str, dict[int, int]] = {}
    lag: dict[str, dict[str, dict[int, int]]] = {}
    oldest_seconds: dict[str, dict[str, float]] = {}
    left_out: dict[str, int] = msgspec.field(default_factory=lambda: {"queue": 0, "group": 0})


def select(offsets: ConsumerOffsets, queues_max: int = QUEUES_MAX) -> Selection:
    """Copy as much of the table as is measured; of a group's topic all queues or none."""
    groups: list[GroupOffsets] = []
    count = 0
    for group, topic, queues in offsets.committed():
        if count + len(queues) > queues_max:
            break
        count += len(queues)
        groups.append(GroupOffsets(group, topic, dict(queues)))
    return Selection(groups, offsets.queue_count - count)


def measure(
    selection: Selection,
    store: MessageStore,
    now_ms: int,
    has_time: Callable[[], bool],
    queues_max: int = QUEUES_MAX,
) -> QueueProgress:
    """Read where the queues end and how old what waits in them is. Raises: StoreFailed."""
    progress = QueueProgress()
    queues = store.queues()
    left_out = progress.left_out
    left_out["group"] = selection.left_out_count
    for count, (topic, queue_id) in enumerate(_queues(queues)):
        if count >= queues_max or not has_time():
            left_out["queue"] += 1
            continue
        ends = progress.max_offset.setdefault(topic, {})
        ends[queue_id] = store.max_queue_offset(topic, queue_id)
    room_count = queues_max
    for group in selection.groups:
        if group.topic not in queues:
            continue  # deleted, and its offsets are still there
        ends = progress.max_offset.get(group.topic, {})
        room_count -= len(ends)
        if len(ends) < len(queues[group.topic]) or room_count < 0 or not has_time():
            left_out["group"] += len(group.offsets)
        else:
            _measure_group(progress, group, ends, store, now_ms)
    return progress


def _queues(queues: Mapping[str, list[int]]) -> Iterator[tuple[str, int]]:
    """Return every queue by name, so that the same ones are left out each time."""
    for topic in sorted(queues):
        for queue_id in sorted(queues[topic]):
            yield topic, queue_id


def _measure_group(
    progress: QueueProgress,
    group: GroupOffsets,
    ends: Mapping[int, int],
    store: MessageStore,
    now_ms: int,
) -> None:
    lags = progress.lag.setdefault(group.group, {}).setdefault(group.topic, {})
    oldest_ms = now_ms
    for queue_id, end in ends.items():
        begin = group.offsets.get(queue_id, -1)
        if begin < 0:
            begin = store.min_queue_offset(group.topic, queue_id)
        lags[queue_id] = max(0, end - begin)
        if begin < end:
            stored_ms = store.store_time_at(group.topic, queue_id, begin)
            if stored_ms < 0:  # deleted meanwhile: the oldest that is still there
                stored_ms = store.earliest_store_time(group.topic, queue_id)
            oldest_ms = min(oldest_ms, stored_ms if stored_ms >= 0 else now_ms)
    ages = progress.oldest_seconds.setdefault(group.group, {})
    ages[group.topic] = (now_ms - oldest_ms) / 1000
