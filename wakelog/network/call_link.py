"""CallLink: the client's end of a connection that is made of calls (`call_channels`).

While it is open at least one call is under way, so that requests of the server arrive. Bytes go
with the next call; while `CALLS_MAX` are under way they gather.

Source: none upstream.
"""

import asyncio
from contextlib import suppress
from typing import Final

from wakelog.network.background import run_once
from wakelog.network.call_transport import (
    CALLS_MAX,
    NO_CHUNK,
    CallPeer,
    CallTransport,
    OutOfOrder,
)

CLOSE_SECONDS_MAX: Final = 1.0
"""How long a closed link waits for its server to hear of it."""


class CallLink:
    """One connection. One loop, one thread."""

    def __init__(self, peer: CallPeer, protocol: asyncio.Protocol) -> None:
        """Make no call yet."""
        self._peer = peer
        self._protocol = protocol
        self._channel = ""
        self._calls: set[asyncio.Task[None]] = set()
        self._ending: asyncio.Task[None] | None = None
        self._is_scheduled = False

    async def open(self) -> None:
        """Connect. Raises: ConnectionError if the other end does not accept, what calls raise."""
        channel = await self._peer.open_channel()
        if channel is None:
            raise ConnectionError("the actor runs, but does not accept yet")
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._transport = CallTransport(
            self._protocol, on_change=self._schedule, on_close=self._close
        )
        self._protocol.connection_made(self._transport)
        self._schedule()

    def _schedule(self) -> None:
        """Send what the protocol writes in one turn of the loop with one call."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_scheduled = False
        transport = self._transport
        if transport.is_closing():
            return
        while transport.has_written and len(self._calls) < CALLS_MAX:
            self._call(*transport.take())
        if not self._calls:
            self._call(NO_CHUNK, b"")

    def _call(self, number: int, data: bytes) -> None:
        task = run_once(self._exchange(number, data), self._lose)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        task.add_done_callback(lambda _: self._send())

    async def _exchange(self, number: int, data: bytes) -> None:
        transport = self._transport
        try:
            answer = await self._peer.exchange(self._channel, number, data)
            if answer.number != NO_CHUNK and not transport.is_closing():
                transport.accept(answer.number, answer.data)
        except (ConnectionError, OutOfOrder) as error:
            self._lose(error)
            return
        if not answer.is_open:
            self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        self._transport.end(error)
        for task in self._calls - {asyncio.current_task()}:
            task.cancel()

    def _close(self) -> None:
        self._ending = run_once(self._finish(), self._lose)

    async def _finish(self) -> None:
        """Bring what is left, and have the server end the connection."""
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                while True:
                    number, data = self._transport.take()
                    if not self._transport.has_written:
                        break
                    await self._peer.exchange(self._channel, number, data)
                await self._peer.close_channel(self._channel, number, data)
                await asyncio.gather(*self._calls)
        self._lose(None)
