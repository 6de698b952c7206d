"""TlsGate: decides by the first byte of an accepted connection whether it uses TLS.

Clients with and without TLS use one port. A TLS connection begins with a handshake record (0x16).
A frame begins with its length, and a frame of 0x16...... bytes is above every limit. So the first
byte is enough. The gate gives the socket to the Connection and is then out of the way: later
bytes of a connection without TLS cost nothing.

    first byte   permissive                 enforcing
    0x16         handshake, Connection      handshake, Connection
    other        Connection                 closed

The Connection is in the server's table from the accept on, so that every limit on connections holds
during a handshake. A handshake waits for its turn in the server's HandshakeLine, and
``handshake_seconds_max`` limits it from then on.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingServer.HandshakeHandler (4.9.3).
"""

import asyncio
from typing import cast

from wakelog.network.activity import CloseReason
from wakelog.network.background import awaited, run_once
from wakelog.network.connection import Connection
from wakelog.network.errors import TlsRefused
from wakelog.network.handshake_line import UNFINISHED_MAX, HandshakeLine
from wakelog.network.tls import ServerContext, TlsMode, handshake_reason

HANDSHAKE_BYTE = 0x16
"""ContentType handshake of RFC 8446, section 5.1."""

SHUTDOWN_SECONDS_MAX = 1.0
"""How long a closed connection waits for the client to end TLS, too."""


class TlsGate(asyncio.Protocol):
    """The protocol of one accepted socket until its Connection takes over."""

    _transport: asyncio.Transport

    def __init__(
        self,
        connection: Connection,
        context: ServerContext,
        line: HandshakeLine,
        *,
        handshake_seconds_max: float,
    ) -> None:
        """Wait for the transport."""
        self._connection = connection
        self._context = context
        self._line = line
        self._handshake_seconds_max = handshake_seconds_max
        self._first = b""
        self._handshake: asyncio.Task[None] | None = None
        self._decrypted: list[bytes] = []
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the Connection ask the server whether it may stay."""
        self._transport = cast(asyncio.Transport, transport)
        self._connection.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Give the socket to the Connection, after a handshake if the first byte begins one."""
        if self._handshake is not None:
            # The first requests arrived together with the end of the handshake.
            self._decrypted.append(data)
        elif data[0] == HANDSHAKE_BYTE:
            self._transport.pause_reading()
            self._first = data
            self._line.enter(self)
        elif self._context.mode is TlsMode.ENFORCING:
            self._connection.abort(CloseReason.NO_TLS)
        else:
            self._transport.set_protocol(self._connection)
            self._connection.data_received(data)

    def is_ready(self) -> bool:
        """Return whether the server has its certificate; if not, the line goes on when it has."""
        return self._context.is_made(self._line.go_on)

    def begin(self) -> bool:
        """Begin the handshake; False if the connection was closed while it waited in line."""
        if self._is_lost or not self._connection.is_open:
            return False
        data, self._first = self._first, b""
        shaking_hands = run_once(self._shake_hands(data), self._on_failed)
        self._handshake = self._connection.handshake = shaking_hands
        return True

    def give_up(self) -> None:
        """Close the connection: too many others began their handshake after it."""
        detail = f"it was unfinished when {UNFINISHED_MAX} others had begun"
        self._connection.abort(CloseReason.TLS_HANDSHAKE, detail)

    def _feed(self, data: bytes) -> None:
        """Give the bytes that were read too early to the protocol of the handshake."""
        protocol = cast(asyncio.BufferedProtocol, self._transport.get_protocol())
        rest = memoryview(data)
        while rest and not self._transport.is_closing():
            buffer = memoryview(protocol.get_buffer(len(rest)))
            size_bytes = min(len(buffer), len(rest))
            buffer[:size_bytes] = rest[:size_bytes]
            protocol.buffer_updated(size_bytes)
            rest = rest[size_bytes:]

    async def _start_tls(self, data: bytes) -> asyncio.Transport | None:
        """Return the transport of a connection whose first bytes are `data`."""
        loop = asyncio.get_running_loop()
        starting = loop.start_tls(
            self._transport,
            self,
            await self._context.get(),
            server_side=True,
            ssl_handshake_timeout=self._handshake_seconds_max,
            ssl_shutdown_timeout=SHUTDOWN_SECONDS_MAX,
        )
        started = awaited(starting)
        try:
            # start_tls sets its protocol and queues that protocol's connection_made and the start
            # of reading. This call runs after both, and before the loop reads.
            loop.call_soon(loop.call_soon, self._feed, data)
            return await started
        finally:
            # Its error has this frame. The task would be kept until the next full collection.
            del started

    async def _shake_hands(self, data: bytes) -> None:
        connection = self._connection
        try:
            transport = await self._start_tls(data)
        except (OSError, TlsRefused, asyncio.CancelledError) as error:
            # The loop reports a handshake that takes too long as a ConnectionAbortedError. The
            # Connection cancels it when it is closed, which start_tls of uvloop does not notice.
            connection.handshake = transport = None
            if isinstance(error, TlsRefused):
                connection.abort(CloseReason.TLS_HANDSHAKE, str(error))
            elif isinstance(error, OSError):
                is_late = isinstance(error, ConnectionAbortedError)
                detail = str(error) if is_late else handshake_reason(error)
                connection.abort(CloseReason.TLS_HANDSHAKE, detail)
        finally:
            self._line.finished(self)
        if transport is not None:
            connection.use_transport(transport)
            transport.set_protocol(connection)
            for data in self._decrypted:
                connection.data_received(data)
            if not self._is_lost:
                return
        if not connection.closed:
            # The loop reports no end to this protocol after a failed handshake.
            connection.connection_lost(None)

    def _on_failed(self, error: Exception) -> None:
        self._connection.abort(CloseReason.TLS_HANDSHAKE, repr(error))

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of a connection that this gate has not passed on."""
        self._is_lost = True
        if (self._handshake is None or self._handshake.done()) and not self._connection.closed:
            self._connection.connection_lost(exc)
