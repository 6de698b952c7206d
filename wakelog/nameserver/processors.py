"""The request table of a name server: code to handler, header and who may send it.

The handlers stand in the order of their codes.

A handler raises RemoteProtocolError or IllegalConfiguration for a request that it refuses. 4.9.3's
access control does not cover name servers: there anyone may send any of these.

Source: org.apache.rocketmq.namesrv.processor.DefaultRequestProcessor (4.9.3).
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec

from wakelog.nameserver.absent_topic import absent_topic_remark
from wakelog.nameserver.config import NameServerConfig
from wakelog.nameserver.decision import ConfigurationChanged, Instruction, TableSaved
from wakelog.nameserver.kv_config import FILE_NAME, KvConfig, Undo
from wakelog.nameserver.route_table import RouteTable
from wakelog.network import refusals
from wakelog.network.driver import Work
from wakelog.network.request import (
    ADMINISTERS,
    ADMINISTRATION,
    ANYONE,
    BodyLimits,
    Processor,
    Request,
    processor,
)
from wakelog.protocol import fastjson
from wakelog.protocol.bodies import DataVersion, RegisterBrokerBody
from wakelog.protocol.body_codec import decode_body, encode_body
from wakelog.protocol.codes import VERSION_3_0_11, ResponseCode
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.ext_fields import to_ext_fields
from wakelog.protocol.frame import FRAME_BYTES_MAX
from wakelog.protocol.headers.admin import TopicRequestHeader
from wakelog.protocol.headers.name_server import (
    BrokerIdentityRequestHeader,
    BrokerNameRequestHeader,
    GetKVListByNamespaceRequestHeader,
    GetTopicsByClusterRequestHeader,
    KVConfigKeyRequestHeader,
    PutKVConfigRequestHeader,
    RegisterBrokerRequestHeader,
)
from wakelog.protocol.java import boolean_text
from wakelog.protocol.names import ORDER_NAMESPACE
from wakelog.protocol.register_broker import (
    checksum_in_steps,
    decode_in_steps,
    decode_topics_in_steps,
)
from wakelog.protocol.steps import Steps, batched
from wakelog.protocol.sys_flag import TOPIC_UNIT, TOPIC_UNIT_SUB
from wakelog.storage.live_settings import (
    TABLE,
    LiveSettings,
    not_saved,
    waiting_field,
)
from wakelog.storage.settings_text import (
    decode_settings,
    parse_properties,
    settings_named_in,
    settings_text,
)

NAMES_PER_STEP: Final = 512
"""Some 0.3 ms to encode them."""


class State(msgspec.Struct, frozen=True):
    """What the handlers work on."""

    config: NameServerConfig
    kv_config: KvConfig
    routes: RouteTable
    live: LiveSettings
    instructions: list[Instruction]


def put_kv_config(state: State, request: Request[PutKVConfigRequestHeader]) -> Work:
    """Set a value (code 100)."""
    header = request.header
    return _saved(request, state.kv_config.put(header.namespace, header.key, header.value))


def get_kv_config(state: State, request: Request[KVConfigKeyRequestHeader]) -> RemotingCommand:
    """Return a value (code 101)."""
    header = request.header
    value = state.kv_config.get(header.namespace, header.key)
    if value is None:
        remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
        return request.refusal(ResponseCode.QUERY_NOT_FOUND, remark)
    return request.success({"value": value})


def delete_kv_config(state: State, request: Request[KVConfigKeyRequestHeader]) -> Work:
    """Remove a value, if it exists (code 102)."""
    return _saved(request, state.kv_config.delete(request.header.namespace, request.header.key))


def _saved(request: Request[Any], undo: Undo) -> Work:
    """Answer once the values are durable, also where another request has made the change."""
    why_not = yield TableSaved(FILE_NAME, undo)
    if why_not:  # 4.9.3 logs the failure and answers success
        return request.refusal(ResponseCode.SYSTEM_ERROR, f"not saved: {why_not}")
    return request.success()


def register_broker(
    state: State, request: Request[RegisterBrokerRequestHeader]
) -> Steps[RemotingCommand]:
    """Add a broker to the route (code 103); the response body lists the ordered topics."""
    header, command = request.header, request.command
    with state.routes.registering(header.broker_name) as is_first:
        while not is_first():
            yield
        checksum = 0 if not header.body_crc32 else (yield from checksum_in_steps(command.body))
        if header.body_crc32 != checksum:
            return request.refusal(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        filter_servers: list[str] | None = None
        if command.version < VERSION_3_0_11:
            wrapper = yield from decode_topics_in_steps(command.body or b"{}")
        else:
            body = RegisterBrokerBody()
            if command.body:
                body = yield from decode_in_steps(command.body, compressed=header.compressed)
            wrapper, filter_servers = body.topic_config_serialize_wrapper, body.filter_server_list
        registered = yield from state.routes.register_in_steps(
            header, wrapper, filter_servers, channel_id=request.channel.id, now_ms=request.now_ms
        )
    order_topics = yield from state.kv_config.encoded(ORDER_NAMESPACE)
    return request.success(to_ext_fields(registered), order_topics or b"")


def unregister_broker(
    state: State, request: Request[BrokerIdentityRequestHeader]
) -> RemotingCommand:
    """Remove a broker from the route (code 104)."""
    state.routes.unregister(request.header.broker_name, request.header.broker_addr)
    return request.success()


def get_route(state: State, request: Request[TopicRequestHeader]) -> RemotingCommand:
    """Return the brokers and queues of a topic (code 105)."""
    topic = request.header.topic
    body = state.routes.encoded_route(topic)
    if body is None:
        brokers = state.routes.broker_count
        remark = absent_topic_remark(topic, state.routes.topics, broker_count=brokers)
        return request.refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
    if state.config.order_message_enable:
        order = state.kv_config.get(ORDER_NAMESPACE, topic)
        if order is not None:
            route = state.routes.route(topic)
            assert route is not None
            body = encode_body(msgspec.structs.replace(route, order_topic_conf=order))
    return request.success(body=body)


def get_cluster_info(state: State, request: Request[None]) -> RemotingCommand:
    """Return every broker and cluster (code 106)."""
    return request.success(body=state.routes.encoded_cluster_info())


def wipe_write_perm(
    state: State, request: Request[BrokerNameRequestHeader]
) -> Steps[RemotingCommand]:
    """Take the write permission from a broker's topics, so that producers avoid it (code 205)."""
    count = yield from state.routes.wipe_write_perm(request.header.broker_name)
    return request.success({"wipeTopicCount": str(count)})


