"""Codes 34, 35, 46 and 301: clients join and leave groups, check a filter, or are filter servers.

The heartbeat of a consumer also creates the retry topic of its group, so that clients know its
route before the first message has to be consumed again.

Source: org.apache.rocketmq.broker.processor.ClientManageProcessor,
AdminBrokerProcessor.registerFilterServer (4.9.3).
"""

import msgspec

from wakelog.broker.decision import Appender, Outcome, WriteLine
from wakelog.broker.error_response import LimitReached
from wakelog.broker.membership import Client
from wakelog.broker.names import check_group, is_topic, retry_topic
from wakelog.broker.processors.pull_filter import check_filters_by
from wakelog.broker.state import BrokerState
from wakelog.filter import sql92
from wakelog.filter.consumer_filters import FILTERS_MAX
from wakelog.filter.errors import IllegalExpression
from wakelog.filter.sql92 import compile_filter
from wakelog.network.request import Request
from wakelog.protocol.bodies import (
    HeartbeatData,
    SubscriptionData,
    decode_body,
)
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.headers.clients import (
    RegisterFilterServerRequestHeader,
    UnregisterClientRequestHeader,
)
from wakelog.protocol.subscription import is_tag_type
from wakelog.protocol.sys_flag import TOPIC_UNIT_SUB


class CheckClientRequestBody(msgspec.Struct, rename="camel"):
    """The part of code 46's body that the broker uses."""

    subscription_data: SubscriptionData | None = None


def heartbeat(state: BrokerState, request: Request[None]) -> Outcome:
    """Register the groups and subscriptions of a client (code 34)."""
    command, now_ms = request.command, request.now_ms
    data = decode_body(HeartbeatData, command.body)
    client = Client(request.channel, data.client_id, command.language, command.version, now_ms)
    for consumer in data.consumer_data_set:
        check_group(consumer.group_name)
        for subscription in consumer.subscription_data_set:
            if subscription.sub_version is None:
                subscription.sub_version = now_ms
        group = state.groups.find(consumer.group_name, now_ms)
        topic = retry_topic(consumer.group_name)
        # A legal group name can be too long for a topic with its prefix: it has no retries then.
        if group is not None and is_topic(topic):
            sys_flag = TOPIC_UNIT_SUB if consumer.unit_mode else 0
            state.topics.create(topic, group.retry_queue_nums, now_ms, topic_sys_flag=sys_flag)
        state.notify_consumers(state.consumers.register(client, consumer), group)
        wanted = consumer.subscription_data_set
        if not state.filters.register(consumer.group_name, wanted, now_ms):
            raise LimitReached("filters by expression", FILTERS_MAX)
    for producer in data.producer_data_set:
        check_group(producer.group_name)
        state.producers.add(client, producer.group_name)
    return request.success()


def unregister_client(
    state: BrokerState, request: Request[UnregisterClientRequestHeader]
) -> Outcome:
    """Take a client out of a producer group, a consumer group, or both (code 35)."""
    header, channel_id, now_ms = request.header, request.channel.id, request.now_ms
    if header.producer_group is not None:
        state.producers.remove(header.producer_group, channel_id)
    if header.consumer_group is not None:
        group = state.groups.find(header.consumer_group, now_ms)
        change = state.consumers.unregister(header.consumer_group, channel_id)
        state.notify_consumers(change, group)
        state.forget_filters(change, now_ms)
    return request.success()


def register_filter_server(
    state: BrokerState, request: Request[RegisterFilterServerRequestHeader]
) -> Outcome:
    """Note or renew a filter server (code 301); its address goes with the next registration."""
    address = request.header.filter_server_addr
    state.filter_servers.register(request.channel.id, address, request.now_ms)
    config = state.config
    return request.success({"brokerName": config.broker_name, "brokerId": str(config.broker_id)})


def check_client_config(state: BrokerState, request: Request[None]) -> Outcome:
    """Check that the expression of a subscription compiles (code 46)."""
    subscription = decode_body(CheckClientRequestBody, request.command.body).subscription_data
    if subscription is None or is_tag_type(subscription.expression_type):
        return request.success()
    try:
        check_filters_by(state, subscription.expression_type)
        if subscription.expression_type != sql92.TYPE:
            raise IllegalExpression(f"there is no filter language {subscription.expression_type}")
        compile_filter(subscription.sub_string)
    except RemoteProtocolError:
        _log_refusal(state, subscription, "enablePropertyFilter is off")
        raise
    except IllegalExpression as error:
        _log_refusal(state, subscription, error.remark)
        return request.refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, error.remark)
    return request.success()


def _log_refusal(state: BrokerState, subscription: SubscriptionData, cause: str) -> None:
    values = {"topic": subscription.topic, "type": subscription.expression_type, "cause": cause}
    state.instructions.append(WriteLine(Appender.FILTER, "subscription refused", values))
