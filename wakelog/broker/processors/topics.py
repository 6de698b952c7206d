"""Codes 17, 21, 202, 215, 305, 306, 316 and 351: define, show and delete topics, remove queues.

A topic is deleted in four steps. It leaves the table, which is saved. Its queues take no more
messages. Reput notes durably which records have no queue any more, and removes the files. Then the
name may be used again, and its queues start at 0.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.updateAndCreateTopic,
getAllTopicConfig, getTopicStatsInfo, getSystemTopicListFromBroker, deleteTopic,
cleanExpiredConsumeQueue, cleanUnusedTopic,
org.apache.rocketmq.store.DefaultMessageStore.cleanUnusedTopic, cleanExpiredConsumerQueue (4.9.3);
AdminBrokerProcessor.getTopicConfig (5.3.3).
"""

from functools import partial
from typing import Any

from wakelog.broker.decision import Outcome
from wakelog.broker.effects import InPool, Registered, Removed, Work, WorkKind, make_body
from wakelog.broker.names import check_any_topic, check_topic, is_lmq
from wakelog.broker.state import BrokerState
from wakelog.broker.topics import QUEUE_COUNT_MAX
from wakelog.network.driver import NOW
from wakelog.network.request import Request
from wakelog.protocol.bodies import (
    DELETED_ENDS_FIELD,
    FILTER_MULTI_TAG,
    FILTER_SINGLE_TAG,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicOffset,
    TopicsForSlave,
    TopicStatsTable,
    encode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.headers.admin import CreateTopicRequestHeader, TopicRequestHeader
from wakelog.protocol.names import SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from wakelog.storage.durability.deleted_topics import QueueRemoval
from wakelog.storage.log.queue_offsets import QueueKey
from wakelog.storage.message_store import MessageStore

_PERM_MAX = 15
_NEVER_UNUSED = frozenset({SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC})


def update_and_create_topic(state: BrokerState, request: Request[CreateTopicRequestHeader]) -> Work:
    """Define a topic (code 17); ``order`` and ``defaultTopic`` are ignored (fact 27)."""
    header = request.header
    check_topic(header.topic)
    _refuse_system_topic(state, header.topic)
    _check_values(header)
    topic = TopicConfig(
        topic_name=header.topic,
        read_queue_nums=header.read_queue_nums,
        write_queue_nums=header.write_queue_nums,
        perm=header.perm,
        topic_filter_type=header.topic_filter_type,
        topic_sys_flag=header.topic_sys_flag or 0,
    )
    state.topics.update(topic, request.now_ms)
    yield Registered(state.config.register_broker_timeout_mills / 1000)
    return request.success()


def get_all_topic_config(state: BrokerState, request: Request[None]) -> Work:
    """Return the table of topics (code 21)."""
    topics = state.topics.wrapper()
    work = partial(encode_body, topics)
    if DELETED_ENDS_FIELD in request.command.ext_fields:
        work = partial(_topics_for_slave, state.store, topics)
    return make_body(request, work, WorkKind.ENCODE)


def _topics_for_slave(store: MessageStore, topics: TopicConfigSerializeWrapper) -> bytes:
    table, version = topics.topic_config_table, topics.data_version
    return encode_body(TopicsForSlave(table, version, store.deleted_ends()))


def get_topic_config(state: BrokerState, request: Request[TopicRequestHeader]) -> Outcome:
    """Return one topic (code 351)."""
    name = request.header.topic
    topic = state.topics.get(name)
    if topic is None:
        remark = f"No topic in this broker. topic: {name}"
        return request.refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
    return request.success(body=encode_body(topic))


def get_topic_stats_info(
    state: BrokerState, request: Request[TopicRequestHeader]
) -> Outcome | Work:
    """Return both ends and the last store time of each queue of a topic (code 202)."""
    name = request.header.topic
    topic = state.topics.get(name)
    if topic is None:
        return request.refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    broker_name, queue_count = state.config.broker_name, topic.write_queue_nums
    work = partial(_topic_stats, state.store, name, broker_name, queue_count)
    return make_body(request, work, WorkKind.SURVEY)


def get_system_topics(state: BrokerState, request: Request[None]) -> Outcome:
    """Return the names of the system's topics (code 305); tools hide them."""
    body = TopicList(set(state.topics.system_topics()))
    return request.success(body=encode_body(body))


def delete_topic(state: BrokerState, request: Request[TopicRequestHeader]) -> Work:
    """Delete a topic, known or not, and with it all queues without a topic (code 215).

    Committed offsets stay, as in 4.9.3. Of a light queue (%LMQ%...) only the queue goes.
    """
    topic = request.header.topic
    check_any_topic(topic)
    _refuse_system_topic(state, topic)
    if is_lmq(topic):
        return (yield from _remove_queues(state, request, state.store.begin_removal([topic])))
    removed = state.topics.remove(topic, request.now_ms)
    return (yield from _remove_unused(state, request, topic, removed))


def clean_unused_topics(state: BrokerState, request: Request[None]) -> Work:
    """Remove all queues without a topic (code 316)."""
    return _remove_unused(state, request)


def clean_expired_queues(state: BrokerState, request: Request[None]) -> Work:
    """Remove the queues whose messages have all expired (code 306); later ones start at 0."""
    expired: dict[QueueKey, int] = yield InPool(state.store.expired_queues)
    queues = {key: end for key, end in expired.items() if key[0] != SCHEDULE_TOPIC}
    return (yield from _remove_queues(state, request, state.store.begin_removal([], queues)))


def _remove_unused(
    state: BrokerState,
    request: Request[Any],
    topic: str | None = None,
    removed: TopicConfig | None = None,
) -> Work:
    """Remove the queues of `topic`, and those of all topics that are found but do not exist.

    One thread lists them: four with a list of thousands each took the interpreter from others.
    """
    found: dict[str, list[int]] = yield InPool(state.store.queues, WorkKind.ENCODE)
    names = [*found, topic] if topic is not None and topic not in found else list(found)
    unused = [
        name
        for name in names
        if name not in _NEVER_UNUSED and not is_lmq(name) and state.topics.get(name) is None
    ]
    removal = state.store.begin_removal(unused)
    return (yield from _remove_queues(state, request, removal, removed))


def _remove_queues(
    state: BrokerState,
    request: Request[Any],
    removal: QueueRemoval | None,
    removed: TopicConfig | None = None,
) -> Work:
    """Remove queues; if they stay, so does the topic that was removed for it."""
    if removal is None:
        return request.success()
    why_not = yield Removed(removal)
    state.store.end_removal(removal, removed=not why_not)
    if why_not:
        if removed is not None:
            state.topics.put_back(removed, (yield NOW))
        return request.refusal(ResponseCode.SYSTEM_ERROR, f"queues not removed: {why_not}")
    if state.config.auto_delete_unused_stats:
        for topic in removal.topics:
            state.traffic.forget_topic(topic)
    return request.success()


def _refuse_system_topic(state: BrokerState, topic: str) -> None:
    if state.topics.is_system(topic):
        remark = f"The topic[{topic}] is conflict with system topic."
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)