def delete_topic(state: State, request: Request[TopicRequestHeader]) -> RemotingCommand:
    """Forget a topic (code 216)."""
    state.routes.remove_topic(request.header.topic)
    return request.success()


def get_kv_list(
    state: State, request: Request[GetKVListByNamespaceRequestHeader]
) -> Steps[RemotingCommand]:
    """Return all values of a namespace (code 219)."""
    body = yield from state.kv_config.encoded(request.header.namespace)
    if body is None:
        remark = f"No config item, Namespace: {request.header.namespace}"
        return request.refusal(ResponseCode.QUERY_NOT_FOUND, remark)
    return request.success(body=body)


def get_topics_by_cluster(
    state: State, request: Request[GetTopicsByClusterRequestHeader]
) -> Steps[RemotingCommand]:
    """Return the topics of a cluster (code 224)."""
    names = yield from state.routes.topics_of_cluster(request.header.cluster)
    return request.success(body=(yield from _encode_names(names)))


def get_system_topics(state: State, request: Request[None]) -> RemotingCommand:
    """Return the topics named after clusters and brokers (code 304)."""
    return request.success(body=encode_body(state.routes.system_topics()))


def get_all_topics(state: State, request: Request[None]) -> Steps[RemotingCommand]:
    """Return the topics that any broker has (code 206)."""
    return request.success(body=(yield from _encode_names(state.routes.topics)))


def _topics_with(mask: int, flags: int) -> Callable[..., Steps[RemotingCommand]]:
    """Return the handler of a code that asks for the topics with these unit flags."""

    def get_topics(state: State, request: Request[None]) -> Steps[RemotingCommand]:
        names = yield from state.routes.topics.flagged(mask, flags)
        return request.success(body=(yield from _encode_names(names)))

    return get_topics


def _encode_names(names: Iterable[str]) -> Steps[bytes]:
    """Return the body of a TopicList of these names."""
    parts = []
    for some in batched(names, NAMES_PER_STEP):
        parts.append(fastjson.dumps(some).strip(b"[]"))
        if len(some) == NAMES_PER_STEP:
            yield
    return b'{"topicList":[' + b",".join(parts) + b"]}"


def update_name_server_config(state: State, request: Request[None]) -> Work:
    """Change the configuration for now and for later starts (code 318).

    The remark names the keys that wait for a restart, and those without effect.
    """
    text = decode_settings(request.command.body)
    update = state.live.begin(parse_properties(text, name="the body", what="text"))
    if not state.live.is_saving:
        state.live.abandon(update)
        return request.success()
    why_not = yield TableSaved(TABLE)
    if why_not:
        state.live.abandon(update)
        return request.refusal(ResponseCode.SYSTEM_ERROR, not_saved(why_not))
    keys = state.live.finish(update)
    if not update:
        return request.success()  # another request has made this change
    values = ", ".join(f"{key}={change.value}" for key, change in sorted(update.items()))
    changed = ConfigurationChanged(values, request.channel.remote_host, keys.remark or "")
    state.instructions.append(changed)
    response = request.success()
    response.remark = keys.remark
    return response


def get_name_server_config(state: State, request: Request[None]) -> RemotingCommand:
    """Return every key with its value (code 319).

    A key that waits for a restart has its new value; a field of ours has the one in use.
    """
    body = settings_text(state.live.shown()).encode()
    return request.success(waiting_field(state.live.waiting()), body)


