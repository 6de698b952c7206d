"""NameServers: keeps one broker in the routes of its name servers.

What has to be registered while a registration is under way goes out together after it. A name
server that does not answer delays neither the others nor the next period.

Source: org.apache.rocketmq.broker.out.BrokerOuterAPI.registerBrokerAll, unregisterBrokerAll,
org.apache.rocketmq.broker.BrokerController.registerIncrementBrokerData (4.9.3).
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from wakelog.actors.broker.member import GroupRun
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.transport.batching import BatchWorker
from wakelog.actors.transport.clocks import wall_ms
from wakelog.broker import registration
from wakelog.broker.config import MASTER_ID, BrokerConfig
from wakelog.broker.registration import Due, NameServerProgress
from wakelog.broker.state import BrokerState
from wakelog.network.client import RemotingClient
from wakelog.network.errors import RemotingError
from wakelog.protocol.addresses import read_name_servers
from wakelog.protocol.bodies import ClusterInfo, DataVersion
from wakelog.protocol.body_codec import decode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.errors import ProtocolError
from wakelog.telemetry.logs import Log, logger

UNREGISTER_MS_MAX: Final = 1_000
"""A broker that stops does not wait longer: name servers also notice the closed connection."""

TOPICS_ENCODED_AT_ONCE_MAX: Final = 128
"""Some 1 ms of the loop; more are encoded in a thread."""

TAKEN_NAME_MS_MAX = 2_000
"""How long a start waits for each name server to say who has its name."""


async def refuse_taken_name(config: BrokerConfig, client: RemotingClient) -> None:
    """Look whether a broker at another address has this broker's name and id.

    Two such brokers would take turns in the route. A name server that does not answer says nothing.

    Raises: DeploymentFailed.
    """
    for name_server in read_name_servers(config.namesrv_addr):
        address = await _registered_address(name_server, config, client, config.broker_id)
        if address not in (None, config.broker_addr):
            raise DeploymentFailed(
                f"{name_server} has a broker {config.broker_name} at {address} already",
                "Give another --set brokerName=NAME; or stop that broker, and wait 2 minutes if its"
                " host is gone; or take its place with --set wakelog.takeOverName=true.",
            )


async def master_addresses(config: BrokerConfig, client: RemotingClient) -> list[str]:
    """Return the addresses at which name servers have the master of this broker's name."""
    found = [
        await _registered_address(name_server, config, client, MASTER_ID)
        for name_server in read_name_servers(config.namesrv_addr)
    ]
    return [address for address in dict.fromkeys(found) if address is not None]


async def _registered_address(
    name_server: str, config: BrokerConfig, client: RemotingClient, broker_id: int
) -> str | None:
    known = (await _cluster_info(name_server, client)).broker_addr_table.get(config.broker_name)
    return None if known is None else known.broker_addrs.get(broker_id)


async def _cluster_info(name_server: str, client: RemotingClient) -> ClusterInfo:
    """Return what a name server knows; nothing of one that does not answer in time."""
    request = make_request(RequestCode.GET_BROKER_CLUSTER_INFO, {}, opaque=0)
    try:
        response = await client.invoke(name_server, request, timeout_ms=TAKEN_NAME_MS_MAX)
        return decode_body(ClusterInfo, response.body)
    except (RemotingError, ProtocolError):
        return ClusterInfo({}, {})


class NameServers:
    """The name servers of one broker."""

    def __init__(
        self, state: BrokerState, client: RemotingClient, member: GroupRun | None = None
    ) -> None:
        """Make no connection yet; the client is closed with this.

        member: says whether this broker may register now; None if it always may.
        """
        addresses = read_name_servers(state.config.namesrv_addr)
        self._state = state
        self._client = client
        self._servers = [_NameServer(address, state, client, member) for address in addresses]
        self._log = logger(Log.BROKER)

    async def register(self, *, seconds_max: float) -> None:
        """Register everywhere; return when all have answered, or after `seconds_max`."""
        registered = asyncio.Event()
        self.register_soon()
        self.after_registration(registered.set)
        try:
            async with asyncio.timeout(seconds_max):
                await registered.wait()
        except TimeoutError:
            self._log.warning("no answer to the registration", seconds=seconds_max)

    def register_soon(self, topics: Collection[str] = ()) -> None:
        """Register these topics with every name server, or the whole table if there are none."""
        for server in self._servers:
            server.register_soon(topics)

    def after_registration(
        self, done: Callable[[], None], *, seconds_max: float | None = None
    ) -> None:
        """Call `done` once, when every name server has answered what is due, or failed.

        seconds_max: when `done` is called at the latest: registrations wait for a name server that
            hangs, and a send must not wait for them. One that did not take the last registration is
            not waited for, else each new topic would wait so long. None for no limit.
        """
        servers = [each for each in self._servers if seconds_max is None or each.answers]
        waiter = _Waiter(done, len(servers))
        if servers and seconds_max is not None:
            waiter.timer = asyncio.get_running_loop().call_later(seconds_max, waiter.finish)
        for server in servers:
            server.after_registration(waiter.count_down)

    async def has_others(self) -> bool:
        """Return whether a name server knows a master of another name in this cluster."""
        config = self._state.config
        asked = (_cluster_info(each.address, self._client) for each in self._servers)
        for info in await asyncio.gather(*asked):
            names = info.cluster_addr_table.get(config.broker_cluster_name, set())
            for name in names - {config.broker_name}:
                data = info.broker_addr_table.get(name)
                if data is not None and MASTER_ID in data.broker_addrs:
                    return True
        return False

    async def unregister(self) -> None:
        """Leave every route; a name server that does not answer notices the closed connection."""
        await asyncio.gather(*(server.unregister() for server in self._servers))

    def statistics(self) -> dict[str, int]:
        """Return counters."""
        return {
            "name_servers_count": len(self._servers),
            "registered_count": sum(server.registered_count for server in self._servers),
            "failed_count": sum(server.failed_count for server in self._servers),
        }

    async def close(self) -> None:
        """Close the connections."""
        await asyncio.gather(*(server.worker.stop() for server in self._servers))
        await self._client.close()


