"""NameServers: keeps one broker in the routes of its name servers.

Requests to register that come while a registration is under way become one more, with the topic
table as it is then. A name server that does not answer delays neither the others nor the next
period.

Source: org.apache.rocketmq.broker.out.BrokerOuterAPI.registerBrokerAll, unregisterBrokerAll
(4.9.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from wakelog.actors.transport.batching import BatchWorker
from wakelog.actors.transport.clocks import wall_ms
from wakelog.broker import registration
from wakelog.broker.broker import Broker
from wakelog.broker.config import BrokerConfig
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

    def __init__(self, config: BrokerConfig) -> None:
        """Connect to none yet; namesrvAddr is `host:port;host:port`."""
        self._addresses = read_name_servers(config.namesrv_addr)
        self._timeout_ms = config.register_broker_timeout_mills
        self._client = RemotingClient()
        self._broker: Broker | None = None
        self._worker = BatchWorker("registration", self._run)
        self._is_oneway = True
        self._after: list[Callable[[], None]] = []
        self._registered_count = 0
        self._failed_count = 0
        self._log = logger(Log.BROKER)

    async def register(self, broker: Broker, *, seconds_max: float) -> int:
        """Register everywhere; return how many answered well within `seconds_max`."""
        self._broker = broker
        before = self._registered_count
        try:
            async with asyncio.timeout(seconds_max):
                await self._register(broker, oneway=False)
        except TimeoutError:
            self._log.warning("no answer to the registration", seconds=seconds_max)
        return self._registered_count - before

    def register_soon(self, broker: Broker, *, oneway: bool) -> None:
        """Register with every name server; the caller does not wait."""
        self._broker = broker
        self._is_oneway = self._is_oneway and oneway
        self._worker.request()

    def after_registration(self, done: Callable[[], None], *, oneway: bool) -> None:
        """Call `done` when a registration that begins from now on was answered, or failed.

        oneway: call when it was sent, and after `ONEWAY_SECONDS_MAX` at the latest: registrations
            wait for a name server that hangs, and a send must not wait for them.
        """
        if oneway:
            done = _once(done)
            asyncio.get_running_loop().call_later(ONEWAY_SECONDS_MAX, done)
        self._after.append(done)
        self._is_oneway = self._is_oneway and oneway
        self._worker.request()

    async def unregister(self, broker: Broker) -> None:
        """Leave every route; a name server that does not answer notices the closed connection."""
        await self._worker.stop()
        await asyncio.gather(*(self._unregister_at(to, broker) for to in self._addresses))

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
        assert self._broker is not None
        oneway, self._is_oneway = self._is_oneway, True
        after, self._after = self._after, []
        try:
            await self._register(self._broker, oneway=oneway)
        finally:
            for done in after:
                done()
        return False

    async def _register(self, broker: Broker, *, oneway: bool) -> None:
        # In a thread: the table may have tens of thousands of topics to encode.
        encode = registration.registration(broker.state)
        request = await asyncio.get_running_loop().run_in_executor(None, encode)
        if oneway:
            request.flag |= ONEWAY_FLAG
        register = self._register_oneway if oneway else partial(self._register_at, broker)
        await asyncio.gather(*(register(to, request) for to in self._addresses))

    async def _register_at(self, broker: Broker, address: str, request: RemotingCommand) -> None:
        try:
            response = await self._client.invoke(address, request, timeout_ms=self._timeout_ms)
        except RemotingError as error:
            self._failed(address, str(error))
            return
        if response.code == ResponseCode.SUCCESS:
            self._registered_count += 1
            registration.registered(broker.state, response, wall_ms())
        else:
            self._failed(address, response.remark or f"code {response.code}")

    async def _register_oneway(self, address: str, request: RemotingCommand) -> None:
        try:
            await self._client.invoke_oneway(address, request)
        except RemotingError as error:
            self._failed(address, str(error))

    async def _unregister_at(self, address: str, broker: Broker) -> None:
        try:
            request = registration.unregistration(broker.state)
            await self._client.invoke(address, request, timeout_ms=UNREGISTER_MS_MAX)
        except RemotingError as error:
            self._log.warning("not unregistered", name_server=address, error=str(error))

    def _failed(self, address: str, reason: str) -> None:
        self._failed_count += 1
        self._log.warning("not registered", name_server=address, error=reason)


def _once(done: Callable[[], None]) -> Callable[[], None]:
    """Return what calls `done` the first time and does nothing afterwards."""
    left = [done]

    def first() -> None:
        if left:
            left.pop()()

    return first
