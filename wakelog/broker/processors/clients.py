"""Codes 34, 35, 46 and 301: clients join and leave groups, check a filter, or are filter servers.

The heartbeat of a consumer also creates the retry topic of its group, so that clients know its
route before the first message has to be consumed again.

A client that unregisters while a heartbeat of its connection is read in steps has left at the end.

Source: org.apache.rocketmq.broker.processor.ClientManageProcessor,
AdminBrokerProcessor.registerFilterServer (4.9.3).
"""

from wakelog.broker.decision import Appender, Outcome, Persist, WriteLine
from wakelog.broker.effects import Work
from wakelog.broker.error_response import LimitReached
from wakelog.broker.heartbeats import ClientRole, Heartbeat, Membership
from wakelog.broker.membership import CONSTANT_LENGTH_MAX, Client
from wakelog.broker.names import check_client_id, check_group, retry_topic
from wakelog.broker.processors.pull_filter import check_filters_by
from wakelog.broker.state import BrokerState
from wakelog.broker.table_limits import table_full
from wakelog.filter import sql92
from wakelog.filter.errors import IllegalExpression
from wakelog.filter.sql92 import compile_in_steps
from wakelog.network.request import Request
from wakelog.protocol.bodies import (
    CheckClientRequestBody,
    ConsumerData,
    SubscriptionData,
)
from wakelog.protocol.body_codec import decode_body_in_steps
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import ProtocolError, RemoteProtocolError
from wakelog.protocol.headers.clients import (
    RegisterFilterServerRequestHeader,
    UnregisterClientRequestHeader,
)
from wakelog.protocol.heartbeat import decode_heartbeat
from wakelog.protocol.names import is_topic
from wakelog.protocol.steps import Steps
from wakelog.protocol.subscription import is_tag_type
from wakelog.protocol.sys_flag import TOPIC_UNIT_SUB
from wakelog.storage.errors import StoreError

GROUPS_PER_STEP = 16
"""Some 0.2 ms for groups that are new."""


def heartbeat(state: BrokerState, request: Request[None]) -> Steps[Outcome]:
    """Register the groups and subscriptions of a client (code 34).

    A step has at most GROUPS_PER_STEP groups, some subscriptions, or some words of an expression.
    """
    steps = _heartbeat(state, request)
    next(steps)  # it is under way, also while it waits for its first step
    return steps


def _heartbeat(state: BrokerState, request: Request[None]) -> Work:
    with state.heartbeats.begin(request.channel.id) as under_way:
        yield
        try:
            outcome = yield from _register(state, request, under_way)
        except (ProtocolError, StoreError):
            yield from _leave_again(state, request, under_way)
            raise
        yield from _leave_again(state, request, under_way)
        return outcome


def _leave_again(state: BrokerState, request: Request[None], under_way: Heartbeat) -> Steps[None]:
    """Take the client out of the groups that it has left since the heartbeat came."""
    for number, membership in enumerate(list(under_way.left), 1):
        if membership in under_way.left:  # and not registered again meanwhile
            _leave(state, membership, request.channel.id, request.now_ms)
        if not number % GROUPS_PER_STEP:
            yield


def _register(
    state: BrokerState, request: Request[None], under_way: Heartbeat
) -> Steps[RemotingCommand]:
    command, now_ms = request.command, request.now_ms
    groups_max = state.limits.memberships_per_connection
    if command.body.count(b'"groupName"') > groups_max:
        raise table_full("groups for each connection", groups_max)
    data = yield from decode_heartbeat(command.body)
    if state.access is not None:
        yield from state.access.authorize_heartbeat(command, data, request.channel.remote_host)
    check_client_id(data.client_id)
    language = command.language
    if isinstance(language, str):
        language = language[:CONSTANT_LENGTH_MAX]
    client = Client(request.channel, data.client_id, language, command.version, now_ms)
    for number, consumer in enumerate(data.consumer_data_set, 1):
        yield from _register_group(state, client, consumer, now_ms)
        state.heartbeats.on_registered(under_way, (ClientRole.CONSUMER, consumer.group_name))
        filters_before = state.filters.change_count
        has_room = yield from state.filters.register_in_steps(
            consumer.group_name,
            consumer.subscription_data_set,
            now_ms,
            limit_factor=state.config.request_limit_factor,
        )
        if state.filters.change_count != filters_before:
            state.instructions.append(Persist("consumerFilter"))
        if not has_room:
            raise _filters_full(state)
        if not number % GROUPS_PER_STEP:
            yield
    for number, producer in enumerate(data.producer_data_set, 1):
        check_group(producer.group_name)
        state.producers.add(client, producer.group_name)
        state.heartbeats.on_registered(under_way, (ClientRole.PRODUCER, producer.group_name))
        if not number % GROUPS_PER_STEP:
            yield
    return request.success()


def _register_group(
    state: BrokerState, client: Client, consumer: ConsumerData, now_ms: int
) -> Steps[None]:
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
    change = yield from state.consumers.register_in_steps(client, consumer)
    state.notify_consumers(change, group, now_ms=now_ms)


def _filters_full(state: BrokerState) -> LimitReached:
    if len(state.filters) >= state.limits.filters:
        return table_full("filters by expression", state.limits.filters)
    return table_full("characters of filters by expression", state.limits.filter_characters)


def unregister_client(
    state: BrokerState, request: Request[UnregisterClientRequestHeader]
) -> Outcome:
    """Take a client out of a producer group, a consumer group, or both (code 35)."""
    header, channel_id = request.header, request.channel.id
    named = (
        (ClientRole.PRODUCER, header.producer_group),
        (ClientRole.CONSUMER, header.consumer_group),
    )
    memberships = [(member, group) for member, group in named if group is not None]
    state.heartbeats.on_left(channel_id, *memberships)
    for membership in memberships:
        _leave(state, membership, channel_id, request.now_ms)
    return request.success()


def _leave(state: BrokerState, membership: Membership, channel_id: int, now_ms: int) -> None:
    member, name = membership
    if member is ClientRole.PRODUCER:
        state.producers.remove(name, channel_id)
        return
    group = state.groups.find(name, now_ms)
    change = state.consumers.unregister(name, channel_id)
    state.notify_consumers(change, group, now_ms=now_ms)
    state.forget_filters(change, now_ms)


def register_filter_server(
    state: BrokerState, request: Request[RegisterFilterServerRequestHeader]
) -> Outcome:
    """Note or renew a filter server (code 301); its address goes with the next registration."""
    address = request.header.filter_server_addr
    state.filter_servers.register(request.channel.id, address, request.now_ms)
    config = state.config
    return request.success({"brokerName": config.broker_name, "brokerId": str(config.broker_id)})


def check_client_config(state: BrokerState, request: Request[None]) -> Work:
    """Check that the expression of a subscription compiles (code 46)."""
    body = yield from decode_body_in_steps(CheckClientRequestBody, request.command.body)
    subscription = body.subscription_data
    if subscription is None or is_tag_type(subscription.expression_type):
        return request.success()
    try:
        check_filters_by(state, subscription.expression_type)
        if subscription.expression_type != sql92.TYPE:
            raise IllegalExpression(f"there is no filter language {subscription.expression_type}")
        yield from compile_in_steps(subscription.sub_string, state.config.request_limit_factor)
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
