"""Routes: which brokers have a topic, as the name servers say.

The name servers are asked in turn until one answers; one that does not is asked last from then on.
A client asks for the routes of its topics again every 30 s (`instance`), and after a send that
failed. A route that cannot be refreshed stays in use: a broker that restarts is missing from the
name server for some seconds, and mostly comes back at its old address.

Invariants: an error of `NameServers` names the reason of each. It has a code if all have refused.

Source: org.apache.rocketmq.client.impl.factory.MQClientInstance#updateTopicRouteInfoFromNameServer,
#topicRouteData2TopicPublishInfo, org.apache.rocketmq.client.impl.MQClientAPIImpl (4.9.3).
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from wakelog.client.errors import ClientError, describe, reason_of, refused, remedy_of
from wakelog.client.options import ClientOptions
from wakelog.network.background import awaited
from wakelog.network.errors import RemotingError
from wakelog.protocol.bodies import QueueData, TopicList, TopicRouteData
from wakelog.protocol.body_codec import decode_response
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.ext_fields import to_ext_fields
from wakelog.protocol.headers.admin import TopicRequestHeader
from wakelog.protocol.names import AUTO_CREATE_TOPIC

NEW_TOPIC_QUEUES: Final = 4
"""defaultTopicQueueNums of 4.9.3's producer."""

MASTER_ID: Final = 0
NO_TOPIC: Final = (
    "Create the topic (mqadmin updateTopic), or wait until its broker has registered with the name "
    "server"
)
NO_WRITES: Final = (
    "Give back its brokers' write permission (wakelog admin addWritePerm, or updateTopicPerm -p 6)"
)
CHECK_ADDRESS: Final = "Check that it runs, and the address that was given"
NO_NAME_SERVER: Final = "Give the address of a name server, mostly port 9876: that is a broker's"
REFUSAL_REMEDIES: Final = {
    int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED): NO_NAME_SERVER,
    int(ResponseCode.NO_PERMISSION): "Ask as an account, or from a host, that may",
}
"""By the code of a name server that refuses."""
_READABLE: Final = 4
_WRITABLE: Final = 2


class Connections(Protocol):
    """What the client needs of `RemotingClient`; tests have a cluster without sockets."""

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        """Send a request and return its response. Raises: RemotingError."""
        ...

    async def invoke_oneway(self, address: str, command: RemotingCommand) -> None:
        """Send a request that gets no response. Raises: RemotingError."""
        ...


class QueueAt(NamedTuple):
    """A queue, and the address of its broker."""

    broker: str
    topic: str
    queue_id: int
    address: str

    @property
    def key(self) -> tuple[str, str, int]:
        """The queue without the address."""
        return self.broker, self.topic, self.queue_id


class NameServers:
    """The name servers of one cluster. One loop, one thread."""

    def __init__(self, connections: Connections, options: ClientOptions) -> None:
        """Send no request yet."""
        self._connections = connections
        self._timeout_ms = options.timeout_ms
        self._addresses = list(options.name_servers)

    async def ask(
        self, command: RemotingCommand, wanted: str, allowed: Iterable[ResponseCode] = ()
    ) -> RemotingCommand:
        """Return the first response with SUCCESS or an allowed code.

        wanted: how an error calls it. Raises: ClientError.
        """
        reasons, refusals = list[str](), list[ClientError]()
        remedy = CHECK_ADDRESS
        for address in tuple(self._addresses):
            try:
                response = await self._connections.invoke(
                    address, command, timeout_ms=self._timeout_ms
                )
            except RemotingError as error:
                reasons.append(f"{address}: {reason_of(error)}")
                remedy = remedy_of(error) or remedy
                self._addresses.remove(address)
                self._addresses.append(address)
                continue
            if response.code in (ResponseCode.SUCCESS, *allowed):
                return response
            reasons.append(f"{address} answered {describe(response)}")
            refusals.append(refused(address, reasons[-1], response, REFUSAL_REMEDIES))
            if response.code in REFUSAL_REMEDIES:
                remedy = refusals[-1].remedy
        if not reasons:
            raise ClientError("no name server is given", "Give -n HOST:PORT")
        cause = f"no name server gave {wanted}: {'; '.join(reasons)}"
        if len(refusals) < len(reasons):
            raise ClientError(cause, remedy)
        last = refusals[-1]
        raise ClientError(
            cause, remedy, broker=last.broker, code=last.code, remark=last.remark,
            passes=last.passes, refuses_account=last.refuses_account,
        )  # fmt: skip


