"""Connection: one socket. Bytes in become requests for its owner; commands out become few writes.

An asyncio.Protocol, the same for a connection that the server accepted and for one that the client
made. Its owner is the Server or the RemotingClient. It is also the Channel that handlers see. It
knows no request code and holds no rule about messages.

The memory of an accepted connection is bounded. The lanes bound the requests that wait: when they
are crowded, the connection is not read. ``write_buffer_bytes_max`` bounds the responses that the
peer has not read. The frame limit of protocol.frame bounds an unfinished frame.

A hundred connections may have thousands of requests ready at once. A chunk that its owner puts off
is kept undecoded, and no more is read until ``resume_decoding``.

Invariants:
    - after ``connection_lost`` nothing is written, and ``closed`` stays true.
    - reading is paused exactly while ``_paused_by`` is not 0.

Source: org.apache.rocketmq.remoting.netty.{NettyDecoder, NettyEncoder, NettyServerHandler,
NettyClientHandler} (4.9.3).
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from itertools import count
from typing import Protocol, TypeAlias, cast

from wakelog.network.activity import Activity, CloseReason
from wakelog.network.call_transport import LOOPBACK
from wakelog.network.direct_waiter import DirectWaiter
from wakelog.network.errors import SendFailed
from wakelog.network.limits import ServerLimits
from wakelog.network.peer import Peer, Waiter
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.frame import BodyBytesMax, encode_frame_head

PAUSED_BY_LANE = 0x1
PAUSED_BY_WRITES = 0x2
PAUSED_BY_TURN = 0x4
PAUSED_BY_ORDER = 0x8
PAUSED_BY_REST = 0x10

DEFERRED_BYTES_MIN = 4_096
"""A shorter chunk is decoded at once: its few requests do not wait for the many of others. A
message of 1 KiB is one."""

RESUMED_BYTES = 16_384
"""What is decoded at once of a deferred chunk; then the chunks of others come first."""

WRITE_NOTED_BYTES_MIN = 64 * 1024
"""Smaller writes to a peer that reads are not reported to the owner: they leave at once."""

BODY_BYTES_COPIED_MAX = 64 * 1024
"""Below it joining parts is cheaper than giving them to the transport one by one."""

READ_BYTES_MAX = 64 * 1024
"""Of one read by a connection that was made. The rest of a longer frame is read to its place."""

CLOSE_POLL_SECONDS = 0.001
"""How often connections that are being closed are checked."""

PEER = CloseReason.PEER  # an attribute of an Enum takes 50 ns, for each chunk

_ids = count(1)


class ConnectionOwner(Protocol):
    """What a connection needs of the server or the client that it belongs to."""

    def opened(self, connection: "Connection") -> CloseReason | None:
        """Add a connection, or return why it has to be closed at once."""
        ...

    def deliver(
        self, connection: "Connection", requests: Sequence[RemotingCommand], size_bytes: int
    ) -> None:
        """Accept the requests that one chunk completed; ``requests`` is not empty."""
        ...

    def send(self, connection: "Connection", command: RemotingCommand) -> bool:
        """Write a request of this end, or a refusal; False if the connection is closed."""
        ...

    def closed(self, connection: "Connection", reason: CloseReason, detail: str) -> None:
        """Remove a connection."""
        ...

    def defers(self, connection: "Connection") -> bool:
        """Return whether a chunk is to be kept; the owner calls ``resume_decoding`` later then."""
        ...

    def on_held(self, size_bytes: int) -> None:
        """Note that a connection may hold so much more: of a frame, or of unread responses."""
        ...


AnswersAlone: TypeAlias = Callable[["Connection", bytes | memoryview], bool]
"""Answers what a chunk asks, and returns True, or leaves it to `ConnectionOwner.deliver`."""


class Connection(asyncio.Protocol):
    """One socket, accepted or made."""

    # Constant after connection_made.
    id: int
    remote_host: str
    remote_port: int
    local_host: str
    has_socket: bool  # and so the loop can poll it: calls of an actor have threads of their own
    _transport: asyncio.Transport

    def __init__(
        self,
        owner: ConnectionOwner,
        limits: ServerLimits,
        *,
        refused_codes: Collection[int] = (),
        clock_seconds: Callable[[], float] = time.monotonic,
        address: str = "",
        body_bytes_max: BodyBytesMax | None = None,
        gathers_sends: bool = False,
        answers_alone: AnswersAlone | None = None,
        has_room: bool = False,
    ) -> None:
        """Wait for the transport.

        refused_codes: requests that the port does not serve.
        body_bytes_max: a request with a longer body comes without it.
        gathers_sends: plain sends that come together come as a SendRun.
        answers_alone: is asked first about each chunk that may be one whole request.
        has_room: the body of a long response is a view of its frame.
        address: the peer, as the caller of a client wrote it; empty for an accepted connection.

        deferred_seconds: since when a chunk is kept undecoded; 0 while none is.
        """
        self.id = next(_ids)
        self.remote_host = self.local_host = ""
        self.remote_port = 0
        self.refused_codes = refused_codes
        self.waiting_count = 0
        self.closed = False
        self.activity = Activity.begin(clock_seconds())
        self.peer = Peer(
            address,
            waiting_max=limits.requests_waiting_max,
            body_bytes_max=body_bytes_max,
            gathers_sends=gathers_sends,
            has_room=has_room,
        )
        self.handshake: asyncio.Task[None] | None = None
        self._owner = owner
        self._answers_alone = answers_alone
        self._limits = limits
        self._clock_seconds = clock_seconds
        self._close_reason = CloseReason.PEER
        self._close_detail = ""
        self._paused_by = 0
        self._responses_count = 0
        self._undelivered_bytes = 0
        self._deferred: list[memoryview] = []
        self.deferred_seconds = 0.0
        self._parts: list[bytes] = []
        self._written_bytes = 0

    @property
    def address(self) -> str:
        """Address of the peer as logs write it."""
        return self.peer.address

    @property
    def is_open(self) -> bool:
        """Whether something can be sent."""
        return not (self.closed or self._transport.is_closing())

    @property
    def peer_certificate(self) -> bytes:
        """The certificate that the peer gave, as DER; empty without TLS."""
        tls = self._transport.get_extra_info("ssl_object")
        return b"" if tls is None else tls.getpeercert(binary_form=True) or b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read the peer's address and ask the owner whether the connection may stay."""
        self._transport = cast(asyncio.Transport, transport)
        self.remote_host, self.remote_port = _address(transport, "peername")
        self.local_host, _ = _address(transport, "sockname")
        self.has_socket = transport.get_extra_info("socket") is not None
        self.peer.address = self.peer.address or f"{self.remote_host}:{self.remote_port}"
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes_high)
        reason = self._owner.opened(self)
        if reason is not None:
            self.abort(reason)

    def use_transport(self, transport: asyncio.Transport) -> None:
        """Write to a TLS transport from now on; nothing was written before the handshake."""
        assert not self._written_bytes
        self.handshake = None
        self._transport = transport
        transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes_high)

    def data_received(self, data: bytes | memoryview) -> None:
        """Decode a chunk and deliver the requests that it completed, or keep it for later."""
        if (
            self._answers_alone is not None
            and not (self._deferred or self.peer.decoder.is_in_frame)
            and self._close_reason is PEER
            and self._answers_alone(self, data)
        ):
            return
        if self._deferred or (len(data) >= DEFERRED_BYTES_MIN and self._owner.defers(self)):
            if not self._deferred:
                self.deferred_seconds = self._clock_seconds()
                self.pause_reading(PAUSED_BY_TURN)
            self._deferred.append(memoryview(bytes(data)))
            self._owner.on_held(len(data))
        else:
            self._receive(data)

    def resume_decoding(self) -> bool:
        """Decode a piece of what was deferred; after the last one read again and return False."""
        if self._deferred:
            chunk = self._deferred.pop(0)
            if len(chunk) > RESUMED_BYTES:
                self._deferred.insert(0, chunk[RESUMED_BYTES:])
            self._receive(chunk[:RESUMED_BYTES])
        if self._deferred:
            return True
        self.deferred_seconds = 0.0
        self.resume_reading(PAUSED_BY_TURN)
        return False

    def _receive(self, data: bytes | memoryview) -> None:
        if self._close_reason is not PEER:
            return
        activity, peer = self.activity, self.peer
        activity.read_seconds = self._clock_seconds()
        self._undelivered_bytes += len(data)
        requests = peer.receive(data)
        refusals = peer.decoder.refusals
        if refusals:
            peer.decoder.refusals = []
            self._undelivered_bytes = 0
            activity.frame_begun_seconds = None
            for refusal in refusals:
                self._owner.send(self, refusal)
        if requests or peer.responses_count != self._responses_count:
            self._responses_count = peer.responses_count
            activity.frame_begun_seconds = None
        if requests:
            size_bytes, self._undelivered_bytes = self._undelivered_bytes, 0
            self._owner.deliver(self, requests, size_bytes)
        else:
            self._owner.on_held(len(data))
        if peer.error is not None:
            self.close(CloseReason.BAD_FRAME, peer.error.remark)
        elif peer.decoder.is_in_frame:
            activity.on_unfinished(len(data), self._limits)

    async def request(self, command: RemotingCommand) -> RemotingCommand:
        """Send a request and return its response, whatever its code; wait until cancelled.

        Raises: SendFailed, TooManyCalls.
        """
        waiter: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        opaque = self.begin_request(command, waiter)
        try:
            return await waiter
        finally:
            self.peer.end_request(opaque)

    def begin_request(self, command: RemotingCommand, waiter: Waiter) -> int:
        """Send a request; return its number, by which `peer.end_request` ends the wait.

        Raises: SendFailed, TooManyCalls, and then nobody waits.
        """
        # A caller may send one command to several peers: each gives it a number of its own.
        opaque = self.peer.begin_request(command, waiter)
        is_sent = False
        try:
            is_sent = self.is_open and self._owner.send(self, command)
            if not is_sent:
                raise SendFailed(self.address, "the connection is closed")
            return opaque
        finally:
            if not is_sent:
                self.peer.end_request(opaque)

    def buffer(self, command: RemotingCommand) -> bool:
        """Encode a command for ``flush``; True if it is the first since the last ``flush``.

        Raises: LocalProtocolError, and then nothing was added.
        """
        parts, body = self._parts, command.body
        is_first, body_bytes = not parts, len(body)
        head = encode_frame_head(command, body_bytes)
        if body_bytes < BODY_BYTES_COPIED_MAX:
            parts.append(head + body)
        else:
            parts += (head, body)
        return is_first

    def buffer_frames(self, frames: bytes) -> bool:
        """Keep encoded frames for `flush`, as `buffer` does."""
        is_first = not self._parts
        self._parts.append(frames)
        return is_first

    def flush(self, frames: bytes = b"") -> int:
        """Write the buffered commands in one call, and return how many bytes they have.

        frames: encoded ones that follow.
        """
        parts, self._parts = self._parts, []
        if frames:
            parts.append(frames)
        transport = self._transport
        if self.closed or transport.is_closing():
            return 0
        size_bytes = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        buffered_bytes = transport.get_write_buffer_size()
        if buffered_bytes + size_bytes > self._limits.write_buffer_bytes_max:
            self.abort(CloseReason.WRITE_BUFFER, f"{buffered_bytes} bytes not taken")
            return 0
        if buffered_bytes or size_bytes >= WRITE_NOTED_BYTES_MIN:
            self._owner.on_held(size_bytes)
        self.activity.written_seconds = self._clock_seconds()
        self._written_bytes += size_bytes
        if len(parts) == 1:
            transport.write(parts[0])
        elif size_bytes < BODY_BYTES_COPIED_MAX:
            transport.write(b"".join(parts))
        else:
            self._write_long(parts)
        return size_bytes

    def _write_long(self, parts: Sequence[bytes]) -> None:
        """Write parts that are long together."""
        self._transport.writelines(parts)

    @property
    def held_bytes(self) -> int:
        """How much it holds: responses that the peer has not read, and an unfinished frame."""
        if not self.is_open:
            return 0
        unread_bytes = self.peer.decoder.buffered_bytes + sum(map(len, self._deferred))
        return self._transport.get_write_buffer_size() + unread_bytes

    def observe(self, now_seconds: float) -> None:
        """Note how much of its responses the peer has read, for ``verdict``."""
        left_bytes = self._transport.get_write_buffer_size()
        if self._paused_by and self.activity.frame_begun_seconds is not None:
            # The rest of a frame cannot arrive while reading is paused: its time starts again.
            self.activity.frame_begun_seconds = now_seconds
        self.activity.on_drained(
            self._written_bytes - left_bytes, left_bytes=left_bytes, now_seconds=now_seconds
        )

    def pause_writing(self) -> None:
        """Stop reading: the peer does not read its responses."""
        self.pause_reading(PAUSED_BY_WRITES)

    def resume_writing(self) -> None:
        """Read again: the peer has read its responses."""
        self.resume_reading(PAUSED_BY_WRITES)

    def is_paused(self, by: int) -> bool:
        """Return whether one of the reasons PAUSED_BY_... holds."""
        return self._paused_by & by != 0

    def pause_reading(self, by: int) -> None:
        """Stop reading for one of the reasons PAUSED_BY_..."""
        if not self._paused_by and self.is_open:
            self._transport.pause_reading()
        self._paused_by |= by

    def resume_reading(self, by: int) -> None:
        """Read again if no reason is left."""
        was_paused = self._paused_by
        self._paused_by &= ~by
        if was_paused and not self._paused_by and self.is_open:
            self._transport.resume_reading()

    def close(self, reason: CloseReason, detail: str = "") -> None:
        """Stop reading, write the buffered commands, then close."""
        if not self.is_open:
            return
        self._close_reason = reason
        self._close_detail = detail
        if self._parts:
            self.flush()
        self._transport.close()
        if self.handshake is not None:
            self.handshake.cancel()
        self._lose()

    def abort(self, reason: CloseReason, detail: str = "") -> None:
        """Close at once; buffered commands are lost."""
        if self.closed:
            return
        if self._close_reason is CloseReason.PEER:
            self._close_reason = reason
            self._close_detail = detail
        self._parts.clear()
        self._transport.abort()
        if self.handshake is not None:
            self.handshake.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end to the owner; the transport calls this exactly once."""
        self.closed = True
        self._parts = []
        self._deferred = []
        self._close_detail = self._close_detail or (repr(exc) if exc is not None else "")
        self._lose()
        self._owner.closed(self, self._close_reason, self._close_detail)

    def _lose(self) -> None:
        """Fail the requests of this end that wait for a response."""
        if not self.peer.waiting_count:
            return
        reason = {
            CloseReason.PEER: "the connection was lost",
            CloseReason.BAD_FRAME: "it sent a bad frame",
        }.get(self._close_reason, "the connection was closed")
        detail = f": {self._close_detail}" if self._close_detail else ""
        self.peer.lose(reason + detail)


def _address(transport: asyncio.BaseTransport, end: str) -> tuple[str, int]:
    """Return host and port of an end, `peername` or `sockname`; "" and 0 if it is unknown.

    A dual-stack socket reports IPv4 addresses in their IPv6 form; stored born hosts are IPv4.
    The ends of a local socket have no address.
    """
    found = transport.get_extra_info(end)
    host, port, *_ = LOOPBACK if isinstance(found, str | bytes) else found or ("", 0)
    return str(host).removeprefix("::ffff:"), int(port)


class ReadBuffer:
    """Where the connections of one loop read, one after the other.

    A loop fills it and has it decoded in one step, with TLS, too. So it holds nothing in between.
    """

    @cached_property
    def view(self) -> memoryview:
        """The buffer, made at the first read."""
        return memoryview(bytearray(READ_BYTES_MAX))


class BufferedConnection(Connection, asyncio.BufferedProtocol):
    """A connection that was made. It reads into the buffer of its client, or into a long frame.

    A loop of asyncio asks for 256 KiB at each read of a Protocol, and malloc maps that anew: it
    costs more than the read. A loop of uvloop has a buffer, so that servers need none here.
    """

    def __init__(
        self, owner: ConnectionOwner, limits: ServerLimits, read_buffer: ReadBuffer, address: str
    ) -> None:
        """Wait for the transport; other connections of the loop may have the same buffer."""
        super().__init__(owner, limits, address=address, has_room=True)
        self._read_buffer = read_buffer
        self.resumed_by_read: DirectWaiter | None = None

    def _write_long(self, parts: Sequence[bytes]) -> None:
        """Write a long part as a view: a loop of asyncio would copy all parts into one first.

        Its begin goes with what stands before it, so that no header is a packet by itself.
        """
        joined: list[bytes] = []
        for part in parts:
            joined.append(part[:BODY_BYTES_COPIED_MAX])
            if len(part) > BODY_BYTES_COPIED_MAX:
                self._transport.write(b"".join(joined))
                self._transport.write(memoryview(part)[BODY_BYTES_COPIED_MAX:])
                joined.clear()
        if joined:
            self._transport.write(b"".join(joined))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go: those before were decoded."""
        return self.peer.decoder.room or self._read_buffer.view

    def buffer_updated(self, nbytes: int) -> None:
        """Decode what was read; a loop of uvloop calls `data_received` itself."""
        self.data_received(self.get_buffer(nbytes)[:nbytes])

    def data_received(self, data: bytes | memoryview) -> None:
        """Decode what was read, and go on with the caller whose response was in it."""
        super().data_received(data)
        waiter = self.resumed_by_read
        if waiter is not None and waiter.response is not None:
            self.resumed_by_read = None
            waiter.resume()


async def close_all(
    connections: Iterable[Connection], reason: CloseReason, *, seconds_max: float
) -> None:
    """Close connections and wait for their ends; abort the rest after ``seconds_max``."""
    closing = list(connections)
    for connection in closing:
        connection.close(reason)
    try:
        async with asyncio.timeout(seconds_max):
            await _wait_closed(closing)
    except TimeoutError:
        for connection in closing:
            connection.abort(reason)
        await _wait_closed(closing)


async def _wait_closed(connections: Iterable[Connection]) -> None:
    # Transports report their end in the next turn of the loop, at the earliest.
    await asyncio.sleep(0)
    while not all(connection.closed for connection in connections):
        await asyncio.sleep(CLOSE_POLL_SECONDS)
