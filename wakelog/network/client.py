"""RemotingClient: requests to name servers and brokers by address, one connection each.

The first request to an address connects, and so does the first one after the connection was lost.
Each connect resolves the name again, so that an address that moved is found. Requests that come
while a connection is being made wait for it. The other end may send requests, too: the function
``on_request`` executes them.

Invariants:
    - at most ``CALLS_MAX`` requests of one client wait for a response.
    - every request passes ``before_send``, one-way requests included; responses do not.
    - a one-way request from the other end gets no response.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingClient,
NettyRemotingAbstract#processRequestCommand (4.9.3).
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from wakelog.network import refusals
from wakelog.network.activity import CloseReason
from wakelog.network.background import awaited, run_once
from wakelog.network.busy_poll import POLL_SECONDS, BusyPoll
from wakelog.network.connection import BufferedConnection, Connection, ReadBuffer, close_all
from wakelog.network.deadlines import NEVER, Deadlines
from wakelog.network.direct_waiter import DirectWaiter
from wakelog.network.errors import (
    CallTimeout,
    ClientClosed,
    ConnectFailed,
    SendFailed,
    TlsFailed,
    TooManyCalls,
)
from wakelog.network.limits import GIBIBYTE, ServerLimits
from wakelog.network.signing import Credentials, sign
from wakelog.network.tls import Tls, handshake_reason, make_context
from wakelog.protocol.addresses import read_address
from wakelog.protocol.command import ONEWAY_FLAG, RemotingCommand

CONNECT_SECONDS_MAX = 3.0
"""com.rocketmq.remoting.client.connect.timeout of 4.9.3."""

TLS_CLOSE_SECONDS_MAX = 1.0
"""How long a closed client waits for servers to end TLS; without TLS it does not wait."""

CALLS_MAX = 65_535
"""clientAsyncSemaphoreValue of 4.9.3."""

EXECUTING_MAX = 10_000
"""Requests from the other ends that are executed at once; a thread pool's queue in 4.9.3."""

LIMITS = ServerLimits(
    requests_waiting_max=CALLS_MAX,
    write_buffer_bytes_high=2 * GIBIBYTE - 1,  # a C int in uvloop
    write_buffer_bytes_max=2 * GIBIBYTE,
)
"""A client keeps reading while the server does not read; else two full buffers would wait for each
other. Callers wait for responses, and that bounds what is written."""

BeforeSend: TypeAlias = Callable[[RemotingCommand], RemotingCommand]
"""Return the request to send in the place of this one, for example a signed copy."""

OnRequest: TypeAlias = Callable[[str, RemotingCommand], Awaitable[RemotingCommand | None]]
"""Execute a request of the peer at an address, and return the response; None means no response."""

Dial: TypeAlias = Callable[[str, asyncio.Protocol], Awaitable[None]]
"""Connect a protocol to an address in another way than by TCP. Raises: OSError."""


def signing(credentials: Credentials) -> BeforeSend | None:
    """Return what signs requests; None without an access key."""
    return partial(sign, credentials=credentials) if credentials.access_key else None


def make_client(
    credentials: Credentials,
    tls: Tls | None,
    on_request: OnRequest | None = None,
    on_open: Callable[[str], None] = lambda _: None,
    dial: Dial | None = None,
) -> "RemotingClient":
    """Return a client, which signs its requests if there is an access key. Raises: TlsRefused."""
    return RemotingClient(
        None if tls is None else make_context(tls),
        before_send=signing(credentials),
        on_request=on_request,
        on_open=on_open,
        dial=dial,
    )


