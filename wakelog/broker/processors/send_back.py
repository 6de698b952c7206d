"""Code 36: a consumer could not consume a message and wants it again later, or never.

The message is read from the log, in the pool, and put again. It goes into %RETRY%group by way of a
delay level. After enough attempts, or with a negative level, it goes into %DLQ%group. Level 0
starts at level 3 and goes up with each attempt. The new record keeps the hosts and the born time of
the old one, counts one more attempt, and names the first topic and message id.

Source: org.apache.rocketmq.broker.processor.SendMessageProcessor.asyncConsumerSendMsgBack (4.9.3).
"""

from functools import partial

from wakelog.broker.decision import Outcome
from wakelog.broker.delayed_delivery import delay_draft
from wakelog.broker.effects import InPool, Work
from wakelog.broker.names import check_any_topic, retry_topic
from wakelog.broker.processors.send import DLQ_QUEUE_COUNT
from wakelog.broker.processors.send_check import retry_count_max
from wakelog.broker.state import BrokerState
from wakelog.network.driver import NOW
from wakelog.network.request import Request
from wakelog.protocol.bodies import SubscriptionGroupConfig
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from wakelog.protocol.message_id import create_message_id
from wakelog.protocol.names import DLQ_PREFIX
from wakelog.protocol.properties import (
    DELAY,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    WAIT,
    decode_properties,
    encode_properties,
)
from wakelog.protocol.record import MessageRecord
from wakelog.protocol.sys_flag import TOPIC_UNIT_SUB, is_writeable
from wakelog.storage.log.append import PutStatus, moved_draft

FIRST_DELAY_LEVEL = 3  # 10 s with 4.9.3's levels


def send_back(state: BrokerState, request: Request[ConsumerSendMsgBackRequestHeader]) -> Work:
    """Check the group and its retry topic, then read the message in the pool."""
    header, now_ms = request.header, request.now_ms
    group = state.find_group(header.group, now_ms)
    config = state.config
    if not is_writeable(config.broker_permission):
        remark = f"the broker[{config.broker_ip1}] sending message is forbidden"
        raise RemoteProtocolError(ResponseCode.NO_PERMISSION, remark)
    if group.retry_queue_nums <= 0:
        return request.success()
    topic = retry_topic(header.group)
    check_any_topic(topic)
    sys_flag = TOPIC_UNIT_SUB if header.unit_mode else 0
    created = state.topics.create(topic, group.retry_queue_nums, now_ms, topic_sys_flag=sys_flag)
    if not is_writeable(created.perm):
        remark = f"the topic[{topic}] sending message is forbidden"
        raise RemoteProtocolError(ResponseCode.NO_PERMISSION, remark)
    record = yield InPool(partial(state.store.message_at, header.offset))
    return _put_again(state, request, group, record, (yield NOW))


def _put_again(
    state: BrokerState,
    request: Request[ConsumerSendMsgBackRequestHeader],
    group: SubscriptionGroupConfig,
    record: MessageRecord | None,
    now_ms: int,
) -> Outcome:
    header = request.header
    if record is None:
        remark = f"look message by offset failed, {header.offset}"
        return request.refusal(ResponseCode.SYSTEM_ERROR, remark)
    properties = decode_properties(record.properties_text)
    origin_topic = properties.setdefault(RETRY_TOPIC, record.topic)
    properties[WAIT] = "false"
    level = _delay_level(request, group, record)
    properties[DELAY] = str(level)
    origin_id = create_message_id(*record.store_host, record.physical_offset)
    properties.setdefault(ORIGIN_MESSAGE_ID, origin_id)
    if level == 0:
        topic, queue_id = DLQ_PREFIX + header.group, 0
        state.topics.create(topic, DLQ_QUEUE_COUNT, now_ms)
    else:
        topic = retry_topic(header.group)
        queue_id = _retry_queue(state, topic, group)
    text = encode_properties(properties)
    delayed = delay_draft(state.delay_level_max, properties, topic, queue_id)
    if delayed is not None:
        topic, queue_id, text = delayed
    draft = moved_draft(record, topic=topic, queue_id=queue_id, properties_text=text)
    draft.reconsume_times += 1
    result = state.store.put_message(draft, now_ms)
    if result.status is not PutStatus.PUT_OK:
        return request.refusal(ResponseCode.SYSTEM_ERROR, result.status.value)
    state.traffic.count_put_again(topic, result.size_bytes)
    if delayed is not None:
        state.delayed.delayed_count += 1
        state.traffic.count_delayed(queue_id, result.size_bytes)
    state.traffic.count_send_back(origin_topic, header.group)
    return request.success()


def _retry_queue(state: BrokerState, topic: str, group: SubscriptionGroupConfig) -> int:
    """Return a queue of the retry topic that consumers read.

    4.9.3 goes by the group alone. Its topic may have fewer queues, and what is put beyond them is
    never consumed.
    """
    count = group.retry_queue_nums
    config = state.topics.get(topic)
    if config is not None:
        count = min(count, config.read_queue_nums, config.write_queue_nums)
    return state.random.randrange(max(1, count))


def _delay_level(
    request: Request[ConsumerSendMsgBackRequestHeader],
    group: SubscriptionGroupConfig,
    record: MessageRecord,
) -> int:
    """Return the delay level of the next attempt, 0 for none."""
    asked = request.header.delay_level
    if asked < 0 or record.reconsume_times >= retry_count_max(group, request):
        return 0
    return asked or FIRST_DELAY_LEVEL + record.reconsume_times
