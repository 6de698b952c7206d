"""CallChannel: one connection and the calls that wait for their answers on it.

An asyncio.Protocol. Calls are told apart by opaque, so answers may come in any order. Requests that
the peer sends of its own are counted and left alone: who only calls has no processors.

Invariants:
    - every waiting call ends: by its answer, by its caller giving up, or with the connection.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingAbstract#processResponseCommand (4.9.3).
"""

import asyncio
from typing import cast

from wakelog.network.call_errors import SendFailed
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.frame import FrameDecoder, encode_frame


class CallChannel(asyncio.Protocol):
    """One socket of a RemotingClient."""

    def __init__(self, address: str) -> None:
        """Wait for the transport; ``address`` is for errors."""
        self._address = address
        self._decoder = FrameDecoder()
        self._waiting: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._transport: asyncio.Transport | None = None
        self.unsolicited_count = 0
        self._lost = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether a call can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def waiting_count(self) -> int:
        """How many calls wait for an answer."""
        return len(self._waiting)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def send(self, command: RemotingCommand) -> None:
        """Write a command that nobody waits for. Raises: SendFailed."""
        if not self.is_open:
            raise SendFailed(self._address, "the connection is closed")
        assert self._transport is not None
        self._transport.write(encode_frame(command))

    async def call(self, command: RemotingCommand) -> RemotingCommand:
        """Write a command and return its answer; cancelling gives up. Raises: SendFailed."""
        answer: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        opaque = command.opaque  # as it is sent: who sends it to others too gives it another then
        assert opaque not in self._waiting, opaque
        self.send(command)
        self._waiting[opaque] = answer
        try:
            return await answer
        finally:
            self._waiting.pop(opaque, None)

    def data_received(self, data: bytes) -> None:
        """Give answers to their calls."""
        try:
            commands = self._decoder.feed(data)
        except RemoteProtocolError as error:
            self._settle(self._decoder.preceding)
            self._end(f"it sent a bad frame: {error.remark}")
            return
        self._settle(commands)

    def _settle(self, commands: list[RemotingCommand]) -> None:
        for command in commands:
            answer = self._waiting.get(command.opaque) if command.is_response else None
            if answer is None or answer.done():
                self.unsolicited_count += 1
            else:
                answer.set_result(command)

    def connection_lost(self, exc: Exception | None) -> None:
        """End every call that waits."""
        self._lost.set()
        self._end("the connection was lost" if exc is None else f"the connection was lost: {exc}")

    def close(self) -> None:
        """Close the socket and end every call that waits."""
        self._end("the connection was closed")

    async def wait_lost(self) -> None:
        """Return once a socket that was closed is; cancelling closes it without a good-bye."""
        try:
            await self._lost.wait()
        except asyncio.CancelledError:
            if self._transport is not None:
                self._transport.abort()
            raise

    def _end(self, reason: str) -> None:
        if self._transport is not None:
            self._transport.close()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(SendFailed(self._address, reason))
