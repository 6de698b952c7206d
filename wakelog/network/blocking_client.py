"""BlockingClient: requests by address; the calling thread waits in the kernel for each response.

No loop and no other thread has to wake up. With one request at a time, that costs more than its
work.

    invoke   connect if there is no connection, or if the other end has closed it; send; wait

Invariants:
    - after a failure or an interruption the connection is closed, so that no late response is
      taken for the one to another request.
    - requests of the other end are dropped: it knows no client by these connections.
    - at most `CONNECTIONS_MAX` connections are open.
    - a call takes `timeout_ms` at most, but for the time to find the address of a name and
      `SLACK_SECONDS` of each step.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingClient#invokeSync (4.9.3).
"""

import select
import socket
import ssl
import time
from contextlib import suppress
from typing import Final

from wakelog.network.client import CONNECT_SECONDS_MAX, BeforeSend
from wakelog.network.errors import (
    CallTimeout,
    ClientClosed,
    ConnectFailed,
    SendFailed,
    TlsFailed,
)
from wakelog.network.peer import OPAQUE_MASK
from wakelog.network.tls import handshake_reason
from wakelog.protocol.addresses import read_address
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.frame import FrameDecoder, encode_frame

CONNECTIONS_MAX: Final = 64
"""Above it the connection that was made first is closed."""

READ_BYTES: Final = 65_536
SLACK_SECONDS: Final = 0.005
"""By so much a step may take longer: to set a limit anew for each costs more than a microsecond."""


class BlockingClient:
    """See the module. One thread at a time, but for `end_call`."""

    def __init__(
        self, tls: ssl.SSLContext | None = None, *, before_send: BeforeSend | None = None
    ) -> None:
        """Make no connection yet. before_send: as of `RemotingClient`."""
        self._tls = tls
        self._before_send = before_send
        self._connections: dict[str, BlockingConnection] = {}
        self._is_closed = False

    def invoke(self, address: str, command: RemotingCommand, *, timeout_ms: int) -> RemotingCommand:
        """Send a request and return its response, whatever its code.

        timeout_ms: to connect, to send, and to wait, together.
        Raises: ConnectFailed, SendFailed, CallTimeout.
        """
        end_seconds = time.monotonic() + timeout_ms / 1000
        if self._before_send is not None:
            command = self._before_send(command)
        connection = self._connections.get(address)
        if connection is None or connection.has_ended():
            connection = self._connect(address, end_seconds)
        if self._is_closed:
            raise ClientClosed(address)
        try:
            return connection.invoke(command, end_seconds)
        except TimeoutError:
            self._close(address)
            raise CallTimeout.after(address, timeout_ms) from None
        except BaseException:
            self._close(address)
            raise

    def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        for address in list(self._connections):
            self._close(address)

    def end_call(self) -> None:
        """End the call under way with an error, and any later one. Any thread.

        The thread of the call closes its connection: to do it here would not wake that thread up,
        and another file could get the number that it reads from.
        """
        self._is_closed = True
        for connection in list(self._connections.values()):
            connection.end()

    def _connect(self, address: str, end_seconds: float) -> "BlockingConnection":
        self._close(address)
        if len(self._connections) >= CONNECTIONS_MAX:
            self._close(next(iter(self._connections)))
        connection = BlockingConnection(address, self._tls, end_seconds)
        self._connections[address] = connection
        return connection

    def _close(self, address: str) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()


class BlockingConnection:
    """One connection of a BlockingClient. Times are those of the steady clock."""

    def __init__(self, address: str, tls: ssl.SSLContext | None, end_seconds: float) -> None:
        """Connect. Raises: ConnectFailed."""
        self._address = address
        self._opaque = 0
        self._decoder = FrameDecoder()
        self._socket = _connect(address, tls, end_seconds)
        self._limit_seconds = float("-inf")  # none is set
        self._ended = select.poll()
        self._ended.register(self._socket, select.POLLIN)

    def has_ended(self) -> bool:
        """Return whether the other end has closed it, or sent what nobody waits for."""
        return bool(self._ended.poll(0))

    def invoke(self, command: RemotingCommand, end_seconds: float) -> RemotingCommand:
        """Send a request and return its response. Raises: SendFailed, TimeoutError."""
        command.opaque = self._opaque = (self._opaque + 1) & OPAQUE_MASK
        frame = encode_frame(command)
        try:
            self._limit(end_seconds)
            self._socket.sendall(frame)
            while True:
                self._limit(end_seconds)
                data = self._socket.recv(READ_BYTES)
                if not data:
                    raise SendFailed(self._address, "the connection was lost")
                for found in self._decoder.feed(data):
                    if found.is_response and found.opaque == self._opaque:
                        return found
        except TimeoutError:
            raise
        except OSError as error:
            raise SendFailed(self._address, f"the connection was lost: {error}") from error
        except RemoteProtocolError as error:
            raise SendFailed(self._address, f"it sent a bad frame: {error.remark}") from error

    def _limit(self, end_seconds: float) -> None:
        """Let the next step take until then. Raises: TimeoutError."""
        left_seconds = _left_seconds(end_seconds)
        if abs(left_seconds - self._limit_seconds) > SLACK_SECONDS:
            self._socket.settimeout(left_seconds)
            self._limit_seconds = left_seconds

    def end(self) -> None:
        """Have whoever uses it hear that it is lost."""
        with suppress(OSError):
            # Not the one of TLS: that would let the rest of a request go without it.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it at once."""
        self._socket.close()


def _left_seconds(end_seconds: float) -> float:
    """Return the time until then. Raises: TimeoutError if there is none."""
    left_seconds = end_seconds - time.monotonic()
    if left_seconds <= 0:
        raise TimeoutError
    return left_seconds


def _connect(address: str, tls: ssl.SSLContext | None, end_seconds: float) -> socket.socket:
    """Return a connected socket. Raises: ConnectFailed."""
    begin_seconds = time.monotonic()
    end_seconds = min(end_seconds, begin_seconds + CONNECT_SECONDS_MAX)
    connected: socket.socket | None = None
    try:
        host, port = read_address(address)
        connected = socket.create_connection((host, port), _left_seconds(end_seconds))
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is None:
            return connected
        connected.settimeout(_left_seconds(end_seconds))
        return tls.wrap_socket(connected, server_hostname=host)
    except TimeoutError as error:
        _close(connected)
        seconds = end_seconds - begin_seconds
        raise ConnectFailed(address, f"no connection within {seconds:.3g} s") from error
    except (OSError, ValueError) as error:
        _close(connected)
        if isinstance(error, ssl.SSLError) or (tls and isinstance(error, ConnectionResetError)):
            raise TlsFailed(address, handshake_reason(error)) from error
        raise ConnectFailed(address, str(error)) from error


def _close(connected: socket.socket | None) -> None:
    if connected is not None:
        connected.close()