def _topic_stats(store: MessageStore, topic: str, broker_name: str, queue_count: int) -> bytes:
    table = TopicStatsTable({})
    for queue_id in [*range(queue_count), *store.queues_beyond(topic, queue_count)]:
        queue_offset_max = store.max_queue_offset(topic, queue_id)
        last_ms = 0
        if queue_offset_max > 0:
            last_ms = store.store_time_at(topic, queue_id, queue_offset_max - 1)
        table.offset_table[MessageQueue(topic, broker_name, queue_id)] = TopicOffset(
            max(store.min_queue_offset(topic, queue_id), 0), max(queue_offset_max, 0), last_ms
        )
    return encode_body(table)


def _check_values(header: CreateTopicRequestHeader) -> None:
    """Refuse values that 4.9.3 accepts and that then fail every client of the topic."""
    for name, value, high in (
        ("readQueueNums", header.read_queue_nums, QUEUE_COUNT_MAX),
        ("writeQueueNums", header.write_queue_nums, QUEUE_COUNT_MAX),
        ("perm", header.perm, _PERM_MAX),
    ):
        if not 0 <= value <= high:
            remark = f"{name}[{value}] is not 0 to {high}"
            raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)
    if header.topic_filter_type not in (FILTER_SINGLE_TAG, FILTER_MULTI_TAG):
        raise RemoteProtocolError(
            ResponseCode.SYSTEM_ERROR,
            "java.lang.IllegalArgumentException: No enum constant "
            f"org.apache.rocketmq.common.TopicFilterType.{header.topic_filter_type}",
        )
