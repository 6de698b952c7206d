"""What operators ask name servers and brokers: topics, groups, offsets, messages, settings.

`Admin.ask` and `Admin.ask_name_server` send one request and check its code; the other methods know
which request asks for what, and which brokers have to be asked.

A request is sent once: a change must not be made twice without the operator.

Invariants: every method raises ClientError, and no other error of a connection, for an answer that
is missing or refuses.

Source: org.apache.rocketmq.tools.admin.DefaultMQAdminExtImpl, org.apache.rocketmq.client.impl.
MQClientAPIImpl (4.9.3).
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, SupportsIndex, TypeVar, Unpack

import msgspec

from wakelog.client.broker_calls import BrokerCalls
from wakelog.client.configuration import Configuration, read_configuration
from wakelog.client.consumer_arguments import plain_queue
from wakelog.client.errors import (
    CHECK_LOG,
    ClientError,
    InvalidArgument,
    describe,
    refused,
    tls_refused,
    unanswered,
)
from wakelog.client.options import (
    ClientOptions,
    Settings,
    Target,
    make_options,
    plain_options,
    with_namespace,
)
from wakelog.client.plain import (
    check_flags,
    check_kind,
    not_accepted,
    plain_bytes,
    plain_struct,
    plain_text,
    plain_topic,
    whole_number,
)
from wakelog.client.route import MASTER_ID, Connections, QueueAt
from wakelog.client.sender import Sender
from wakelog.network.client import RemotingClient, make_client
from wakelog.network.errors import RemotingError, TlsRefused
from wakelog.protocol.bodies import (
    BrokerStatsData,
    ClusterInfo,
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    GroupList,
    KVTable,
    ProducerConnection,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicRouteData,
    TopicStatsTable,
)
from wakelog.protocol.body_codec import MessageQueue, decode_response, encode_body
from wakelog.protocol.codes import LanguageCode, ResponseCode
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.java import INT_MAX, LONG_MIN, boolean_text
from wakelog.protocol.message_id import create_message_id, decode_message_id
from wakelog.protocol.names import AUTO_CREATE_TOPIC, RETRY_PREFIX
from wakelog.protocol.record import MessageRecord, decode_record

SLOW_FACTOR: Final = 3
"""Requests that a broker forwards to a client, or that visit every queue, may take this longer."""

BodyType = TypeVar("BodyType", bound=msgspec.Struct)
Fields = Mapping[str, object]

_REMEDIES: Final = {
    int(ResponseCode.TOPIC_NOT_EXIST): "Check the name of the topic (wakelog topics)",
    int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST): "Create the group (updateSubGroup)",
    int(ResponseCode.CONSUMER_NOT_ONLINE): "Start a consumer of this group",
    int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED): "This broker cannot do it: see docs/requests.md",
    int(ResponseCode.NO_PERMISSION): "Ask as an account, or from a host, that may",
}


@asynccontextmanager
async def open_admin(
    name_servers: ClientOptions | Target, **settings: Unpack[Settings]
) -> "AsyncIterator[Admin]":
    """Yield an Admin, whose connections are closed at the end of the block.

    name_servers: as of a `Producer`; or the options of a client, without `settings`.
    Raises: InvalidArgument, also for certificates that cannot be used.
    """
    if not isinstance(name_servers, ClientOptions):
        options = make_options(name_servers, ClientOptions().group, settings)
    elif settings:
        cause = f"{', '.join(settings)} is given beside options of a client"
        raise InvalidArgument(cause, "Give the address with settings, or the options alone")
    else:
        options = plain_options(name_servers)
    try:
        connections = make_client(options.credentials, options.tls, dial=options.dial)
    except TlsRefused as error:
        raise tls_refused(error) from error
    try:
        yield Admin(connections, options)
    finally:
        await connections.close()


class Admin:
    """See the module. One loop, one thread."""

    def __init__(self, connections: Connections, options: ClientOptions) -> None:
        """Send no request yet."""
        self.calls = BrokerCalls(connections, options)
        self.routes = self.calls.routes
        self.options = options
        self.sender = Sender(connections, options, routes=self.routes)
        self._connections = connections

    def more_calls(self) -> BrokerCalls:
        """Return calls with slots of their own, for pulls that wait at brokers."""
        return BrokerCalls(self._connections, self.options, routes=self.routes)

    async def ask(
        self,
        address: str,
        code: Code,
        fields: Fields | None = None,
        body: bytes | str = b"",
        *,
        allowed: tuple[ResponseCode, ...] = (),
        timeout_ms: int = 0,
        language: LanguageCode = LanguageCode.JAVA,
    ) -> RemotingCommand:
        """Send one request and return its response: SUCCESS, or one of the allowed codes.

        fields: by their names on the wire; one that is None is left out. Raises: ClientError.
        """
        check_kind("code", code, Code)
        _check_allowed(allowed)
        check_kind("language", language, LanguageCode)
        address = plain_text("address", address, "HOST:PORT")
        data = plain_bytes("body", body)
        command = RemotingCommand(
            int(code), ext_fields=_field_texts(fields), body=data, language=int(language)
        )
        wait_ms = whole_number("timeout_ms", timeout_ms, 0, INT_MAX) or self.options.timeout_ms
        try:
            response = await self._connections.invoke(address, command, timeout_ms=wait_ms)
        except RemotingError as error:
            raise unanswered(f"{address} does not answer {code.name}", error) from error
        if response.code != ResponseCode.SUCCESS and response.code not in allowed:
            cause = f"{address} answered {code.name} with {describe(response)}"
            raise refused(address, cause, response, _REMEDIES)
        return response

    async def ask_for(
        self,
        body_type: type[BodyType],
        address: str,
        code: Code,
        fields: Fields | None = None,
        *,
        timeout_ms: int = 0,
    ) -> BodyType:
        """Return the body of the answer. Raises: ClientError, also for one that is not JSON."""
        if not (isinstance(body_type, type) and issubclass(body_type, msgspec.Struct)):
            raise not_accepted("body_type", body_type, "a class of wakelog.protocol.bodies")
        response = await self.ask(address, code, fields, timeout_ms=timeout_ms)
        return _read(body_type, response, address, code)

    async def ask_name_server(
        self, code: Code, fields: Fields | None = None, *, allowed: tuple[ResponseCode, ...] = ()
    ) -> RemotingCommand:
        """Return the answer of the first name server that gives one. Raises: ClientError."""
        check_kind("code", code, Code)
        _check_allowed(allowed)
        command = RemotingCommand(int(code), ext_fields=_field_texts(fields))
        return await self.routes.name_servers.ask(command, f"an answer to {code.name}", allowed)

    async def ask_name_servers(
        self, code: Code, fields: Fields, body: bytes | str = b""
    ) -> dict[str, RemotingCommand]:
        """Send a change to every name server, and return their answers. Raises: ClientError."""
        return {
            address: await self.ask(address, code, fields, body)
            for address in self.options.name_servers
        }

    # Brokers

    async def cluster(self) -> ClusterInfo:
        """Return every broker. Raises: ClientError."""
        response = await self.ask_name_server(Code.GET_BROKER_CLUSTER_INFO)
        return _read(ClusterInfo, response, "the name server", Code.GET_BROKER_CLUSTER_INFO)

    async def masters(self, cluster_name: str) -> list[str]:
        """Return the addresses of a cluster's masters. Raises: ClientError."""
        members = await self._members(cluster_name)
        return [address for _, broker_id, address in members if broker_id == MASTER_ID]

    async def members(self, cluster_name: str) -> list[str]:
        """Return the addresses of a cluster's masters and slaves. Raises: ClientError."""
        return [address for _, _, address in await self._members(cluster_name)]

    async def _members(self, cluster_name: str) -> list[tuple[str, int, str]]:
        name = plain_text("cluster_name", cluster_name)
        return cluster_members(await self.cluster(), name)

    async def runtime_info(self, address: str) -> dict[str, str]:
        """Return what a broker says of itself. Raises: ClientError."""
        return (await self.ask_for(KVTable, address, Code.GET_BROKER_RUNTIME_INFO)).table

    def certificate_end_ms(self, address: str) -> int:
        """Return until when the certificate of a server is valid, which was asked before.

        0 without TLS, and without an open connection. Raises: InvalidArgument.
        """
        address = plain_text("address", address, "HOST:PORT")
        connections = self._connections
        if not isinstance(connections, RemotingClient):
            return 0
        certificate = connections.peer_certificate(address)
        if not certificate:
            return 0
        # It imports much, and few clients have TLS.
        from wakelog.network.certificate_dates import valid_until_ms

        return valid_until_ms(certificate)

    async def settings(self, address: str, code: Code = Code.GET_BROKER_CONFIG) -> dict[str, str]:
        """Return the settings of a broker or name server, as a restart has them.

        Raises: ClientError.
        """
        return (await self.configuration(address, code)).settings

    async def configuration(
        self, address: str, code: Code = Code.GET_BROKER_CONFIG
    ) -> Configuration:
        """Return the settings of a broker or name server, and which wait. Raises: ClientError."""
        return read_configuration(await self.ask(address, code))

    async def stats(self, address: str, name: str, key: str) -> BrokerStatsData:
        """Return one statistic of a broker. Raises: ClientError."""
        fields = {"statsName": plain_text("name", name), "statsKey": plain_text("key", key)}
        return await self.ask_for(BrokerStatsData, address, Code.VIEW_BROKER_STATS_DATA, fields)

    # Topics

    async def route(self, topic: str) -> TopicRouteData:
        """Return the route of a topic. Raises: ClientError, also for an unknown topic."""
        topic = plain_text("topic", topic)
        found = await self.routes.find(topic)
        if found is None:
            raise _unknown(topic)
        return found

    async def brokers_of(self, topic: str) -> list[str]:
        """Return one address, of the master if there is one, of each broker of a topic."""
        return list(addresses_by_broker(await self.route(topic)).values())

    async def create_topic(self, topic: str, *, queues: int = 4, cluster_name: str = "") -> None:
        """Create a topic at every master, or change its number of queues at each.

        cluster_name: at the masters of this cluster alone. Raises: ClientError; InvalidArgument.
        """
        name = with_namespace(self.options.namespace, plain_topic(topic))
        count = whole_number("queues", queues, 1, INT_MAX)
        wanted = plain_text("cluster_name", cluster_name)
        info = await self.cluster()
        clusters = [wanted] if wanted else sorted(info.cluster_addr_table)
        found = [each for cluster in clusters for each in cluster_members(info, cluster)]
        addresses = [address for _, broker_id, address in found if broker_id == MASTER_ID]
        if not addresses:
            raise ClientError("no broker has registered", "Start one, or wait until it has")
        for address in addresses:
            await self.update_topic(address, TopicConfig(name, count, count))

    async def update_topic(self, address: str, topic: TopicConfig) -> None:
        """Create a topic at a broker, or change it. Raises: ClientError.

        topic: `wakelog.protocol.bodies.TopicConfig`, which is in `wakelog.client`, too.
        """
        topic = plain_struct("topic", topic, TopicConfig)
        fields = {
            "topic": topic.topic_name,
            "defaultTopic": AUTO_CREATE_TOPIC,
            "readQueueNums": topic.read_queue_nums,
            "writeQueueNums": topic.write_queue_nums,
            "perm": topic.perm,
            "topicFilterType": topic.topic_filter_type,
            "topicSysFlag": topic.topic_sys_flag,
            "order": topic.order,
        }
        await self.ask(address, Code.UPDATE_AND_CREATE_TOPIC, fields)

    async def topic_stats(self, topic: str) -> TopicStatsTable:
        """Return both ends of every queue of a topic. Raises: ClientError."""
        found = TopicStatsTable()
        for address in await self.brokers_of(topic):
            fields = {"topic": topic}
            part = await self.ask_for(TopicStatsTable, address, Code.GET_TOPIC_STATS_INFO, fields)
            found.offset_table.update(part.offset_table)
        return found

    async def groups_of(self, topic: str) -> list[str]:
        """Return the groups that consume a topic, as its first broker says. Raises: ClientError."""
        [address, *_] = await self.brokers_of(topic)
        fields = {"topic": topic}
        found = await self.ask_for(GroupList, address, Code.QUERY_TOPIC_CONSUME_BY_WHO, fields)
        return sorted(found.group_list)

    # Groups

    async def update_group(self, address: str, group: SubscriptionGroupConfig) -> None:
        """Create a consumer group, or change it. Raises: ClientError."""
        code = Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        body = encode_body(plain_struct("group", group, SubscriptionGroupConfig))
        await self.ask(address, code, body=body)

    async def groups(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        """Return the groups of a broker. Raises: ClientError."""
        code = Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        found = await self.ask_for(SubscriptionGroupWrapper, address, code)
        return found.subscription_group_table

    async def consume_stats(self, group: str, topic: str | None = None) -> ConsumeStats:
        """Return the progress of a group, in all its topics or in one.

        Raises: ClientError, with CONSUMER_NOT_ONLINE for a group that has consumed nothing.
        """
        found = ConsumeStats()
        for address in await self.brokers_of(_retry_topic(group)):
            part = await self.consume_stats_at(address, group, topic)
            found.offset_table.update(part.offset_table)
            found.consume_tps += part.consume_tps
        if not found.offset_table:
            raise ClientError(
                f"group {group} has consumed nothing",
                _REMEDIES[ResponseCode.CONSUMER_NOT_ONLINE],
                code=ResponseCode.CONSUMER_NOT_ONLINE,
            )
        return found

    async def consume_stats_at(
        self, address: str, group: str, topic: str | None = None
    ) -> ConsumeStats:
        """Return the progress of a group at one broker; it may be empty. Raises: ClientError."""
        fields = {
            "consumerGroup": plain_text("group", group),
            "topic": None if topic is None else plain_text("topic", topic),
        }
        slow_ms = self.options.timeout_ms * SLOW_FACTOR
        return await self.ask_for(
            ConsumeStats, address, Code.GET_CONSUME_STATS, fields, timeout_ms=slow_ms
        )

    async def consumers(self, group: str) -> ConsumerConnection:
        """Return the clients of a consumer group and what they subscribe to.

        Raises: ClientError, with CONSUMER_NOT_ONLINE without clients.
        """
        [address, *_] = await self.brokers_of(_retry_topic(group))
        fields = {"consumerGroup": group}
        code = Code.GET_CONSUMER_CONNECTION_LIST
        return await self.ask_for(ConsumerConnection, address, code, fields)

    async def producers(self, group: str, topic: str) -> ProducerConnection:
        """Return the clients of a producer group. Raises: ClientError."""
        fields = {"producerGroup": plain_text("group", group)}
        [address, *_] = await self.brokers_of(topic)
        code = Code.GET_PRODUCER_CONNECTION_LIST
        return await self.ask_for(ProducerConnection, address, code, fields)

    async def running_info(
        self, group: str, client_id: str, *, with_stacks: bool = False
    ) -> ConsumerRunningInfo:
        """Return what a client of a group says of itself. Raises: ClientError."""
        check_flags(with_stacks=with_stacks)
        client = plain_text("client_id", client_id)
        [address, *_] = await self.brokers_of(_retry_topic(group))
        fields = {"consumerGroup": group, "clientId": client, "jstackEnable": with_stacks}
        slow_ms = self.options.timeout_ms * SLOW_FACTOR
        return await self.ask_for(
            ConsumerRunningInfo,
            address,
            Code.GET_CONSUMER_RUNNING_INFO,
            fields,
            timeout_ms=slow_ms,
        )

    # Queues and messages

    async def queues(self, topic: str) -> list[QueueAt]:
        """Return the readable queues of a topic. Raises: ClientError, also for an unknown one."""
        topic = plain_text("topic", topic)
        found = await self.routes.readable(topic)
        if found is None:
            raise _unknown(topic)
        return found

    async def queue_at(self, queue: MessageQueue) -> QueueAt:
        """Return a queue with the address of its broker. Raises: ClientError without a broker."""
        queue = plain_queue(queue)
        addresses = addresses_by_broker(await self.route(queue.topic))
        if queue.broker_name not in addresses:
            cause = f"broker {queue.broker_name} has no topic {queue.topic}"
            raise ClientError(cause, f"Its brokers are {', '.join(sorted(addresses)) or 'none'}")
        address = addresses[queue.broker_name]
        return QueueAt(queue.broker_name, queue.topic, queue.queue_id, address)

    async def consume_directly(
        self, record: MessageRecord, group: str, client_id: str
    ) -> ConsumeMessageDirectlyResult:
        """Let a client consume a message now, and return what came of it. Raises: ClientError."""
        check_kind("record", record, MessageRecord)
        host, port = record.store_host
        fields = {
            "consumerGroup": plain_text("group", group),
            "clientId": plain_text("client_id", client_id),
            "msgId": create_message_id(host, port, record.physical_offset),
        }
        slow_ms = self.options.timeout_ms * SLOW_FACTOR
        code = Code.CONSUME_MESSAGE_DIRECTLY
        return await self.ask_for(
            ConsumeMessageDirectlyResult, f"{host}:{port}", code, fields, timeout_ms=slow_ms
        )

    async def view_message(self, message_id: str) -> MessageRecord:
        """Return the message that an id of a broker names. Raises: ClientError."""
        try:
            (host, port), physical_offset = decode_message_id(plain_text("message_id", message_id))
        except ProtocolError as error:
            raise ClientError(str(error), "Give the id that a broker gave (OffsetID)") from None
        address = f"{host}:{port}"
        response = await self.ask(address, Code.VIEW_MESSAGE_BY_ID, {"offset": physical_offset})
        return decode_record(response.body)

    async def query_messages(
        self, topic: str, key: str, messages_max: int, *, is_unique: bool = False
    ) -> list[MessageRecord]:
        """Return the messages with a key, of all brokers of the topic.

        An index finds by a hash of topic and key. Messages of other topics are left out here, those
        of other keys are not.
        is_unique: the key is the id that a producer gave. Raises: ClientError.
        """
        check_flags(is_unique=is_unique)
        topic = plain_text("topic", topic)
        fields = {
            "topic": topic,
            "key": plain_text("key", key),
            "maxNum": whole_number("messages_max", messages_max, 1, INT_MAX),
            "beginTimestamp": 0,
            "endTimestamp": (1 << 63) - 1,
            "_UNIQUE_KEY_QUERY": is_unique,
        }
        found: list[MessageRecord] = []
        for address in await self.brokers_of(topic):
            response = await self.ask(
                address, Code.QUERY_MESSAGE, fields, allowed=(ResponseCode.QUERY_NOT_FOUND,)
            )
            found += [record for record in records(response.body) if record.topic == topic]
        return found


def connections_of(admin: Admin) -> Connections:
    """Return what an admin sends its requests over, for another one that shares it."""
    return admin._connections


def cluster_members(info: ClusterInfo, cluster_name: str) -> list[tuple[str, int, str]]:
    """Return broker name, broker id and address of a cluster's brokers. Raises: ClientError."""
    names = info.cluster_addr_table.get(cluster_name)
    if names is None:
        known = ", ".join(sorted(info.cluster_addr_table))
        raise ClientError(
            f"there is no cluster {cluster_name}",
            f"The name server knows: {known}" if known else "No broker has registered there yet",
        )
    return [
        (name, broker_id, address)
        for name in sorted(names)
        if name in info.broker_addr_table
        for broker_id, address in sorted(info.broker_addr_table[name].broker_addrs.items())
    ]


def addresses_by_broker(route: TopicRouteData) -> dict[str, str]:
    """Return the address of each broker: of its master, else of its first slave."""
    return {
        data.broker_name: data.broker_addrs[min(data.broker_addrs)]
        for data in route.broker_datas
        if data.broker_addrs
    }


def records(body: bytes | memoryview) -> Iterator[MessageRecord]:
    """Yield the records of a response, which stand one after another."""
    position = 0
    while position < len(body):
        record = decode_record(body, position)
        yield record
        position += record.size_bytes


def _check_allowed(allowed: object) -> None:
    """Check codes that are no failure. Raises: InvalidArgument."""
    if not isinstance(allowed, tuple) or not {*map(type, allowed)} <= {ResponseCode}:
        raise not_accepted("allowed", allowed, "some of ResponseCode, as a tuple")


def _retry_topic(group: object) -> str:
    """Return the retry topic of a group. Raises: InvalidArgument."""
    return RETRY_PREFIX + plain_text("group", group)


def _field_texts(fields: Fields | None) -> dict[str, str]:
    """Return fields as the wire has them, without those that are None. Raises: InvalidArgument."""
    if not isinstance(fields, Mapping | None):
        raise not_accepted("fields", fields, "a mapping from the names on the wire")
    given = {plain_text("fields", name): value for name, value in (fields or {}).items()}
    return {name: _field_text(name, value) for name, value in given.items() if value is not None}


def _field_text(name: str, value: object) -> str:
    """Return a field as the wire has it, of any class. Raises: InvalidArgument."""
    if isinstance(value, bool):
        return boolean_text(value)
    if isinstance(value, SupportsIndex):
        return str(whole_number(name, value, LONG_MIN))
    return plain_text(name, value, "a text, a whole number, True or False")


def _unknown(topic: str) -> ClientError:
    """Return the error about a topic without a route; a retry topic stands for its group."""
    code = ResponseCode.TOPIC_NOT_EXIST
    if topic.startswith(RETRY_PREFIX):
        group = topic.removeprefix(RETRY_PREFIX)
        cause = f"no broker has had a consumer of group {group}: its retry topic has no route"
        return ClientError(cause, "Check the name of the group (wakelog groups)", code=code)
    return ClientError(f"no name server knows topic {topic}", _REMEDIES[code], code=code)


def _read(
    body_type: type[BodyType], response: RemotingCommand, address: str, code: Code
) -> BodyType:
    if not response.body:
        return body_type()
    try:
        return decode_response(body_type, response.body)
    except ProtocolError as error:
        cause = f"the answer of {address} to {code.name} cannot be read: {error}"
        raise ClientError(cause, CHECK_LOG) from error
