"""Codes 34, 35 and 46: a client says which groups it belongs to, leaves them, asks what is
supported.

The heartbeat of a consumer also makes the retry topic of its group, so that its route is known
before the first message has to be consumed again.

Source: org.apache.rocketmq.broker.processor.ClientManageProcessor (4.9.3).
"""

import msgspec

from wakelog.broker.decision import Appender, Channel, Outcome, WriteLine
from wakelog.broker.membership import Client
from wakelog.broker.names import check_group, is_topic, retry_topic
from wakelog.broker.processors.pull_filter import check_filters_by
from wakelog.broker.state import BrokerState
from wakelog.filter import sql92
from wakelog.filter.consumer_filters import Wanted
from wakelog.filter.errors import IllegalExpression
from wakelog.filter.sql92 import compile_filter
from wakelog.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    SubscriptionGroupConfig,
    decode_body,
)
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.ext_fields import read_header
from wakelog.protocol.headers.clients import UnregisterClientRequestHeader
from wakelog.protocol.subscription import is_tag_type
from wakelog.protocol.sys_flag import TOPIC_UNIT_SUB


class CheckClientRequestBody(msgspec.Struct, rename="camel"):
    """Body of code 46, as much of it as counts."""

    subscription_data: SubscriptionData | None = None


def heartbeat(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Take over the groups and subscriptions of a client (code 34)."""
    data = decode_body(HeartbeatData, request.body)
    client = Client(channel, data.client_id, request.language, request.version, now_ms)
    for consumer in data.consumer_data_set:
        check_group(consumer.group_name)
        group = state.groups.find(consumer.group_name, now_ms)
        if group is not None:
            _make_retry_topic(state, consumer, group, now_ms)
        change = state.consumers.register(client, consumer)
        state.tell_consumers(change, enabled=_may_tell(group))
        wanted = [_wanted(data) for data in consumer.subscription_data_set]
        state.filters.register(consumer.group_name, wanted, now_ms)
    for producer in data.producer_data_set:
        check_group(producer.group_name)
        state.producers.register(client, producer.group_name)
    return answer(request, ResponseCode.SUCCESS)


def unregister_client(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Take a client out of a producer group, a consumer group, or both (code 35)."""
    header = read_header(UnregisterClientRequestHeader, request.ext_fields)
    if header.producer_group is not None:
        state.producers.unregister(header.producer_group, channel.id)
    if header.consumer_group is not None:
        group = state.groups.find(header.consumer_group, now_ms)
        change = state.consumers.unregister(header.consumer_group, channel.id)
        state.tell_consumers(change, enabled=_may_tell(group))
        state.forget_filters(change, now_ms)
    return answer(request, ResponseCode.SUCCESS)


def check_client_config(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Say whether a subscription can be served (code 46): whether its expression compiles."""
    subscription = decode_body(CheckClientRequestBody, request.body).subscription_data
    if subscription is None or is_tag_type(subscription.expression_type):
        return answer(request, ResponseCode.SUCCESS)
    try:
        check_filters_by(state, subscription.expression_type)
        if subscription.expression_type != sql92.TYPE:
            raise IllegalExpression(f"there is no filter language {subscription.expression_type}")
        compile_filter(subscription.sub_string)
    except RemoteProtocolError:
        _write_refusal(state, subscription, "enablePropertyFilter is off")
        raise
    except IllegalExpression as error:
        _write_refusal(state, subscription, error.remark)
        return answer(request, ResponseCode.SUBSCRIPTION_PARSE_FAILED, error.remark)
    return answer(request, ResponseCode.SUCCESS)


def _write_refusal(state: BrokerState, subscription: SubscriptionData, cause: str) -> None:
    values = {
        "topic": subscription.topic,
        "type": subscription.expression_type,
        "cause": cause,
    }
    state.instructions.append(WriteLine(Appender.FILTER, "subscription refused", values))


def _wanted(data: SubscriptionData) -> Wanted:
    return Wanted(data.topic, data.sub_string, data.expression_type, data.sub_version)


def _make_retry_topic(
    state: BrokerState, consumer: ConsumerData, group: SubscriptionGroupConfig, now_ms: int
) -> None:
    topic = retry_topic(consumer.group_name)
    # A group name may be longer than a topic with its prefix: it has no retries then.
    if is_topic(topic):
        sys_flag = TOPIC_UNIT_SUB if consumer.unit_mode else 0
        state.topics.create(topic, group.retry_queue_nums, now_ms, topic_sys_flag=sys_flag)


def _may_tell(group: SubscriptionGroupConfig | None) -> bool:
    return group is None or group.notify_consumer_ids_changed_enable
