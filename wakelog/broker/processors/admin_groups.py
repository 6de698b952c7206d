"""Codes 200, 201 and 203: define a consumer group, list all groups, show a group's connections.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.updateAndCreateSubscriptionGroup,
getAllSubscriptionGroup, getConsumerConnectionList (4.9.3).
"""

from functools import partial

from wakelog.broker.decision import Channel, Outcome, RunInPool
from wakelog.broker.membership import Client
from wakelog.broker.state import BrokerState
from wakelog.protocol.bodies import (
    Connection,
    ConsumerConnection,
    SubscriptionGroupConfig,
    decode_body,
    encode_body,
)
from wakelog.protocol.codes import LanguageCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.ext_fields import read_header
from wakelog.protocol.headers.clients import ConsumerGroupRequestHeader


def update_and_create_group(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Define a consumer group (code 200)."""
    state.groups.update(decode_body(SubscriptionGroupConfig, request.body), now_ms)
    return answer(request, ResponseCode.SUCCESS)


def get_all_groups(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer the table of groups (code 201)."""
    work = partial(encode_body, state.groups.wrapper())
    return RunInPool(work, partial(_answer_body, request))


def get_consumer_connections(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer who consumes in a group and what it subscribes to (code 203)."""
    header = read_header(ConsumerGroupRequestHeader, request.ext_fields)
    group = state.consumers.get(header.consumer_group)
    if group is None:
        return answer(
            request,
            ResponseCode.CONSUMER_NOT_ONLINE,
            f"the consumer group[{header.consumer_group}] not online",
        )
    body = ConsumerConnection(
        [_connection(client) for client in group.clients.values()],
        dict(group.subscriptions),
        group.consume_type,
        group.message_model,
        group.consume_from_where,
    )
    return answer(request, ResponseCode.SUCCESS, body=encode_body(body))


def _connection(client: Client) -> Connection:
    language = client.language
    if isinstance(language, int):
        known = language in LanguageCode.__members__.values()
        language = LanguageCode(language).name if known else LanguageCode.OTHER.name
    address = f"{client.channel.remote_host}:{client.channel.remote_port}"
    return Connection(client.client_id, address, language, client.version)


def _answer_body(request: RemotingCommand, body: bytes, now_ms: int) -> Outcome:
    return answer(request, ResponseCode.SUCCESS, body=body)
