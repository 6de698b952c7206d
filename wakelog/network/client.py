"""RemotingClient: calls to name servers and brokers by address, one connection each.

A connection is made by the first call that needs it and again after it was lost. Names are looked
up at each connect, so that an address that moved is found. Callers that come while a connection is
being made wait for that one.

Invariants:
    - no more than ``CALLS_MAX`` calls of one client are under way.
    - opaque numbers of calls under way differ.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingClient (4.9.3).
"""

import asyncio
import ssl
from itertools import count

from wakelog.network.call_channel import CallChannel
from wakelog.network.call_errors import (
    CallTimeout,
    ConnectFailed,
    SendFailed,
    TlsFailed,
    TooManyCalls,
)
from wakelog.network.tls import handshake_reason
from wakelog.protocol.command import ONEWAY_FLAG, RemotingCommand

CONNECT_SECONDS_MAX = 3.0
"""com.rocketmq.remoting.client.connect.timeout of 4.9.3."""

PARTING_SECONDS_MAX = 1.0
"""To end TLS in order; a connection in the clear ends at once."""

CALLS_MAX = 65_535
"""clientAsyncSemaphoreValue of 4.9.3."""

OPAQUE_MASK = 0x7FFFFFFF


class RemotingClient:
    """Calls by address; every method is for the loop's thread."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """Connect to nobody yet. tls: None for connections in the clear."""
        self._tls = tls
        self._opaque = count(1)
        self._channels: dict[str, CallChannel] = {}
        self._connecting: dict[str, asyncio.Task[CallChannel]] = {}
        self._calls_count = 0
        self._closed = False

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        """Send a request and return its answer, whatever its code; connecting counts as waiting.

        Raises: ConnectFailed, SendFailed, CallTimeout, TooManyCalls.
        """
        if self._calls_count >= CALLS_MAX:
            raise TooManyCalls(address, f"{CALLS_MAX} calls are under way")
        self._calls_count += 1
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                channel = await self._channel(address)
                return await channel.call(self._numbered(command))
        except TimeoutError:
            raise CallTimeout(address, f"no answer within {timeout_ms} ms") from None
        finally:
            self._calls_count -= 1

    async def invoke_oneway(self, address: str, command: RemotingCommand) -> None:
        """Send a request that is not answered. Raises: ConnectFailed, SendFailed."""
        command.flag |= ONEWAY_FLAG
        channel = await self._channel(address)
        channel.send(self._numbered(command))

    async def _channel(self, address: str) -> CallChannel:
        """Return an open connection, made now if there is none."""
        if self._closed:
            raise SendFailed(address, "this client is closed")
        channel = self._channels.get(address)
        if channel is not None and channel.is_open:
            return channel
        task = self._connecting.get(address)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._connect(address))
            self._connecting[address] = task
            task.add_done_callback(lambda done: self._connected(address, done))
        return await asyncio.shield(task)

    async def _connect(self, address: str) -> CallChannel:
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                _, channel = await asyncio.get_running_loop().create_connection(
                    lambda: CallChannel(address), host.strip("[]"), int(port), ssl=self._tls
                )
        except (ssl.SSLError, ConnectionResetError) as error:
            if self._tls is None:
                raise ConnectFailed(address, str(error)) from error
            raise TlsFailed(address, handshake_reason(error)) from error
        except (OSError, ValueError) as error:
            # TimeoutError is an OSError without a text.
            reason = str(error) or f"no connection within {CONNECT_SECONDS_MAX} s"
            raise ConnectFailed(address, reason) from error
        return channel

    def _connected(self, address: str, task: asyncio.Task[CallChannel]) -> None:
        self._connecting.pop(address, None)
        if task.cancelled() or task.exception() is not None:
            return
        if self._closed:
            task.result().close()
        else:
            self._channels[address] = task.result()

    def _numbered(self, command: RemotingCommand) -> RemotingCommand:
        command.opaque = next(self._opaque) & OPAQUE_MASK
        return command

    @property
    def calls_count(self) -> int:
        """How many calls are under way."""
        return self._calls_count

    async def close(self) -> None:
        """Close every connection; calls under way end with SendFailed."""
        self._closed = True
        for task in list(self._connecting.values()):
            task.cancel()
        for channel in self._channels.values():
            channel.close()
        if self._tls is not None:
            await self._part()
        self._channels.clear()
        # Transports tell their protocols of the end in the next turn of the loop.
        await asyncio.sleep(0)

    async def _part(self) -> None:
        """Wait for the ends of closed connections, as TLS says good-bye; not for long."""
        parting = [asyncio.create_task(x.wait_lost()) for x in self._channels.values()]
        _, late = await asyncio.wait(parting, timeout=PARTING_SECONDS_MAX) if parting else ((), ())
        for unanswered in late:
            unanswered.cancel()
        await asyncio.gather(*late, return_exceptions=True)
