"""BlockingClient: requests by address; the calling thread waits in the kernel for each response.

No loop and no other thread has to wake up. With one request at a time, that costs more than its
work.

    invoke   connect if there is no connection, or if the other end has closed it; send; wait

Invariants:
    - after a failure or an interruption the connection is closed, so that no late response is
      taken for the one to another request.
    - requests of the other end are dropped: it knows no client by these connections.
    - at most `CONNECTIONS_MAX` connections are open.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingClient#invokeSync (4.9.3).
"""

import select
import socket
import ssl
import time
from typing import Final

from wakelog.network.client import BeforeSend
from wakelog.network.errors import CallTimeout, ConnectFailed, SendFailed, TlsFailed
from wakelog.network.peer import OPAQUE_MASK
from wakelog.network.tls import handshake_reason
from wakelog.protocol.addresses import read_address
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.frame import FrameDecoder, encode_frame

CONNECTIONS_MAX: Final = 64
"""Above it the connection that was made first is closed."""

READ_BYTES: Final = 65_536


class BlockingClient:
    """See the module. One thread at a time."""

    def __init__(
        self, tls: ssl.SSLContext | None = None, *, before_send: BeforeSend | None = None
    ) -> None:
        """Make no connection yet. before_send: as of `RemotingClient`."""
        self._tls = tls
        self._before_send = before_send
        self._connections: dict[str, BlockingConnection] = {}

    def invoke(self, address: str, command: RemotingCommand, *, timeout_ms: int) -> RemotingCommand:
        """Send a request and return its response, whatever its code.

        timeout_ms: to connect, to send, and to wait: each takes so long at most.
        Raises: ConnectFailed, SendFailed, CallTimeout.
        """
        if self._before_send is not None:
            command = self._before_send(command)
        connection = self._connections.get(address)
        if connection is None or connection.has_ended():
            connection = self._connect(address, timeout_ms)
        try:
            return connection.invoke(command, timeout_ms)
        except BaseException:
            self._close(address)
            raise

    def close(self) -> None:
        """Close the connections."""
        for address in list(self._connections):
            self._close(address)

    def _connect(self, address: str, timeout_ms: int) -> "BlockingConnection":
        self._close(address)
        if len(self._connections) >= CONNECTIONS_MAX:
            self._close(next(iter(self._connections)))
        connection = self._connections[address] = BlockingConnection(address, self._tls, timeout_ms)
        return connection

    def _close(self, address: str) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()


class BlockingConnection:
    """One connection of a BlockingClient."""

    def __init__(self, address: str, tls: ssl.SSLContext | None, timeout_ms: int) -> None:
        """Connect. Raises: ConnectFailed."""
        self._address = address
        self._opaque = 0
        self._decoder = FrameDecoder()
        self._socket = _connect(address, tls, timeout_ms)
        self._ended = select.poll()
        self._ended.register(self._socket, select.POLLIN)

    def has_ended(self) -> bool:
        """Return whether the other end has closed it, or sent what nobody waits for."""
        return bool(self._ended.poll(0))

    def invoke(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Send a request and return its response. Raises: SendFailed, CallTimeout."""
        command.opaque = self._opaque = (self._opaque + 1) & OPAQUE_MASK
        frame = encode_frame(command)
        try:
            self._socket.sendall(frame)
            end_seconds = time.monotonic() + timeout_ms / 1000
            while True:
                data = self._socket.recv(READ_BYTES)
                if not data:
                    raise SendFailed(self._address, "the connection was lost")
                for found in self._decoder.feed(data):
                    if found.is_response and found.opaque == self._opaque:
                        return found
                if time.monotonic() >= end_seconds:
                    raise TimeoutError
        except TimeoutError:
            raise CallTimeout.after(self._address, timeout_ms) from None
        except OSError as error:
            raise SendFailed(self._address, f"the connection was lost: {error}") from error
        except RemoteProtocolError as error:
            raise SendFailed(self._address, f"it sent a bad frame: {error.remark}") from error

    def close(self) -> None:
        """Close it at once."""
        self._socket.close()


def _connect(address: str, tls: ssl.SSLContext | None, timeout_ms: int) -> socket.socket:
    """Return a connected socket, whose calls take `timeout_ms` at most. Raises: ConnectFailed."""
    connected: socket.socket | None = None
    try:
        host, port = read_address(address)
        connected = socket.create_connection((host, port), timeout_ms / 1000)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected if tls is None else tls.wrap_socket(connected, server_hostname=host)
    except (OSError, ValueError) as error:
        if connected is not None:
            connected.close()
        if isinstance(error, ssl.SSLError) or (tls and isinstance(error, ConnectionResetError)):
            raise TlsFailed(address, handshake_reason(error)) from error
        reason = str(error) or f"no connection within {timeout_ms} ms"
        raise ConnectFailed(address, reason) from error
