"""Codes 208, 300, 303, 308 and 317: which groups consume a topic, and how far they have come.

Offsets are copied on the Broker's thread. The ends of queues and the times of messages are read in
the pool, because only the disk may have them. For 50,000 queues that takes seconds, so that it is a
search: short work, such as a pull from the disk, does not wait for it. An offset that was never
committed counts as 0.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.getConsumeStats,
fetchAllConsumeStatsInBroker, queryTopicConsumeByWho, queryConsumeTimeSpan, queryCorrectionOffset
(4.9.3).
"""

from datetime import datetime
from typing import NamedTuple

from wakelog.broker.consumer_offsets import NO_OFFSET
from wakelog.broker.decision import Outcome
from wakelog.broker.effects import Work, WorkKind, make_body
from wakelog.broker.error_response import LimitReached
from wakelog.broker.processors.groups import remove_offsets
from wakelog.broker.state import BrokerState
from wakelog.network.request import Request
from wakelog.protocol.bodies import (
    ConsumeStats,
    ConsumeStatsList,
    GroupList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueryCorrectionOffsetBody,
    QueueTimeSpan,
    TopicConfig,
    encode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.headers.admin import (
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
    QueryCorrectionOffsetHeader,
    TopicRequestHeader,
)
from wakelog.protocol.java import LONG_MAX
from wakelog.protocol.steps import batched
from wakelog.storage.message_store import MessageStore

QUEUES_MAX = 50_000
"""Queues in one response, each of every group: some 3 s of reading and 7 MB. 4.9.3 has no limit."""

GROUPS_PER_STEP = 1_024
"""Some 0.3 ms, if they have no offsets."""

TOPICS_PER_STEP = 256
"""Some 0.3 ms."""


class _Progress(NamedTuple):
    """What to measure of one group's topic."""

    group: str
    topic: str
    queue_count: int
    offsets: dict[int, int]
    tps: float


def get_consume_stats(state: BrokerState, request: Request[GetConsumeStatsRequestHeader]) -> Work:
    """Return how far a group has consumed (code 208); a topic that is unknown is left out."""
    group, topic = request.header.consumer_group, request.header.topic
    blank = topic is None or not topic.strip()
    names = state.offsets.topics_of(group) if blank else [topic or ""]
    found = []
    room_count = QUEUES_MAX
    for number, name in enumerate(names, 1):
        if not number % TOPICS_PER_STEP:
            yield
        config = _consumed_topic(state, group, name)
        if config is not None:
            room_count = _take_room(room_count, config.read_queue_nums)
            found.append(_progress(state, group, name, config.read_queue_nums))

    def work() -> bytes:
        stats = ConsumeStats({}, sum((progress.tps for progress in found), start=0.0))
        for progress in found:
            stats.offset_table |= _measure(state.store, state.config.broker_name, progress)
        return encode_body(stats)

    return (yield from make_body(request, work, WorkKind.SURVEY))


def get_broker_consume_stats(
    state: BrokerState, request: Request[GetConsumeStatsInBrokerHeader]
) -> Work:
    """Return how far every configured group has consumed each of its topics (code 317).

    The queues are those for writing here, where code 208 takes those for reading.
    """
    found: dict[str, list[_Progress]] = {
        name: [] for name in state.groups.wrapper().subscription_group_table
    }
    room_count = QUEUES_MAX
    for number, (group, topic, _queues) in enumerate(state.offsets.committed(), 1):
        if not number % TOPICS_PER_STEP:
            yield
        config = _consumed_topic(state, group, topic) if group in found else None
        if config is None or (request.header.is_order and not config.order):
            continue
        room_count = _take_room(room_count, config.write_queue_nums)
        found[group].append(_progress(state, group, topic, config.write_queue_nums))

    def work() -> bytes:
        body = ConsumeStatsList([], state.config.broker_addr)
        for group, topics in found.items():
            stats = [
                ConsumeStats(_measure(state.store, state.config.broker_name, one), one.tps)
                for one in topics
            ]
            body.consume_stats_list.append({group: stats})
            body.total_diff += sum(one.total_diff() for one in stats)
        return encode_body(body)

    return (yield from make_body(request, work, WorkKind.SURVEY))


def query_consuming_groups(state: BrokerState, request: Request[TopicRequestHeader]) -> Work:
    """Return the groups that subscribe to a topic, or have offsets in it (code 300)."""
    topic = request.header.topic
    subscribed = yield from state.consumers.groups_subscribed(topic)
    committed = yield from state.offsets.groups_of(topic)

    def work() -> bytes:
        return encode_body(GroupList({*subscribed, *committed}))

    return (yield from make_body(request, work, WorkKind.ENCODE))


def query_consume_time_span(
    state: BrokerState, request: Request[QueryConsumeTimeSpanRequestHeader]
) -> Outcome | Work:
    """Return the times of a topic's queues, and how old the next message is (code 303)."""
    name, group = request.header.topic, request.header.group
    topic = state.topics.get(name)
    if topic is None:
        return request.refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    progress = _progress(state, group, name, topic.write_queue_nums)
    _take_room(QUEUES_MAX, progress.queue_count)

    def work() -> bytes:
        queues = range(progress.queue_count)
        broker_name = state.config.broker_name
        spans = [_time_span(state.store, broker_name, progress, x, request.now_ms) for x in queues]
        return encode_body(QueryConsumeTimeSpanBody(spans))

    return make_body(request, work, WorkKind.SURVEY)


def query_correction_offset(
    state: BrokerState, request: Request[QueryCorrectionOffsetHeader]
) -> Work:
    """Return the lowest offset of any group in each queue of a topic (code 308).

    The offsets of the groups to filter are removed for good, in all topics (fact 56). 4.9.3 has a
    group to compare as well, but looks for its offsets under a name that is never there.
    """
    topic = request.header.topic
    for number, group in enumerate((request.header.filter_groups or "").split(","), 1):
        if group.strip():
            yield from remove_offsets(state, group)
        if not number % GROUPS_PER_STEP:
            yield
    groups = yield from state.offsets.groups_of(topic)
    offsets = []
    for some in batched(groups, TOPICS_PER_STEP):
        offsets += [state.offsets.queues(group, topic) for group in some]
        if len(some) == TOPICS_PER_STEP:
            yield

    def work() -> bytes:
        return encode_body(QueryCorrectionOffsetBody(_lowest_offsets(state.store, topic, offsets)))

    return (yield from make_body(request, work, WorkKind.SURVEY))


def _consumed_topic(state: BrokerState, group: str, topic: str) -> TopicConfig | None:
    """Return a topic of a group; None if it is unknown, or the group is online without it."""
    config = state.topics.get(topic)
    return None if state.consumers.lacks_subscription(group, topic) else config


def _progress(state: BrokerState, group: str, topic: str, queue_count: int) -> _Progress:
    offsets = state.offsets.queues(group, topic)
    return _Progress(group, topic, queue_count, offsets, state.traffic.get_tps(topic, group))


def _take_room(room_count: int, queue_count: int) -> int:
    """Return how many more queues an answer may have after these. Raises: LimitReached."""
    if queue_count > room_count:
        raise LimitReached("queues in one answer", QUEUES_MAX)
    return room_count - queue_count


def _measure(
    store: MessageStore, broker_name: str, progress: _Progress
) -> dict[MessageQueue, OffsetWrapper]:
    """Read the end of each queue and the time of the last message consumed.

    Queues that the topic had once are among them while they have messages that nobody consumes.
    """
    table = {}
    topic = progress.topic
    hidden = [
        queue_id
        for queue_id, end in store.queues_beyond(topic, progress.queue_count).items()
        if end > progress.offsets.get(queue_id, 0)
    ]
    for queue_id in [*range(progress.queue_count), *hidden]:
        end = store.max_queue_offset(topic, queue_id)
        offset = max(progress.offsets.get(queue_id, NO_OFFSET), 0)
        last_ms = max(store.store_time_at(topic, queue_id, offset - 1), 0) if offset > 0 else 0
        table[MessageQueue(topic, broker_name, queue_id)] = OffsetWrapper(end, offset, last_ms)
    return table


def _time_span(
    store: MessageStore, broker_name: str, progress: _Progress, queue_id: int, now_ms: int
) -> QueueTimeSpan:
    """Read the times of one queue; where there is no message they are -1, in the delay too."""
    topic = progress.topic
    offset = progress.offsets.get(queue_id, NO_OFFSET)
    end = store.max_queue_offset(topic, queue_id)
    begin_ms = store.earliest_store_time(topic, queue_id)
    end_ms = store.store_time_at(topic, queue_id, end - 1)
    consumed_ms = store.store_time_at(topic, queue_id, offset - 1) if offset > 0 else begin_ms
    delay_ms = now_ms - store.store_time_at(topic, queue_id, offset) if offset < end else 0
    texts = [_local_time(time_ms) for time_ms in (begin_ms, end_ms, consumed_ms)]
    queue = MessageQueue(topic, broker_name, queue_id)
    return QueueTimeSpan(queue, begin_ms, end_ms, consumed_ms, delay_ms, *texts)


def _local_time(time_ms: int) -> str:
    local = datetime.fromtimestamp(time_ms // 1000)
    return f"{local:%Y-%m-%d#%H:%M:%S}:{time_ms % 1000:03}"


def _lowest_offsets(
    store: MessageStore, topic: str, offsets: list[dict[int, int]]
) -> dict[int, int]:
    """Return the lowest offset of each queue that is not below the queue's begin."""
    lowest: dict[int, int] = {}
    for queues in offsets:
        for queue_id, offset in queues.items():
            if offset >= store.min_queue_offset(topic, queue_id):
                lowest[queue_id] = min(offset, lowest.get(queue_id, LONG_MAX))
    return lowest
