"""Codes 17, 21 and 202: define a topic, list all topics, show both ends of a topic's queues.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.updateAndCreateTopic,
getAllTopicConfig, getTopicStatsInfo (4.9.3).
"""

from functools import partial

from wakelog.broker.decision import AwaitRegistration, Channel, Outcome, RunInPool
from wakelog.broker.names import check_topic
from wakelog.broker.state import BrokerState
from wakelog.broker.topics import QUEUE_COUNT_MAX
from wakelog.protocol.bodies import (
    FILTER_MULTI_TAG,
    FILTER_SINGLE_TAG,
    TopicConfig,
    TopicOffset,
    TopicStatsTable,
    encode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.ext_fields import read_header
from wakelog.protocol.headers.admin import CreateTopicRequestHeader, TopicRequestHeader
from wakelog.storage.message_store import MessageStore

_PERM_MAX = 15


def update_and_create_topic(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Define a topic (code 17); ``order`` and ``defaultTopic`` are ignored (fact 27)."""
    header = read_header(CreateTopicRequestHeader, request.ext_fields)
    check_topic(header.topic)
    if state.topics.is_system(header.topic):
        raise RemoteProtocolError(
            ResponseCode.SYSTEM_ERROR, f"The topic[{header.topic}] is conflict with system topic."
        )
    _check_numbers(header)
    topic = TopicConfig(
        header.topic,
        header.read_queue_nums,
        header.write_queue_nums,
        header.perm,
        header.topic_filter_type,
        header.topic_sys_flag or 0,
    )
    state.topics.update(topic, now_ms)
    return AwaitRegistration(answer(request, ResponseCode.SUCCESS))


def get_all_topic_config(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer the table of topics (code 21)."""
    work = partial(encode_body, state.topics.wrapper())
    return RunInPool(work, partial(_answer_body, request))


def get_topic_stats_info(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer both ends and the last store time of each queue of a topic (code 202)."""
    header = read_header(TopicRequestHeader, request.ext_fields)
    topic = state.topics.get(header.topic)
    if topic is None:
        return answer(request, ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
    work = partial(
        _topic_stats, state.store, header.topic, state.config.broker_name, topic.write_queue_nums
    )
    return RunInPool(work, partial(_answer_body, request))


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


def _answer_body(request: RemotingCommand, body: bytes, now_ms: int) -> Outcome:
    return answer(request, ResponseCode.SUCCESS, body=body)


def _check_numbers(header: CreateTopicRequestHeader) -> None:
    """Refuse what 4.9.3 would take and then fail at with every client of the topic."""
    for name, count in (
        ("readQueueNums", header.read_queue_nums),
        ("writeQueueNums", header.write_queue_nums),
    ):
        if not 0 <= count <= QUEUE_COUNT_MAX:
            raise RemoteProtocolError(
                ResponseCode.SYSTEM_ERROR, f"{name}[{count}] is not 0 to {QUEUE_COUNT_MAX}"
            )
    if not 0 <= header.perm <= _PERM_MAX:
        raise RemoteProtocolError(
            ResponseCode.SYSTEM_ERROR, f"perm[{header.perm}] is not 0 to {_PERM_MAX}"
        )
    if header.topic_filter_type not in (FILTER_SINGLE_TAG, FILTER_MULTI_TAG):
        raise RemoteProtocolError(
            ResponseCode.SYSTEM_ERROR,
            "java.lang.IllegalArgumentException: No enum constant "
            f"org.apache.rocketmq.common.TopicFilterType.{header.topic_filter_type}",
        )
