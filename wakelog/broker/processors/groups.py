"""Codes 38, 200, 201, 203, 204, 207, 328 and 352: define, show and delete groups, list clients.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.updateAndCreateSubscriptionGroup,
getAllSubscriptionGroup, deleteSubscriptionGroup, getConsumerConnectionList,
getProducerConnectionList,
ConsumerManageProcessor.getConsumerListByGroup (4.9.3); AdminBrokerProcessor.getAllProducerInfo
(4.9.4), getSubscriptionGroup (5.3.3).
"""

from functools import partial

from wakelog.broker.decision import Outcome
from wakelog.broker.effects import Work, WorkKind, make_body
from wakelog.broker.membership import Client
from wakelog.broker.state import BrokerState
from wakelog.network.request import Request
from wakelog.protocol.bodies import (
    LOCKS_FIELD,
    Connection,
    ConsumerConnection,
    HeldLocks,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
    SubscriptionGroupConfig,
    encode_body,
)
from wakelog.protocol.body_codec import decode_body, decode_body_in_steps
from wakelog.protocol.codes import ResponseCode, language_name
from wakelog.protocol.headers.clients import (
    ConsumerGroupRequestHeader,
    DeleteSubscriptionGroupRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    ProducerGroupRequestHeader,
)
from wakelog.protocol.steps import Steps


def update_and_create_group(state: BrokerState, request: Request[None]) -> Work:
    """Define a consumer group (code 200)."""
    config = yield from decode_body_in_steps(SubscriptionGroupConfig, request.command.body)
    state.groups.update(config, request.now_ms)
    return request.success()


def group_named_in(body: bytes) -> dict[str, str]:
    """Return the group that such a body names, for the audit log. Raises: ProtocolError."""
    return {"group": decode_body(SubscriptionGroupConfig, body).group_name}


def delete_group(
    state: BrokerState, request: Request[DeleteSubscriptionGroupRequestHeader]
) -> Work:
    """Delete a consumer group, known or not, and its offsets if asked (code 207)."""
    header = request.header
    state.groups.remove(header.group_name, request.now_ms)
    if header.remove_offset:
        yield from remove_offsets(state, header.group_name)
    if state.config.auto_delete_unused_stats:
        state.traffic.forget_group(header.group_name)
    return request.success()


def remove_offsets(state: BrokerState, group: str) -> Steps[None]:
    """Forget every offset of a group, and let the response wait until that is saved."""
    removed = yield from state.offsets.remove(group)
    if removed:
        state.keep_offsets(partial(_put_back, state, group, removed))


def _put_back(state: BrokerState, group: str, removed: dict[str, dict[int, int]]) -> None:
    for topic, queues in removed.items():
        state.offsets.restore(group, topic, {}, queues)


def get_all_groups(state: BrokerState, request: Request[None]) -> Work:
    """Return the table of groups (code 201), or a member of the own group the queues' locks."""
    if LOCKS_FIELD in request.command.ext_fields:
        work = partial(encode_body, HeldLocks(state.locks.all(request.now_ms)))
    else:
        work = partial(encode_body, state.groups.wrapper())
    return make_body(request, work, WorkKind.ENCODE)


def get_group(
    state: BrokerState, request: Request[GetSubscriptionGroupConfigRequestHeader]
) -> Outcome:
    """Return one group (code 352), or what a broker that makes groups would make of it.

    5.3.3 makes it. Here a request that needs no right for the group changes nothing.
    """
    group = state.groups.would_find(request.header.group)
    if group is None:
        remark = "No group in this broker"
        return request.refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    return request.success(body=encode_body(group))


def get_consumer_list(state: BrokerState, request: Request[ConsumerGroupRequestHeader]) -> Outcome:
    """Return the client ids of a group (code 38)."""
    name = request.header.consumer_group
    group = state.consumers.get(name)
    if group is None:
        remark = f"no consumer for this group, {name}"
        return request.refusal(ResponseCode.SYSTEM_ERROR, remark)
    return request.success(body=group.encoded_client_ids())


def get_consumer_connections(
    state: BrokerState, request: Request[ConsumerGroupRequestHeader]
) -> Outcome | Work:
    """Return the connections of a consumer group and its subscriptions (code 203)."""
    name = request.header.consumer_group
    group = state.consumers.get(name)
    if group is None:
        remark = f"the consumer group[{name}] not online"
        return request.refusal(ResponseCode.CONSUMER_NOT_ONLINE, remark)
    clients = list(group.clients.values())
    body = ConsumerConnection(
        [],
        dict(group.subscriptions),
        group.consume_type or None,
        group.message_model or None,
        group.consume_from_where or None,
    )

    def work() -> bytes:
        body.connection_set = list(map(_connection, clients))
        return encode_body(body)

    return make_body(request, work, WorkKind.ENCODE)


def get_producer_connections(
    state: BrokerState, request: Request[ProducerGroupRequestHeader]
) -> Outcome | Work:
    """Return the connections of a producer group (code 204)."""
    name = request.header.producer_group
    clients = state.producers.clients(name)
    if not clients:
        remark = f"the producer group[{name}] not exist"
        return request.refusal(ResponseCode.SYSTEM_ERROR, remark)

    def work() -> bytes:
        return encode_body(ProducerConnection(list(map(_connection, clients))))

    return make_body(request, work, WorkKind.ENCODE)


def get_all_producers(state: BrokerState, request: Request[None]) -> Work:
    """Return the connections of every producer group (code 328)."""
    producers = yield from state.producers.all()

    def work() -> bytes:
        data = {group: list(map(_producer, clients)) for group, clients in producers.items()}
        return encode_body(ProducerTableInfo(data))

    return (yield from make_body(request, work, WorkKind.ENCODE))


def _producer(client: Client) -> ProducerInfo:
    address = f"/{client.channel.remote_host}:{client.channel.remote_port}"
    language = language_name(client.language)
    return ProducerInfo(client.client_id, address, language, client.version, client.last_update_ms)


def _connection(client: Client) -> Connection:
    address = f"{client.channel.remote_host}:{client.channel.remote_port}"
    return Connection(client.client_id, address, language_name(client.language), client.version)