class RemotingClient:
    """Requests by address; every method is for the loop's thread.

    A client that was not closed may be used in a later loop, where it connects again.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        *,
        before_send: BeforeSend | None = None,
        on_request: OnRequest | None = None,
        own_host: str = "",
        on_open: Callable[[str], None] = lambda _: None,
        dial: Dial | None = None,
    ) -> None:
        """Make no connection yet.

        tls: None for connections without TLS.
        own_host: an address of this host; its servers see a loopback address of their peer.
        on_request: None refuses the requests of the other ends with code 3.
        on_open: gets the address of each connection that was made.
        dial: how to connect; None for TCP, to which alone `tls` and `own_host` apply.
        """
        self._tls = tls
        self._before_send = before_send
        self._on_request = on_request
        self._own_host = own_host
        self._on_open = on_open
        self._dial = dial
        self._connections: dict[str, BufferedConnection] = {}
        self._connecting: dict[str, asyncio.Future[BufferedConnection]] = {}
        self._executing: set[asyncio.Task[None]] = set()
        self._read_buffer = ReadBuffer()
        self._deadlines = Deadlines()
        self._busy_poll: BusyPoll | None = None
        self._answered_seconds = 0.0
        self._timer: asyncio.Handle | None = None
        self._timer_seconds = 0.0  # uvloop's handle of a timer that is due has no `when`
        self._loop: asyncio.AbstractEventLoop | None = None
        self.calls_count = 0  # requests that wait for a response or a connection
        self._is_closed = False

    @property
    def tls(self) -> ssl.SSLContext | None:
        """What its connections begin with, for others to the same servers; None without TLS."""
        return self._tls

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        """Send a request and return its response, whatever its code.

        The time to connect counts. Raises: ConnectFailed, SendFailed, CallTimeout, TooManyCalls.
        """
        if self.calls_count >= CALLS_MAX:
            raise TooManyCalls(address, f"{CALLS_MAX} calls are under way")
        wants_view = command.wants_view
        if self._before_send is not None:
            command = self._before_send(command)
        loop = self._loop
        if loop is None or not loop.is_running():  # the running one asks the kernel who we are
            loop = self._running_loop()
        now_seconds = loop.time()
        deadline_seconds = now_seconds + timeout_ms / 1000
        self.calls_count += 1
        try:
            connection = self._connections.get(address)
            if connection is None or not connection.is_open or self._is_closed:
                connection = await self._connection_by(address, deadline_seconds, timeout_ms)
            is_alone = self.calls_count == 1 and connection.has_socket
            waiter: asyncio.Future[RemotingCommand] | DirectWaiter
            if is_alone:
                waiter = connection.resumed_by_read = DirectWaiter(loop)
            else:
                waiter = loop.create_future()
            busy_poll = self._busy_poll if is_alone else None
            self._deadlines.add(waiter, deadline_seconds, address, timeout_ms)
            if self._timer is None or deadline_seconds < self._timer_seconds:
                self._set_timer(deadline_seconds)
            if busy_poll is not None:  # the loop stays awake if the last response came soon
                busy_poll.turn_ended(self._answered_seconds, now_seconds, answered=True)
            try:
                opaque = connection.begin_request(command, waiter)
                try:
                    response = await waiter
                finally:
                    connection.peer.end_request(opaque)
            finally:
                self._deadlines.remove(waiter)
                if busy_poll is not None:
                    self._answered_seconds = loop.time()
                    busy_poll.stop(self._answered_seconds)
        finally:
            self.calls_count -= 1
        if not wants_view and response.body.__class__ is not bytes:
            response.body = bytes(response.body)
        return response

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Return the running loop, and forget what belongs to another: that one is over."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop = loop
            self._timer = None
            if POLL_SECONDS:
                self._busy_poll = BusyPoll(
                    POLL_SECONDS,
                    call_soon=loop.call_soon,
                    clock_seconds=loop.time,
                )
            self._deadlines = Deadlines()
            self._connections = {}
            self._connecting = {}
            self._executing = set()
        return loop

    async def _connection_by(
        self, address: str, deadline_seconds: float, timeout_ms: int
    ) -> BufferedConnection:
        try:
            async with asyncio.timeout_at(deadline_seconds):
                return await self._connection(address)
        except TimeoutError:
            raise CallTimeout.after(address, timeout_ms) from None

    def _set_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_seconds = seconds
        self._timer = asyncio.get_running_loop().call_at(seconds, self._expire)

    def _expire(self) -> None:
        self._timer = None
        next_seconds = self._deadlines.expire(asyncio.get_running_loop().time())
        if next_seconds < NEVER:
            self._set_timer(next_seconds)

    async def invoke_oneway(self, address: str, command: RemotingCommand) -> None:
        """Send a request that gets no response. Raises: ConnectFailed, SendFailed."""
        if self._before_send is not None:
            command = self._before_send(command)
        connection = await self._connection(address)
        command.flag |= ONEWAY_FLAG
        command.opaque = connection.peer.next_opaque()
        if not self.send(connection, command):
            raise SendFailed(address, "the connection is closed")

    def connection_id(self, address: str) -> int | None:
        """Return the number of the open connection to an address, None if there is none.

        A request that is sent next, without a wait in between, goes over that connection.
        """
        connection = self._connections.get(address)
        return connection.id if connection is not None and connection.is_open else None

    def peer_certificate(self, address: str) -> bytes:
        """Return the certificate of the open connection to an address, as DER.

        Empty without TLS, and without a connection.
        """
        connection = self._connections.get(address)
        is_open = connection is not None and connection.is_open
        return connection.peer_certificate if connection is not None and is_open else b""

    async def _connection(self, address: str) -> BufferedConnection:
        """Return an open connection; make it if there is none."""
        self._running_loop()
        if self._is_closed:
            raise ClientClosed(address)
        connection = self._connections.get(address)
        if connection is not None and connection.is_open:
            return connection
        task = self._connecting.get(address)
        if task is None:
            task = awaited(self._connect(address))
            self._connecting[address] = task
            # Its callers may all have given up when it fails.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _open(self, address: str) -> BufferedConnection:
        if self._dial is not None:
            connection = BufferedConnection(self, LIMITS, self._read_buffer, address)
            await self._dial(address, connection)
            return connection
        host, port = read_address(address)
        loopback = "::1" if ":" in host else "127.0.0.1"
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: BufferedConnection(self, LIMITS, self._read_buffer, address),
            host,
            port,
            ssl=self._tls,
            local_addr=(loopback, 0) if host == self._own_host else None,
        )
        return connection

    async def _connect(self, address: str) -> BufferedConnection:
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                return await self._open(address)
        except (ssl.SSLError, ConnectionResetError) as error:
            if self._tls is None:
                raise ConnectFailed(address, str(error)) from error
            raise TlsFailed(address, handshake_reason(error)) from error
        except asyncio.CancelledError:
            raise ClientClosed(address) from None
        except (OSError, ValueError) as error:
            # TimeoutError is an OSError without a text.
            reason = str(error) or f"no connection within {CONNECT_SECONDS_MAX} s"
            raise ConnectFailed(address, reason) from error
        finally:
            self._connecting.pop(address, None)

    def opened(self, connection: Connection) -> CloseReason | None:
        """Add a connection (ConnectionOwner)."""
        if self._is_closed:
            return CloseReason.REQUESTED
        assert isinstance(connection, BufferedConnection), "made by `_open`"
        self._connections[connection.address] = connection
        self._on_open(connection.address)
        return None

    def closed(self, connection: Connection, reason: CloseReason, detail: str) -> None:
        """Remove a connection (ConnectionOwner)."""
        if self._connections.get(connection.address) is connection:
            del self._connections[connection.address]

    def defers(self, connection: Connection) -> bool:
        """Put nothing off: a client has few connections (ConnectionOwner)."""
        return False

    def on_held(self, size_bytes: int) -> None:
        """Do nothing: callers wait for what a client holds (ConnectionOwner)."""

    def send(self, connection: Connection, command: RemotingCommand) -> bool:
        """Write a command at once; False if the connection is closed (ConnectionOwner)."""
        connection.buffer(command)
        return connection.flush() > 0

    def deliver(
        self, connection: Connection, requests: Sequence[RemotingCommand], size_bytes: int
    ) -> None:
        """Execute the requests of the other end (ConnectionOwner)."""
        for request in requests:
            if self._on_request is None:
                self._respond(connection, request, refusals.unsupported(request))
            elif len(self._executing) >= EXECUTING_MAX:
                waiting_count = len(self._executing)
                refusal = refusals.overloaded(request, waited_ms=0, waiting_count=waiting_count)
                self._respond(connection, request, refusal)
            else:
                executing = self._execute(self._on_request, connection, request)
                task = run_once(executing, partial(self._refuse, connection, request))
                self._executing.add(task)
                task.add_done_callback(self._executing.discard)

    async def _execute(
        self, on_request: OnRequest, connection: Connection, request: RemotingCommand
    ) -> None:
        response = await on_request(connection.peer.address, request)
        if response is not None:
            self._respond(connection, request, response)

    def _refuse(self, connection: Connection, request: RemotingCommand, error: Exception) -> None:
        self._respond(connection, request, refusals.failed(request, error))

    def _respond(
        self, connection: Connection, request: RemotingCommand, response: RemotingCommand
    ) -> None:
        if not request.flag & ONEWAY_FLAG:
            self.send(connection, response)

    async def close(self) -> None:
        """Close every connection; requests that wait end with SendFailed."""
        self._running_loop()
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        tasks: list[asyncio.Future[Any]] = [*self._connecting.values(), *self._executing]
        for task in tasks:
            task.cancel()
        connections = self._connections.values()
        await close_all(connections, CloseReason.REQUESTED, seconds_max=TLS_CLOSE_SECONDS_MAX)
