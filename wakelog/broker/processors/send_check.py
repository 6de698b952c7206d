"""The checks before a send reaches the store, and the topic that it may create.

The order of the checks is 4.9.3's, because it decides the code of a request with two faults:

    start time, topic name, broker permission (of order topics; others fail by their route),
    forbidden topic, the topic or its creation, queue id, properties that no record can hold,
    forbidden topic in INNER_MULTI_DISPATCH

An op message ends the half message that its body names, of any producer. So no client may send to
the topics of the transactions. 4.9.3 takes such sends.

Source: org.apache.rocketmq.broker.processor.AbstractSendMessageProcessor.msgCheck,
SendMessageProcessor.preSend (4.9.3).
"""

from wakelog.broker.names import FAQ_HINT, NO_SEND_TOPICS, check_topic
from wakelog.broker.state import BrokerState
from wakelog.network.request import Request
from wakelog.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from wakelog.protocol.codes import VERSION_3_4_9, ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.headers.send import ConsumerSendMsgBackRequestHeader, SendHeader
from wakelog.protocol.java import boolean_text, exact_time
from wakelog.protocol.names import RETRY_PREFIX
from wakelog.protocol.properties import (
    INNER_MULTI_DISPATCH,
    PROPERTIES_READ_CHARACTERS_MAX,
    decode_properties,
)
from wakelog.protocol.sys_flag import TOPIC_UNIT, TOPIC_UNIT_SUB, is_writeable, permission_text
from wakelog.storage.log.queue_offsets import MULTI_DISPATCH_SEPARATOR

ILLEGAL_MESSAGE = (
    "the message is illegal, maybe msg body or properties length not matched. "
    "msg body length limit 128k, msg properties length limit 32k."
)

QUEUE_COUNT_DEFAULT = 4  # the count that every client asks for


def check_send(state: BrokerState, request: Request[SendHeader]) -> TopicConfig:
    """Return the topic's configuration, created if need be.

    Raises: RemoteProtocolError for a send that 4.9.3's msgCheck refuses.
    """
    header, config = request.header, state.config
    if request.now_ms < config.start_accept_send_request_time_stamp:
        until = exact_time(config.start_accept_send_request_time_stamp)
        remark = f"broker unable to service, until {until}"
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)
    topic_config = state.topics.get(header.topic)
    if topic_config is None:
        check_topic(header.topic)
    elif topic_config.order and not is_writeable(config.broker_permission):
        remark = f"the broker[{config.broker_ip1}] sending message is forbidden"
        raise RemoteProtocolError(ResponseCode.NO_PERMISSION, remark)
    if header.topic in NO_SEND_TOPICS:
        raise _not_sendable(header.topic)
    if topic_config is None:
        topic_config = _create_topic(state, header, request.now_ms)
    queue_id = header.queue_id
    if queue_id >= topic_config.write_queue_nums and queue_id >= topic_config.read_queue_nums:
        raise RemoteProtocolError(
            ResponseCode.SYSTEM_ERROR,
            f"request queueId[{queue_id}] is illegal, {describe_topic(topic_config)} "
            f"Producer: {request.channel.remote_host}:{request.channel.remote_port}",
        )
    if len(header.properties or "") > PROPERTIES_READ_CHARACTERS_MAX:
        raise RemoteProtocolError(ResponseCode.MESSAGE_ILLEGAL, ILLEGAL_MESSAGE)
    if state.store_config.enable_multi_dispatch:
        check_dispatch(header.properties or "")
    return topic_config


def check_dispatch(properties_text: str) -> None:
    """Refuse a message that names a topic of the broker as a further one of its own.

    Raises: RemoteProtocolError.
    """
    if INNER_MULTI_DISPATCH in properties_text:
        names = decode_properties(properties_text).get(INNER_MULTI_DISPATCH, "")
        for name in names.split(MULTI_DISPATCH_SEPARATOR):
            if name in NO_SEND_TOPICS:
                raise _not_sendable(name)


def _not_sendable(topic: str) -> RemoteProtocolError:
    remark = f"Sending message to topic[{topic}] is forbidden."
    return RemoteProtocolError(ResponseCode.NO_PERMISSION, remark)


def _create_topic(state: BrokerState, header: SendHeader, now_ms: int) -> TopicConfig:
    topic = header.topic
    retry = topic.startswith(RETRY_PREFIX)
    wanted_count = header.default_topic_queue_nums
    sys_flag = 0
    if header.unit_mode:
        sys_flag = TOPIC_UNIT_SUB if retry else TOPIC_UNIT
    created = state.topics.create_from_default(
        topic,
        header.default_topic,
        QUEUE_COUNT_DEFAULT if wanted_count is None else wanted_count,
        now_ms,
        topic_sys_flag=sys_flag,
    )
    if created is None and retry:
        created = state.topics.create(topic, 1, now_ms, topic_sys_flag=sys_flag)
    if created is None:
        remark = f"topic[{topic}] not exist, apply first please!{FAQ_HINT}"
        raise RemoteProtocolError(ResponseCode.TOPIC_NOT_EXIST, remark)
    return created


def choose_queue(state: BrokerState, topic_config: TopicConfig) -> int:
    """Return any queue that may be written to, for a send whose queue id is negative."""
    if topic_config.write_queue_nums <= 0:
        remark = f"topic[{topic_config.topic_name}] has no queue to write to"
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)
    return state.random.randrange(topic_config.write_queue_nums)


def describe_topic(config: TopicConfig) -> str:
    """Write a topic in the form of TopicConfig.toString, for remarks."""
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={permission_text(config.perm)}, "
        f"topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={boolean_text(config.order)}]"
    )


def retry_count_max(
    group: SubscriptionGroupConfig,
    request: Request[SendHeader] | Request[ConsumerSendMsgBackRequestHeader],
) -> int:
    """Return after how many attempts a message of a group goes to %DLQ%."""
    asked = request.header.max_reconsume_times
    if asked is not None and request.command.version >= VERSION_3_4_9:
        return asked
    return group.retry_max_times
