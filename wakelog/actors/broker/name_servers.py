"""NameServers: keeps one broker in the routes of its name servers.

Requests to register that come while a registration is under way become one more, with the topic
table as it is then. A name server that does not answer delays neither the others nor the next
period.

Source: org.apache.rocketmq.broker.out.BrokerOuterAPI.registerBrokerAll, unregisterBrokerAll
(4.9.3).
"""

import asyncio
import ssl
from collections.abc import Callable

from wakelog.actors.transport.batching import BatchWorker
from wakelog.actors.transport.clocks import wall_ms
from wakelog.broker import registration
from wakelog.broker.broker import Broker
from wakelog.client.options import read_name_servers
from wakelog.network.client import RemotingClient
from wakelog.network.errors import RemotingError
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import ONEWAY_FLAG, RemotingCommand
from wakelog.telemetry.logs import Log, logger

UNREGISTER_MS_MAX = 1_000
"""A broker that stops does not wait longer: name servers also notice the closed connection."""

ONEWAY_SECONDS_MAX = 1.0
"""How long an answer waits for a one-way registration; a producer gives up after 3 s."""


class NameServers:
    """The name servers of one broker."""

    def __init__(self, broker: Broker, tls: ssl.SSLContext | None = None) -> None:
        """Make no connection yet. tls: None for connections without TLS."""
        config = broker.state.settings.broker
        self._broker = broker
        self._addresses = read_name_servers(config.namesrv_addr)
        self._timeout_ms = config.register_broker_timeout_mills
        self._client = RemotingClient(tls)
        self._worker = BatchWorker("registration", self._run)
        self._is_oneway = True
        self._after: list[asyncio.Future[None]] = []
        self._registered_count = 0
        self._failed_count = 0
        self._log = logger(Log.BROKER)

    async def register(self, *, seconds_max: float) -> None:
        """Register everywhere; return when all have answered, or after `seconds_max`."""
        try:
            async with asyncio.timeout(seconds_max):
                await self._register(oneway=False)
        except TimeoutError:
            self._log.warning("no answer to the registration", seconds=seconds_max)

    def register_soon(self, *, oneway: bool) -> None:
        """Register with every name server; the caller does not wait."""
        self._is_oneway = self._is_oneway and oneway
        self._worker.request()

    def after_registration(self, done: Callable[[], None], *, oneway: bool) -> None:
        """Call `done` once, when a registration that begins from now on was answered, or failed.

        oneway: call when it was sent, and after `ONEWAY_SECONDS_MAX` at the latest: registrations
            wait for a name server that hangs, and a send must not wait for them.
        """
        loop = asyncio.get_running_loop()
        registered: asyncio.Future[None] = loop.create_future()
        registered.add_done_callback(lambda _: done())
        if oneway:
            loop.call_later(ONEWAY_SECONDS_MAX, _set_done, registered)
        self._after.append(registered)
        self.register_soon(oneway=oneway)

    async def unregister(self) -> None:
        """Leave every route; a name server that does not answer notices the closed connection."""
        await self._worker.stop()
        await asyncio.gather(*map(self._unregister_at, self._addresses))

    def statistics(self) -> dict[str, int]:
        """Return counters."""
        return {
            "name_servers_count": len(self._addresses),
            "registered_count": self._registered_count,
            "failed_count": self._failed_count,
        }

    async def close(self) -> None:
        """Close the connections."""
        await self._worker.stop()
        await self._client.close()

    async def _run(self) -> bool:
        oneway, self._is_oneway = self._is_oneway, True
        after, self._after = self._after, []
        try:
            await self._register(oneway=oneway)
        finally:
            for registered in after:
                _set_done(registered)
        return False

    async def _register(self, *, oneway: bool) -> None:
        # In a thread: the table may have tens of thousands of topics to encode.
        encode = registration.registration(self._broker.state)
        request = await asyncio.get_running_loop().run_in_executor(None, encode)
        if oneway:
            request.flag |= ONEWAY_FLAG
        await asyncio.gather(*(self._register_at(to, request) for to in self._addresses))

    async def _register_at(self, address: str, request: RemotingCommand) -> None:
        try:
            if request.is_oneway:
                await self._client.invoke_oneway(address, request)
                return
            response = await self._client.invoke(address, request, timeout_ms=self._timeout_ms)
        except RemotingError as error:
            self._note_failed(address, str(error))
            return
        if response.code == ResponseCode.SUCCESS:
            self._registered_count += 1
            registration.registered(self._broker.state, response, wall_ms())
        else:
            self._note_failed(address, response.remark or f"code {response.code}")

    async def _unregister_at(self, address: str) -> None:
        try:
            request = registration.unregistration(self._broker.state)
            await self._client.invoke(address, request, timeout_ms=UNREGISTER_MS_MAX)
        except RemotingError as error:
            self._log.warning("not unregistered", name_server=address, error=str(error))

    def _note_failed(self, address: str, reason: str) -> None:
        self._failed_count += 1
        self._log.warning("not registered", name_server=address, error=reason)


def _set_done(registered: asyncio.Future[None]) -> None:
    if not registered.done():
        registered.set_result(None)
