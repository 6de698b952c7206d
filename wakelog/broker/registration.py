"""The requests of a broker to name servers: registration with its topics, and unregistration.

A broker that may not be read or written (brokerPermission) registers every topic with that
permission. Clients then turn to other brokers, and no topic is changed.

Source: org.apache.rocketmq.broker.BrokerController.registerBrokerAll,
org.apache.rocketmq.broker.out.BrokerOuterAPI (4.9.3).
"""

from collections.abc import Callable

from wakelog.broker.state import BrokerState
from wakelog.protocol.bodies import (
    KVTable,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    decode_body,
)
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.ext_fields import to_ext_fields
from wakelog.protocol.headers.name_server import (
    BrokerIdentityRequestHeader,
    RegisterBrokerRequestHeader,
)
from wakelog.protocol.register_broker import body_checksum, encode_register_broker
from wakelog.protocol.sys_flag import is_readable, is_writeable


def registration(state: BrokerState) -> Callable[[], RemotingCommand]:
    """Copy the topic table; return a function that makes the request, on any thread."""
    config = state.config
    wrapper, filter_servers = _registered_topics(state), state.filter_servers.addresses()
    compressed = config.compressed_register
    ha_server_addr = f"{config.broker_ip2}:{state.store_config.ha_listen_port}"

    def encode() -> RemotingCommand:
        body = encode_register_broker(
            RegisterBrokerBody(wrapper, filter_servers), compressed=compressed
        )
        header = RegisterBrokerRequestHeader(
            broker_name=config.broker_name,
            broker_addr=config.broker_addr,
            cluster_name=config.broker_cluster_name,
            ha_server_addr=ha_server_addr,
            broker_id=config.broker_id,
            compressed=compressed,
            body_crc32=body_checksum(body),
        )
        return make_request(RequestCode.REGISTER_BROKER, to_ext_fields(header), body, opaque=0)

    return encode


def unregistration(state: BrokerState) -> RemotingCommand:
    """Return the request that removes this broker from every route."""
    config = state.config
    header = BrokerIdentityRequestHeader(
        broker_name=config.broker_name,
        broker_addr=config.broker_addr,
        cluster_name=config.broker_cluster_name,
        broker_id=config.broker_id,
    )
    return make_request(RequestCode.UNREGISTER_BROKER, to_ext_fields(header), opaque=0)


def registered(state: BrokerState, response: RemotingCommand, now_ms: int) -> None:
    """Mark the topics that a name server lists as ordered in its response.

    Raises: RemoteProtocolError if the body is not a table.
    """
    if response.code == ResponseCode.SUCCESS and response.body:
        table = decode_body(KVTable, response.body).table
        state.topics.update_order_topics(table, now_ms)


def _registered_topics(state: BrokerState) -> TopicConfigSerializeWrapper:
    wrapper = state.topics.wrapper()
    permission = state.config.broker_permission
    if is_readable(permission) and is_writeable(permission):
        return wrapper
    table = {
        name: TopicConfig(name, topic.read_queue_nums, topic.write_queue_nums, permission)
        for name, topic in wrapper.topic_config_table.items()
    }
    return TopicConfigSerializeWrapper(table, wrapper.data_version)
