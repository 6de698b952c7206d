"""Codes 17, 21, 202 and 305: define a topic, list topics, show both ends of a topic's queues.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.updateAndCreateTopic,
getAllTopicConfig, getTopicStatsInfo, getSystemTopicListFromBroker (4.9.3).
"""

from functools import partial

from wakelog.broker.decision import AwaitRegistration, Outcome, RunInPool
from wakelog.broker.names import check_topic
from wakelog.broker.state import BrokerState
from wakelog.broker.topics import QUEUE_COUNT_MAX
from wakelog.network.request import Request
from wakelog.protocol.bodies import (
    FILTER_MULTI_TAG,
    FILTER_SINGLE_TAG,
    TopicConfig,
    TopicList,
    TopicOffset,
    TopicStatsTable,
    encode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.headers.admin import CreateTopicRequestHeader, TopicRequestHeader
from wakelog.storage.message_store import MessageStore

_PERM_MAX = 15


def update_and_create_topic(
    state: BrokerState, request: Request[CreateTopicRequestHeader]
) -> Outcome:
    """Define a topic (code 17); ``order`` and ``defaultTopic`` are ignored (fact 27)."""
    header = request.header
    check_topic(header.topic)
    if state.topics.is_system(header.topic):
        remark = f"The topic[{header.topic}] is conflict with system topic."
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)
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
    return AwaitRegistration(request.success())


def get_all_topic_config(state: BrokerState, request: Request[None]) -> Outcome:
    """Return the table of topics (code 21)."""
    work = partial(encode_body, state.topics.wrapper())
    return RunInPool(work, lambda body, _now_ms: request.success(body=body))


def get_topic_stats_info(state: BrokerState, request: Request[TopicRequestHeader]) -> Outcome:
    """Return both ends and the last store time of each queue of a topic (code 202)."""
    name = request.header.topic
    topic = state.topics.get(name)
    if topic is None:
        return request.refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    broker_name, queue_count = state.config.broker_name, topic.write_queue_nums
    work = partial(_topic_stats, state.store, name, broker_name, queue_count)
    return RunInPool(work, lambda body, _now_ms: request.success(body=body))


def get_system_topics(state: BrokerState, request: Request[None]) -> Outcome:
    """Return the names of the system's topics (code 305); tools hide them."""
    body = TopicList(set(state.topics.system_topics()))
    return request.success(body=encode_body(body))


def _topic_stats(store: MessageStore, topic: str, broker_name: str, queue_count: int) -> bytes:
    table = TopicStatsTable({})
    for queue_id in range(queue_count):
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