class _NameServer:
    """One name server, with what it has yet to be sent."""

    def __init__(
        self, address: str, state: BrokerState, client: RemotingClient, member: GroupRun | None
    ) -> None:
        self.address = address
        self._member = member
        self._state = state
        self._client = client
        self._progress = NameServerProgress()
        self._sent_version: DataVersion | None = None
        self._after: list[Callable[[], None]] = []
        self.worker = BatchWorker("registration", self._run)
        self.answers = True
        self.registered_count = 0
        self.failed_count = 0
        self._log = logger(Log.BROKER)

    def register_soon(self, topics: Collection[str]) -> None:
        self._progress.want(topics)
        self.worker.request()

    def after_registration(self, done: Callable[[], None]) -> None:
        self._after.append(done)
        self.worker.request()

    async def unregister(self) -> None:
        await self.worker.stop()
        request = registration.unregistration(self._state)
        try:
            await self._client.invoke(self.address, request, timeout_ms=UNREGISTER_MS_MAX)
        except RemotingError as error:
            self._log.warning("not unregistered", name_server=self.address, error=str(error))

    async def _run(self) -> bool:
        after, self._after = self._after, []
        try:
            if self._member is not None and not self._member.may_register:
                return False  # what is due stays so
            due = self._progress.take(self._client.connection_id(self.address))
            if due is not None:
                await self._register(due)
        finally:
            for done in after:
                done()
        return False

    async def _register(self, due: Due) -> None:
        reason = await self._send(due)
        self.answers = not reason
        if reason:
            self.failed_count += 1
            self._log.warning("not registered", name_server=self.address, error=reason)

    async def _send(self, due: Due) -> str:
        """Send what is due; return why it was not taken, "" if it was."""
        topics = self._state.topics
        # A topic is due once it is saved: what went out before may have had its version.
        if due.topics is not None and topics.data_version == self._sent_version:
            topics.renew_version(wall_ms())
        self._sent_version = topics.data_version
        requests = await self._encode(due)
        connection_id: int | None = None
        try:
            if len(requests) > 1 and due.topics is None and due.is_repeated:
                question = registration.version_question(self._state)
                if registration.is_version_known(await self._invoke(question)):
                    requests = []
                connection_id = self._client.connection_id(self.address)
            for request in requests:
                response = await self._invoke(request)
                if response.code != ResponseCode.SUCCESS:
                    return response.remark or f"code {response.code}"
                over_id = self._client.connection_id(self.address)
                if over_id is None or over_id != (connection_id or over_id):
                    return "the connection was lost"
                connection_id = over_id
                registration.registered(self._state, response, wall_ms(), topics=due.topics)
        except RemotingError as error:
            return str(error)
        self.registered_count += 1
        self._progress.on_acknowledged(connection_id)
        return ""

    async def _encode(self, due: Due) -> list[RemotingCommand]:
        encode = registration.registration(self._state, due.topics)
        if due.topics is not None and len(due.topics) <= TOPICS_ENCODED_AT_ONCE_MAX:
            return encode()
        # In a thread: the table may have tens of thousands of topics to encode.
        return await asyncio.get_running_loop().run_in_executor(None, encode)

    async def _invoke(self, request: RemotingCommand) -> RemotingCommand:
        timeout_ms = self._state.config.register_broker_timeout_mills
        return await self._client.invoke(self.address, request, timeout_ms=timeout_ms)


class _Waiter:
    """Calls `done` once: after so many calls of `count_down`, or when `finish` is called."""

    def __init__(self, done: Callable[[], None], count: int) -> None:
        self._done: Callable[[], None] | None = done
        self._count = count
        self.timer: asyncio.TimerHandle | None = None
        if not count:
            asyncio.get_running_loop().call_soon(self.finish)

    def count_down(self) -> None:
        self._count -= 1
        if not self._count:
            self.finish()

    def finish(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        done, self._done = self._done, None
        if done is not None:
            done()
