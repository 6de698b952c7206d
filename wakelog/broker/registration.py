"""The requests of a broker to name servers: registration with its topics, and unregistration.

The whole table goes out at the start, every 30 s and when every topic changes. A topic that was
created or changed goes out alone, as in 4.9.3. A name server that has a table of the same version
keeps what it has, so a topic that it never got would be lost to it. Therefore topics go alone only
over a connection on which the whole table was taken before, and every request waits for its
response; 4.9.3 does neither.

A table of more than ``TOPICS_PER_REQUEST_MAX`` topics goes out in parts. Each part but the last has
a version of its own, because a name server ignores a version that it knows. In each period the
broker first asks whether the version is known.

A broker that may not be read or written (brokerPermission) registers every topic with that
permission, and one that is about to stop (`drain`) without that to write. Clients then turn to
other brokers, and no topic is changed.

The master of a group with a register says its epoch. Of two masters of a name, a name server of
wakelog keeps the one of the higher epoch; one of 4.9.3 does not read it.

Source: org.apache.rocketmq.broker.BrokerController.registerBrokerAll,
org.apache.rocketmq.broker.out.BrokerOuterAPI (4.9.3).
"""

from collections.abc import Callable, Collection
from typing import Final

import msgspec

from wakelog.broker.replication.master import MasterAddress
from wakelog.broker.state import BrokerState
from wakelog.protocol.bodies import (
    DataVersion,
    KVTable,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    decode_body,
    encode_body,
)
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.ext_fields import to_ext_fields
from wakelog.protocol.headers.name_server import (
    BrokerIdentityRequestHeader,
    RegisterBrokerRequestHeader,
)
from wakelog.protocol.register_broker import body_checksum, encode_register_broker
from wakelog.protocol.sys_flag import PERM_WRITE, is_readable, is_writeable

TOPICS_PER_REQUEST_MAX: Final = 10_000
"""4 MB with names of 127 characters, a quarter of a frame; a name server takes it in 30 ms."""


class Due(msgspec.Struct, frozen=True):
    """What to send to a name server now.

    topics: None for the whole table.
    is_repeated: the whole table was taken over this connection before.
    """

    topics: tuple[str, ...] | None
    is_repeated: bool


class NameServerProgress:
    """What one name server has yet to be sent.

    Invariant: topics are due alone only over the connection that took the whole table last, and
        only if everything that was due since then was taken, too.
    """

    def __init__(self) -> None:
        self._topics: dict[str, None] = {}
        self._is_whole_wanted = False
        self._connection_id: int | None = None

    def want(self, topics: Collection[str]) -> None:
        """Have these topics sent, or the whole table if there are none."""
        self._topics.update(dict.fromkeys(topics))
        self._is_whole_wanted = self._is_whole_wanted or not topics

    def take(self, connection_id: int | None) -> Due | None:
        """Return what is due, None for nothing; without ``on_acknowledged`` all of it is due again.

        connection_id: of the open connection to the name server, None without one.
        """
        is_repeated = connection_id is not None and connection_id == self._connection_id
        is_whole = self._is_whole_wanted or not is_repeated
        if not is_whole and not self._topics:
            return None
        due = Due(None if is_whole else tuple(self._topics), is_repeated)
        self._topics = {}
        self._is_whole_wanted = False
        self._connection_id = None
        return due

    def on_acknowledged(self, connection_id: int | None) -> None:
        """Note that the name server took everything, over this connection."""
        self._connection_id = connection_id


def registration(
    state: BrokerState, topics: Collection[str] | None = None
) -> Callable[[], list[RemotingCommand]]:
    """Copy the topic table; return a function that makes the requests, on any thread.

    topics: send only these; those that are gone meanwhile are left out.
    """
    wrapper, filter_servers = _registered_topics(state, topics), state.filter_servers.addresses()
    version, table = wrapper.data_version, list(wrapper.topic_config_table.items())

    def encode() -> list[RemotingCommand]:
        requests = []
        for begin in range(0, max(1, len(table)), TOPICS_PER_REQUEST_MAX):
            end = begin + TOPICS_PER_REQUEST_MAX
            part_version = version if end >= len(table) else DataVersion(version.timestamp, -end)
            part = TopicConfigSerializeWrapper(dict(table[begin:end]), part_version)
            requests.append(_request(state, RegisterBrokerBody(part, filter_servers)))
        return requests

    return encode


def _request(state: BrokerState, content: RegisterBrokerBody) -> RemotingCommand:
    config = state.config
    compressed = config.compressed_register
    body = encode_register_broker(content, compressed=compressed)
    header = RegisterBrokerRequestHeader(
        broker_name=config.broker_name,
        broker_addr=config.broker_addr,
        cluster_name=config.broker_cluster_name,
        ha_server_addr=f"{config.broker_ip2}:{state.store_config.ha_listen_port}",
        broker_id=config.broker_id,
        compressed=compressed,
        body_crc32=body_checksum(body),
        election_epoch=state.election_epoch,
    )
    return make_request(RequestCode.REGISTER_BROKER, to_ext_fields(header), body, opaque=0)


def version_question(state: BrokerState) -> RemotingCommand:
    """Return the request that asks whether a name server lacks this version; it renews if not."""
    body = encode_body(state.topics.data_version)
    fields = to_ext_fields(_identity(state))
    return make_request(RequestCode.QUERY_DATA_VERSION, fields, body, opaque=0)


def is_version_known(response: RemotingCommand) -> bool:
    """Return whether the name server has the version that it was asked about."""
    return response.code == ResponseCode.SUCCESS and response.ext_fields.get("changed") == "false"


def unregistration(state: BrokerState) -> RemotingCommand:
    """Return the request that removes this broker from every route."""
    fields = to_ext_fields(_identity(state))
    return make_request(RequestCode.UNREGISTER_BROKER, fields, opaque=0)


def _identity(state: BrokerState) -> BrokerIdentityRequestHeader:
    config = state.config
    return BrokerIdentityRequestHeader(
        broker_name=config.broker_name,
        broker_addr=config.broker_addr,
        cluster_name=config.broker_cluster_name,
        broker_id=config.broker_id,
    )


def registered(
    state: BrokerState,
    response: RemotingCommand,
    now_ms: int,
    *,
    topics: Collection[str] | None = None,
) -> None:
    """Mark the topics that a name server lists as ordered in its response, and note the master.

    topics: mark these alone, which were registered alone; None for all.

    Raises: RemoteProtocolError if the body is not a table.
    """
    fields = response.ext_fields
    if state.is_slave and fields.get("haServerAddr") and fields.get("masterAddr"):
        state.master = MasterAddress(fields["haServerAddr"], fields["masterAddr"])
    if response.code == ResponseCode.SUCCESS and response.body:
        table = decode_body(KVTable, response.body).table
        state.topics.update_order_topics(table, now_ms, topics)


def _registered_topics(
    state: BrokerState, topics: Collection[str] | None
) -> TopicConfigSerializeWrapper:
    wrapper = state.topics.wrapper(topics)
    permission = state.config.broker_permission
    if state.is_draining:
        permission &= ~PERM_WRITE
    if is_readable(permission) and is_writeable(permission):
        return wrapper
    table = {
        name: TopicConfig(name, topic.read_queue_nums, topic.write_queue_nums, permission)
        for name, topic in wrapper.topic_config_table.items()
    }
    return TopicConfigSerializeWrapper(table, wrapper.data_version)
