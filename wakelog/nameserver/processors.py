"""Request code to processor: everything a name server is asked, as one table of small functions.

Every processor has the same shape: the state and the request in, the answer out; what it cannot
accept it raises as a RemoteProtocolError or IllegalConfiguration. They stand in the order of
PROCESSORS.

Source: org.apache.rocketmq.namesrv.processor.DefaultRequestProcessor (4.9.3).
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from wakelog.nameserver.absent_topic import absent_topic_remark
from wakelog.nameserver.config import (
    BODY_BYTES_MAX,
    NameServerSettings,
    settings_text,
    update_config,
)
from wakelog.nameserver.decision import Channel
from wakelog.nameserver.kv_config import ORDER_TOPIC_NAMESPACE, KvConfig
from wakelog.nameserver.route_table import RouteTable
from wakelog.protocol.bodies import (
    DataVersion,
    KVTable,
    RegisterBrokerBody,
    TopicConfigSerializeWrapper,
    TopicList,
)
from wakelog.protocol.body_codec import decode_body, encode_body
from wakelog.protocol.codes import VERSION_3_0_11, RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.ext_fields import read_header, to_ext_fields
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
from wakelog.protocol.register_broker import body_checksum, decode_register_broker


class NameServerState(msgspec.Struct, frozen=True):
    """The tables that processors work on."""

    settings: NameServerSettings
    kv_config: KvConfig
    routes: RouteTable


Processor: TypeAlias = Callable[[NameServerState, RemotingCommand, Channel, int], RemotingCommand]


def put_kv_config(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Set a value (code 100)."""
    header = read_header(PutKVConfigRequestHeader, request.ext_fields)
    state.kv_config.put(header.namespace, header.key, header.value)
    return answer(request, ResponseCode.SUCCESS)


