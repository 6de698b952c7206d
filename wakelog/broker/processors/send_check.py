"""What has to hold before a send may reach the store, and the topic it may create on the way.

The order of the checks is 4.9.3's, since it decides which code a request with two faults gets:
start time, topic name, broker permission (for order topics only: others fail by their route), the
forbidden topic, the topic or its creation, the queue id.

Source: org.apache.rocketmq.broker.processor.AbstractSendMessageProcessor.msgCheck,
SendMessageProcessor.preSend (4.9.3).
"""

from wakelog.broker.decision import Channel
from wakelog.broker.names import FAQ_HINT, RETRY_PREFIX, SCHEDULE_TOPIC, check_topic
from wakelog.broker.state import BrokerState
from wakelog.protocol.bodies import TopicConfig
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.headers.send import SendHeader
from wakelog.protocol.java import boolean_text
from wakelog.protocol.sys_flag import TOPIC_UNIT, TOPIC_UNIT_SUB, is_writeable, permission_text

QUEUE_COUNT_DEFAULT = 4  # what every client asks for of itself


def check_send(
    state: BrokerState, header: SendHeader, channel: Channel, now_ms: int
) -> TopicConfig:
    """Return the topic's configuration, made when it has to be; refuse as 4.9.3's msgCheck."""
    config = state.config
    if now_ms < config.start_accept_send_request_time_stamp:
        raise RemoteProtocolError(
            ResponseCode.SYSTEM_ERROR,
            f"broker unable to service, until {config.start_accept_send_request_time_stamp} ms",
        )
    topic_config = state.topics.get(header.topic)
    if topic_config is None:
        check_topic(header.topic)
        topic_config = _create_topic(state, header, now_ms)
    elif topic_config.order and not is_writeable(config.broker_permission):
        raise RemoteProtocolError(
            ResponseCode.NO_PERMISSION,
            f"the broker[{config.broker_ip1}] sending message is forbidden",
        )
    elif header.topic == SCHEDULE_TOPIC:
        raise RemoteProtocolError(
            ResponseCode.NO_PERMISSION, f"Sending message to topic[{header.topic}] is forbidden."
        )
    if header.queue_id >= max(topic_config.write_queue_nums, topic_config.read_queue_nums):
        raise RemoteProtocolError(
            ResponseCode.SYSTEM_ERROR,
            f"request queueId[{header.queue_id}] is illegal, {describe_topic(topic_config)} "
            f"Producer: {channel.remote_host}:{channel.remote_port}",
        )
    return topic_config


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
        raise RemoteProtocolError(
            ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!{FAQ_HINT}"
        )
    return created


def choose_queue(state: BrokerState, header: SendHeader, topic_config: TopicConfig) -> int:
    """Return the queue asked for, or any that may be written to if the id is negative."""
    if header.queue_id >= 0:
        return header.queue_id
    if topic_config.write_queue_nums <= 0:
        raise RemoteProtocolError(
            ResponseCode.SYSTEM_ERROR, f"topic[{header.topic}] has no queue to write to"
        )
    return state.random.randrange(topic_config.write_queue_nums)


def describe_topic(config: TopicConfig) -> str:
    """Write a topic as TopicConfig.toString does, for remarks."""
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={permission_text(config.perm)}, "
        f"topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={boolean_text(config.order)}]"
    )