def query_data_version(
    state: State, request: Request[BrokerIdentityRequestHeader]
) -> RemotingCommand:
    """Return whether a broker's topics have changed (code 322); if not, it stays registered."""
    address, body = request.header.broker_addr, request.command.body
    asked = decode_body(DataVersion, body) if body else None
    known = state.routes.data_version(address)
    changed = known is None or known != asked
    if not changed:
        state.routes.touch(address, request.now_ms)
    fields = {"changed": boolean_text(changed)}
    return request.success(fields, b"" if known is None else encode_body(known))


def add_write_perm(
    state: State, request: Request[BrokerNameRequestHeader]
) -> Steps[RemotingCommand]:
    """Give the write permission back to a broker's topics (code 327)."""
    count = yield from state.routes.add_write_perm(request.header.broker_name)
    return request.success({"addTopicCount": str(count)})


REGISTRATION: Final = BodyLimits(FRAME_BYTES_MAX, 1_048_576)
"""A whole frame, with 131,072 topics of 8 fields: a broker has to be able to register its topics.
Parsing takes some 0.2 s then."""

Answer: TypeAlias = RemotingCommand | Work

_FOR_ANYONE: Final[dict[Code, Callable[..., Answer]]] = {
    Code.GET_KV_CONFIG: get_kv_config,
    Code.GET_ROUTEINFO_BY_TOPIC: get_route,
    Code.GET_BROKER_CLUSTER_INFO: get_cluster_info,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: get_all_topics,
    Code.GET_KVLIST_BY_NAMESPACE: get_kv_list,
    Code.GET_TOPICS_BY_CLUSTER: get_topics_by_cluster,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: get_system_topics,
    Code.GET_UNIT_TOPIC_LIST: _topics_with(TOPIC_UNIT, TOPIC_UNIT),
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: _topics_with(TOPIC_UNIT_SUB, TOPIC_UNIT_SUB),
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _topics_with(
        TOPIC_UNIT | TOPIC_UNIT_SUB, TOPIC_UNIT_SUB
    ),
    Code.GET_NAMESRV_CONFIG: get_name_server_config,
}
_FOR_ADMINISTRATORS: Final[dict[Code, Callable[..., Answer]]] = {
    Code.PUT_KV_CONFIG: put_kv_config,
    Code.DELETE_KV_CONFIG: delete_kv_config,
    Code.REGISTER_BROKER: register_broker,
    Code.UNREGISTER_BROKER: unregister_broker,
    Code.QUERY_DATA_VERSION: query_data_version,
    Code.WIPE_WRITE_PERM_OF_BROKER: wipe_write_perm,
    Code.ADD_WRITE_PERM_OF_BROKER: add_write_perm,
    Code.DELETE_TOPIC_IN_NAMESRV: delete_topic,
    Code.UPDATE_NAMESRV_CONFIG: update_name_server_config,
}
"""What changes where clients go; brokers are administrators, too."""

_OF_BROKERS: Final = {Code.REGISTER_BROKER, Code.UNREGISTER_BROKER, Code.QUERY_DATA_VERSION}
"""What brokers ask all the time; the audit log has none of it."""

_BODIES: Final = {Code.REGISTER_BROKER: REGISTRATION}
"""The limits of bodies; of all others they are those of administration."""

PROCESSORS: Final[dict[int, Processor]] = {
    int(code): processor(
        handle,
        "default",
        rule,
        body=_BODIES.get(code, ADMINISTRATION),
        is_audited=False if code in _OF_BROKERS else None,
        names_in=settings_named_in if code is Code.UPDATE_NAMESRV_CONFIG else None,
    )
    for rule, rows in ((ANYONE, _FOR_ANYONE), (ADMINISTERS, _FOR_ADMINISTRATORS))
    for code, handle in rows.items()
}
"""Every request that a name server handles."""

assert len(PROCESSORS) == 20, "section 1.2 of 4.9.3's inventory has 20"

CLIENT_CODES: Final = frozenset(
    {
        Code.CHECK_TRANSACTION_STATE,
        Code.NOTIFY_CONSUMER_IDS_CHANGED,
        Code.RESET_CONSUMER_CLIENT_OFFSET,
        Code.GET_CONSUMER_STATUS_FROM_CLIENT,
        Code.PUSH_REPLY_MESSAGE_TO_CLIENT,
    }
)
"""Codes that only a client handles, when a broker asks."""

BROKER_CODES: Final = frozenset(Code) - PROCESSORS.keys() - CLIENT_CODES
"""Codes for a broker. A name server that gets one was mistaken for a broker."""


def unsupported(state: State, command: RemotingCommand) -> RemotingCommand:
    """Make the response to a code without a processor, with the address of a broker.

    4.9.3's name server does not respond at all, and the client waits for its timeout.
    """
    if command.code not in BROKER_CODES:
        return refusals.unsupported(command)
    address = state.routes.any_address()
    where = f"such as {address}" if address is not None else "whose port is 10911 by default"
    return refusals.unsupported(command, f" by a name server, ask a broker, {where}")
