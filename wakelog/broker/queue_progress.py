"""How far each queue reaches and how far each group lags, measured at a scrape.

Nothing is counted for each message. `select` copies a bounded part of the offset table, on the
Broker's thread. `measure` then reads queue ends and store times, on any thread, because it may wait
for the disk. What has not moved since the last time is not read again (`seen_queues.py`). A group
that has committed in other queues of a topic only lags by the whole queue.

Above QUEUES_MAX, or once `has_time` returns False, the rest is left out and counted: a partial
scrape is better than a late one. Queues that groups consume come before others.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.getConsumeStats (4.9.3), which
takes 0 for an offset that was never committed, even if the queue no longer begins there.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from wakelog.broker.broker_stats import RecentTraffic
from wakelog.broker.consumer_offsets import ConsumerOffsets
from wakelog.broker.seen_queues import SeenQueues

QUEUES_MAX = 2_000
"""Queues in one answer, and queues of groups: 2,000 of each are some 0.2 s of reading, 300 KB.
A broker of 4.9.3 makes 8 queues a topic, so these are 250 topics, each with one group."""


class Selection(NamedTuple):
    """What to measure: group, topic and offset by queue id, and the queues above the limit."""

    groups: list[tuple[str, str, dict[int, int]]]
    left_out_count: int


class QueueProgress(msgspec.Struct):
    """Offsets by topic and queue id; lags by group, topic and queue id; else by group and topic.

    consumed: sums of committed offsets. oldest_seconds: ages. catch_up_seconds: when a group will
    have consumed everything, if both sides go on as in the last minute; infinite for never.
    """

    max_offset: dict[str, dict[int, int]] = {}
    lag: dict[str, dict[str, dict[int, int]]] = {}
    consumed: dict[str, dict[str, int]] = {}
    oldest_seconds: dict[str, dict[str, float]] = {}
    catch_up_seconds: dict[str, dict[str, float]] = {}
    left_out: dict[str, int] = msgspec.field(default_factory=lambda: {"queue": 0, "group": 0})


def select(offsets: ConsumerOffsets, queues_max: int = QUEUES_MAX) -> Selection:
    """Copy the part of the table to measure; of a group's topic all queues or none."""
    groups = []
    count = 0
    for group, topic, queues in offsets.committed():
        if count + len(queues) > queues_max:
            break
        count += len(queues)
        groups.append((group, topic, dict(queues)))
    return Selection(groups, offsets.queue_count - count)


def measure(
    selection: Selection,
    seen: SeenQueues,
    now_ms: int,
    has_time: Callable[[], bool],
    minute: RecentTraffic,
    queues_max: int = QUEUES_MAX,
) -> QueueProgress:
    """Read the ends of the queues and the ages of their oldest messages. Raises: StoreFailed.

    seen: what the last measurement read. minute: the traffic by which groups catch up.
    """
    progress = QueueProgress()
    seen.begin()
    queues = seen.queues()
    left_out = progress.left_out
    left_out["group"] = selection.left_out_count
    # By name, so that the same queues are left out each time.
    wanted = sorted({topic for _, topic, _ in selection.groups} & queues.keys())
    measured_count = _measure_ends(progress, seen, wanted, has_time, queues_max)
    room_count = queues_max
    for group, topic, offsets in selection.groups:
        if topic not in queues:
            continue  # the topic is deleted, its offsets are still stored
        ends = progress.max_offset.get(topic, {})
        room_count -= len(ends)
        if len(ends) < len(queues[topic]) or room_count < 0 or not has_time():
            left_out["group"] += len(offsets)
            continue
        lags, oldest_ms = _measure_group(seen, topic, offsets, ends, now_ms)
        progress.lag.setdefault(group, {})[topic] = lags
        progress.consumed.setdefault(group, {})[topic] = sum(max(0, x) for x in offsets.values())
        progress.oldest_seconds.setdefault(group, {})[topic] = (now_ms - oldest_ms) / 1000
        catch_up_seconds = _catch_up_seconds(sum(lags.values()), minute, group, topic)
        progress.catch_up_seconds.setdefault(group, {})[topic] = catch_up_seconds
    if measured_count < min(queues_max, seen.queue_count):
        others = (topic for topic in queues if topic not in progress.max_offset)
        room_count = queues_max - measured_count
        measured_count += _measure_ends(progress, seen, others, has_time, room_count)
    left_out["queue"] = seen.queue_count - measured_count
    return progress


def _measure_ends(
    progress: QueueProgress,
    seen: SeenQueues,
    topics: Iterable[str],
    has_time: Callable[[], bool],
    queues_max: int,
) -> int:
    """Add the ends of the queues of topics; return for how many there was room and time."""
    queues = seen.queues()
    count = 0
    for topic in topics:
        for queue_id in queues[topic]:
            if count >= queues_max or not has_time():
                return count
            count += 1
            progress.max_offset.setdefault(topic, {})[queue_id] = seen.end(topic, queue_id)
    return count


def _catch_up_seconds(lag: int, minute: RecentTraffic, group: str, topic: str) -> float:
    if not lag:
        return 0.0
    gained_tps = minute.gets.tps((topic, group)) - minute.puts.tps(topic)
    return lag / gained_tps if gained_tps > 0 else math.inf


def _measure_group(
    seen: SeenQueues,
    topic: str,
    offsets: Mapping[int, int],
    ends: Mapping[int, int],
    now_ms: int,
) -> tuple[dict[int, int], int]:
    """Return the lag by queue id, and the store time of the oldest message not consumed."""
    lags = {}
    oldest_ms = now_ms
    for queue_id, end in ends.items():
        begin = offsets.get(queue_id, -1)
        if begin < 0:
            begin = seen.store.min_queue_offset(topic, queue_id)
        lags[queue_id] = max(0, end - begin)
        if begin < end:
            stored_ms = seen.stored_ms(topic, queue_id, begin)
            if stored_ms < 0:  # deleted by now: take the oldest that is left
                stored_ms = seen.store.earliest_store_time(topic, queue_id)
            oldest_ms = min(oldest_ms, stored_ms if stored_ms >= 0 else now_ms)
    return lags, oldest_ms