def get_kv_config(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Answer a value (code 101)."""
    header = read_header(KVConfigKeyRequestHeader, request.ext_fields)
    value = state.kv_config.get(header.namespace, header.key)
    if value is None:
        remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
        return answer(request, ResponseCode.QUERY_NOT_FOUND, remark)
    return answer(request, ResponseCode.SUCCESS, None, {"value": value})


def delete_kv_config(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Remove a value, whether it is there or not (code 102)."""
    header = read_header(KVConfigKeyRequestHeader, request.ext_fields)
    state.kv_config.delete(header.namespace, header.key)
    return answer(request, ResponseCode.SUCCESS)


def register_broker(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Take a broker into the route (code 103); the body answered says which topics are ordered."""
    header = read_header(RegisterBrokerRequestHeader, request.ext_fields)
    if header.body_crc32 != 0 and header.body_crc32 != body_checksum(request.body):
        return answer(request, ResponseCode.SYSTEM_ERROR, "crc32 not match")
    filter_servers: list[str] | None = None
    if request.version < VERSION_3_0_11:
        wrapper = decode_body(TopicConfigSerializeWrapper, request.body or b"{}")
    else:
        body = RegisterBrokerBody()
        if request.body:
            body = decode_register_broker(request.body, compressed=header.compressed)
        wrapper, filter_servers = body.topic_config_serialize_wrapper, body.filter_server_list
    registered = state.routes.register(
        header, wrapper, filter_servers, channel_id=channel.id, now_ms=now_ms
    )
    order_topics = state.kv_config.namespace(ORDER_TOPIC_NAMESPACE)
    table = b"" if order_topics is None else encode_body(KVTable(order_topics))
    return answer(request, ResponseCode.SUCCESS, None, to_ext_fields(registered), table)


def unregister_broker(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Take a broker out of the route (code 104)."""
    header = read_header(BrokerIdentityRequestHeader, request.ext_fields)
    state.routes.unregister(header.broker_name, header.broker_addr)
    return answer(request, ResponseCode.SUCCESS)


def get_route(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Answer where a topic's queues are (code 105)."""
    topic = read_header(TopicRequestHeader, request.ext_fields).topic
    order = None
    if state.settings.config.order_message_enable:
        order = state.kv_config.get(ORDER_TOPIC_NAMESPACE, topic)
    body = state.routes.encoded_route(topic)
    if body is None:
        brokers = state.routes.broker_count
        remark = absent_topic_remark(topic, state.routes.topics, broker_count=brokers)
        return answer(request, ResponseCode.TOPIC_NOT_EXIST, remark)
    if order is not None:
        route = state.routes.route(topic)
        assert route is not None
        body = encode_body(msgspec.structs.replace(route, order_topic_conf=order))
    return answer(request, ResponseCode.SUCCESS, body=body)


def get_cluster_info(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Answer every broker and cluster (code 106)."""
    return answer(request, ResponseCode.SUCCESS, body=encode_body(state.routes.cluster_info()))


def wipe_write_perm(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Make producers avoid a broker (code 205)."""
    header = read_header(BrokerNameRequestHeader, request.ext_fields)
    count = state.routes.wipe_write_perm(header.broker_name)
    return answer(request, ResponseCode.SUCCESS, None, {"wipeTopicCount": str(count)})


def get_all_topics(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Answer the names of all topics (code 206)."""
    return _topic_list(request, TopicList(set(state.routes.topics)))


def delete_topic(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Forget a topic (code 216)."""
    header = read_header(TopicRequestHeader, request.ext_fields)
    state.routes.remove_topic(header.topic)
    return answer(request, ResponseCode.SUCCESS)


def get_kv_list(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Answer all values of a namespace (code 219)."""
    header = read_header(GetKVListByNamespaceRequestHeader, request.ext_fields)
    values = state.kv_config.namespace(header.namespace)
    if values is None:
        remark = f"No config item, Namespace: {header.namespace}"
        return answer(request, ResponseCode.QUERY_NOT_FOUND, remark)
    return answer(request, ResponseCode.SUCCESS, body=encode_body(KVTable(values)))


def get_topics_by_cluster(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Answer the topics of a cluster (code 224)."""
    header = read_header(GetTopicsByClusterRequestHeader, request.ext_fields)
    return _topic_list(request, state.routes.topics_of_cluster(header.cluster))


def get_system_topics(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Answer the names of clusters and brokers, which are topics too (code 304)."""
    return _topic_list(request, state.routes.system_topics())


def get_unit_topics(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Answer the topics of units (code 311)."""
    return _topic_list(request, TopicList(state.routes.topics.unit_topics()))


def get_unit_sub_topics(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Answer the topics that units subscribe to (code 312)."""
    return _topic_list(request, TopicList(state.routes.topics.unit_sub_topics()))


def get_unit_sub_not_unit_topics(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Answer the topics that units subscribe to and that are of no unit (code 313)."""
    return _topic_list(request, TopicList(state.routes.topics.unit_sub_not_unit_topics()))


def update_name_server_config(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Apply the keys that may change while the name server runs (code 318).

    The remark names what was ignored. With nothing applied the answer is code 1, since mqadmin
    shows a remark of errors only.
    """
    if len(request.body) > BODY_BYTES_MAX:
        remark = f"a configuration of {len(request.body)} bytes"
        return answer(request, ResponseCode.SYSTEM_ERROR, remark)
    try:
        text = request.body.decode()
    except UnicodeDecodeError:
        return answer(request, ResponseCode.SYSTEM_ERROR, "string2Properties error")
    update = update_config(state.settings.config, text)
    if not update.ignored:
        return answer(request, ResponseCode.SUCCESS)
    code = ResponseCode.SUCCESS if update.applied else ResponseCode.SYSTEM_ERROR
    names = ", ".join(update.ignored)
    return answer(request, code, f"not changed while the name server runs, set at start: {names}")


def get_name_server_config(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Answer every key with its value (code 319)."""
    return answer(request, ResponseCode.SUCCESS, body=settings_text(state.settings).encode())


def query_data_version(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Tell a broker whether its topics have changed (code 322); if not, it counts as seen."""
    header = read_header(BrokerIdentityRequestHeader, request.ext_fields)
    asked = decode_body(DataVersion, request.body) if request.body else None
    known = state.routes.data_version(header.broker_addr)
    changed = known is None or known != asked
    if not changed:
        state.routes.touch(header.broker_addr, now_ms)
    fields = {"changed": boolean_text(changed)}
    body = b"" if known is None else encode_body(known)
    return answer(request, ResponseCode.SUCCESS, None, fields, body)


def add_write_perm(
    state: NameServerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> RemotingCommand:
    """Let producers choose a broker again (code 327)."""
    header = read_header(BrokerNameRequestHeader, request.ext_fields)
    count = state.routes.add_write_perm(header.broker_name)
    return answer(request, ResponseCode.SUCCESS, None, {"addTopicCount": str(count)})


def _topic_list(request: RemotingCommand, topics: TopicList) -> RemotingCommand:
    return answer(request, ResponseCode.SUCCESS, body=encode_body(topics))


PROCESSORS: Final[dict[int, Processor]] = {
    RequestCode.PUT_KV_CONFIG: put_kv_config,
    RequestCode.GET_KV_CONFIG: get_kv_config,
    RequestCode.DELETE_KV_CONFIG: delete_kv_config,
    RequestCode.REGISTER_BROKER: register_broker,
    RequestCode.UNREGISTER_BROKER: unregister_broker,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: get_route,
    RequestCode.GET_BROKER_CLUSTER_INFO: get_cluster_info,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: wipe_write_perm,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: get_all_topics,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: delete_topic,
    RequestCode.GET_KVLIST_BY_NAMESPACE: get_kv_list,
    RequestCode.GET_TOPICS_BY_CLUSTER: get_topics_by_cluster,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: get_system_topics,
    RequestCode.GET_UNIT_TOPIC_LIST: get_unit_topics,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: get_unit_sub_topics,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: get_unit_sub_not_unit_topics,
    RequestCode.UPDATE_NAMESRV_CONFIG: update_name_server_config,
    RequestCode.GET_NAMESRV_CONFIG: get_name_server_config,
    RequestCode.QUERY_DATA_VERSION: query_data_version,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: add_write_perm,
}
"""Every request a name server answers."""

assert len(PROCESSORS) == 20, "section 1.2 of 4.9.3's inventory has 20"

CLIENT_CODES: Final = frozenset(
    {
        RequestCode.CHECK_TRANSACTION_STATE,
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
    }
)
"""Codes that only a client answers, when a broker asks."""

BROKER_CODES: Final = frozenset(RequestCode) - PROCESSORS.keys() - CLIENT_CODES
"""Codes for a broker; whoever asks a name server has mixed up two addresses."""


def unsupported(state: NameServerState, request: RemotingCommand) -> RemotingCommand:
    """Answer a code without a processor, and say where to ask instead.

    4.9.3's name server does not answer at all, and the caller waits for its timeout.
    """
    remark = f" request type {request.code} not supported"
    if request.code in BROKER_CODES:
        address = state.routes.any_address()
        where = f"such as {address}" if address is not None else "whose port is 10911 by default"
        remark = f"{remark} by a name server, ask a broker, {where}"
    return answer(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