class Routes:
    """The routes of one cluster. One loop, one thread."""

    def __init__(self, connections: Connections, options: ClientOptions) -> None:
        """Send no request yet."""
        self.name_servers = NameServers(connections, options)
        self._writable: dict[str, list[QueueAt]] = {}
        self._known: dict[str, TopicRouteData] = {}
        self._finding: dict[str, asyncio.Future[list[QueueAt]]] = {}

    @property
    def brokers(self) -> dict[str, dict[int, str]]:
        """The addresses, by broker id, of the brokers of every topic, by its newest route."""
        return {
            broker.broker_name: broker.broker_addrs
            for route in self._known.values()
            for broker in route.broker_datas
        }

    def lacks_master(self, topic: str, broker: str) -> bool:
        """Return whether a broker of a topic has replicas in the route, and no master now."""
        addresses = self._addresses(topic, broker)
        return bool(addresses) and MASTER_ID not in addresses

    def has_replicas(self, queue: QueueAt) -> bool:
        """Return whether the route of a queue's topic has several replicas of its broker."""
        return len(self._addresses(queue.topic, queue.broker)) > 1

    def _addresses(self, topic: str, broker: str) -> dict[int, str]:
        route = self._known.get(topic) or self._known.get(AUTO_CREATE_TOPIC)
        found = route.broker_datas if route is not None else ()
        return next((one.broker_addrs for one in found if one.broker_name == broker), {})

    async def refresh(self) -> None:
        """Ask again for every topic in use; what cannot be found stays as it was."""
        for topic in list(self._known):
            with suppress(ClientError):
                if topic in self._writable:
                    await self.writable(topic, refresh=True)
                else:
                    await self.find(topic)

    async def topics(self) -> frozenset[str]:
        """Return the names of all topics. Raises: ClientError."""
        command = RemotingCommand(int(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
        response = await self.name_servers.ask(command, "the list of topics")
        return frozenset(
            decode_response(TopicList, response.body).topic_list if response.body else ()
        )

    async def check(self) -> None:
        """Check that a name server answers. Raises: ClientError."""
        await self.find(AUTO_CREATE_TOPIC, wanted="routes")

    async def find(self, topic: str, *, wanted: str = "") -> TopicRouteData | None:
        """Return the route of a topic, None for an unknown topic.

        wanted: how an error calls it. Raises: ClientError.
        """
        fields = to_ext_fields(TopicRequestHeader(topic=topic))
        command = RemotingCommand(int(RequestCode.GET_ROUTEINFO_BY_TOPIC), ext_fields=fields)
        wanted = wanted or f"the route of topic {topic}"
        unknown = ResponseCode.TOPIC_NOT_EXIST
        response = await self.name_servers.ask(command, wanted, (unknown,))
        if response.code == unknown:
            return None
        try:
            found = decode_response(TopicRouteData, response.body)
        except ProtocolError as error:
            raise ClientError(
                f"the route of topic {topic} cannot be read: {error}",
                "Check that this is the address of a name server",
            ) from error
        self._known.pop(topic, None)  # of several routes with a broker the newest is the last
        self._known[topic] = found
        return found

    async def readable(self, topic: str) -> list[QueueAt] | None:
        """Return the queues that may be read, None for an unknown topic. Raises: ClientError."""
        route = await self.find(topic)
        return None if route is None else readable_queues(route, topic)

    def known_writable(self, topic: str) -> Sequence[QueueAt]:
        """Return what `writable` found last, nothing if it was not asked."""
        return self._writable.get(topic, ())

    async def writable(self, topic: str, *, refresh: bool = False) -> list[QueueAt]:
        """Return the queues that may be written to, at least one.

        refresh: ask again, and keep what was known if that fails. Raises: ClientError.
        """
        if refresh or topic not in self._writable:
            try:
                self._writable[topic] = await self._find_writable_once(topic)
            except ClientError:
                if topic not in self._writable:
                    raise
        return self._writable[topic]

    async def _find_writable_once(self, topic: str) -> list[QueueAt]:
        """Find the queues; calls that come meanwhile wait for the same answer."""
        task = self._finding.get(topic)
        if task is None:
            task = awaited(self._find_writable(topic))
            self._finding[topic] = task
            task.add_done_callback(lambda done: self._found(topic, done))
        return await asyncio.shield(task)

    def _found(self, topic: str, task: asyncio.Future[list[QueueAt]]) -> None:
        self._finding.pop(topic, None)
        if not task.cancelled():
            task.exception()  # its callers may all have given up

    async def _find_writable(self, topic: str) -> list[QueueAt]:
        route = await self.find(topic)
        template = await self.find(AUTO_CREATE_TOPIC) if route is None else None
        found = [] if route is None else writable_queues(route, topic)
        if template is not None:
            found = writable_queues(template, topic, queues_max=NEW_TOPIC_QUEUES)
        if not found:
            for broker in sorted({data.broker_name for data in route.queue_datas} if route else ()):
                if self.lacks_master(topic, broker):
                    raise no_master(topic, broker)
            raise ClientError(
                f"no broker accepts messages for topic {topic}",
                NO_TOPIC if route is template is None else NO_WRITES,
            )
        return found


def no_master(topic: str, broker: str) -> ClientError:
    """Return the error for a broker of which replicas are in the route, and no master."""
    return ClientError(
        f"broker {broker} of topic {topic} has no master now",
        "Wait until a replica leads, and see `wakelog cluster status`",
        broker=broker,
        passes=True,
    )


def readable_queues(route: TopicRouteData, topic: str) -> list[QueueAt]:
    """Return the queues with read permission; of a slave if its broker has no master now."""
    return [
        QueueAt(data.broker_name, topic, queue_id, addresses[min(addresses)])
        for data, addresses in _by_broker(route)
        if data.perm & _READABLE and addresses
        for queue_id in range(data.read_queue_nums)
    ]


def writable_queues(
    route: TopicRouteData, topic: str, *, queues_max: int | None = None
) -> list[QueueAt]:
    """Return the queues of masters with write permission, by broker name and queue id.

    queues_max: of each broker.
    """
    return [
        QueueAt(data.broker_name, topic, queue_id, addresses[MASTER_ID])
        for data, addresses in _by_broker(route)
        if data.perm & _WRITABLE and MASTER_ID in addresses
        for queue_id in range(data.write_queue_nums)[:queues_max]
    ]


def _by_broker(route: TopicRouteData) -> list[tuple[QueueData, dict[int, str]]]:
    """Return what each broker has of the topic, by name, with the broker's addresses by id."""
    addresses = {broker.broker_name: broker.broker_addrs for broker in route.broker_datas}
    found = sorted(route.queue_datas, key=lambda data: data.broker_name)
    return [(data, addresses.get(data.broker_name, {})) for data in found]
