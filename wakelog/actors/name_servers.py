"""NameServers: keeps one broker in the route of every name server it was told of.

Registrations of one moment are one registration: while one is under way the next is only
remembered, and sends the topic table as it is then. A name server that does not answer holds nobody
up: the others and the next period go on.

Source: org.apache.rocketmq.broker.out.BrokerOuterAPI.registerBrokerAll, unregisterBrokerAll (4.9.3).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from wakelog.broker.broker import Broker
from wakelog.broker.config import BrokerConfig
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import ONEWAY_FLAG, RemotingCommand
from wakelog.remoting.client import RemotingClient
from wakelog.remoting.errors import RemotingError
from wakelog.telemetry.logs import Log, logger


class NameServers:
    """The name servers of one broker."""

    def __init__(self, config: BrokerConfig) -> None:
        """Connect to nobody yet; namesrvAddr is `host:port;host:port`."""
        self._addresses = [part.strip() for part in config.namesrv_addr.split(";") if part.strip()]
        self._timeout_ms = config.register_broker_timeout_mills
        self._client = RemotingClient()
        self._under_way: asyncio.Task[None] | None = None
        self._again: bool | None = None
        self._registered_count = 0
        self._failed_count = 0
        self._log = logger(Log.BROKER)

    async def register(self, broker: Broker, *, seconds_max: float) -> None:
        """Register everywhere and return when all answered, or after `seconds_max`."""
        encode = broker.registration()
        try:
            async with asyncio.timeout(seconds_max):
                await asyncio.gather(*(self._register_at(to, broker, encode) for to in self._addresses))
        except TimeoutError:
            self._log.warning("no answer to the registration", seconds=seconds_max)

    def register_soon(self, broker: Broker, *, oneway: bool) -> None:
        """Register everywhere without being waited for."""
        if self._under_way is not None:
            self._again = oneway and self._again is not False
            return
        self._under_way = asyncio.get_running_loop().create_task(self._register(broker, oneway))

    async def _register(self, broker: Broker, oneway: bool) -> None:
        try:
            encode = await asyncio.get_running_loop().run_in_executor(None, broker.registration())
            if oneway:
                encode.flag |= ONEWAY_FLAG
                await asyncio.gather(*(self._tell(to, encode) for to in self._addresses))
            else:
                await asyncio.gather(
                    *(self._register_at(to, broker, lambda: encode) for to in self._addresses)
                )
        finally:
            self._under_way = None
            again, self._again = self._again, None
            if again is not None:
                self.register_soon(broker, oneway=again)

    async def _register_at(
        self, address: str, broker: Broker, encode: Callable[[], RemotingCommand]
    ) -> None:
        try:
            response = await self._client.invoke(address, encode(), timeout_ms=self._timeout_ms)
        except RemotingError as error:
            self._failed_count += 1
            self._log.warning("not registered", name_server=address, error=str(error))
            return
        if response.code == ResponseCode.SUCCESS:
            self._registered_count += 1
            broker.registered(response, time.time_ns() // 1_000_000)
        else:
            self._failed_count += 1
            self._log.warning("registration refused", name_server=address, remark=response.remark)

    async def _tell(self, address: str, command: RemotingCommand) -> None:
        try:
            await self._client.invoke_oneway(address, command)
        except RemotingError as error:
            self._failed_count += 1
            self._log.warning("not registered", name_server=address, error=str(error))

    async def unregister(self, broker: Broker) -> None:
        """Leave every route; whoever does not answer finds out by itself."""
        if self._under_way is not None:
            self._again = None
            self._under_way.cancel()
        for address in self._addresses:
            try:
                request = broker.unregistration()
                await self._client.invoke(address, request, timeout_ms=self._timeout_ms)
            except RemotingError as error:
                self._log.warning("not unregistered", name_server=address, error=str(error))

    def statistics(self) -> dict[str, int]:
        """Return counters."""
        return {
            "name_servers_count": len(self._addresses),
            "registered_count": self._registered_count,
            "failed_count": self._failed_count,
        }

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
