"""Connection: one socket. Bytes in become commands for the server, answers one write a turn.

An asyncio.Protocol of which the server makes one for each accepted socket. It is also the Channel
that handlers see. It knows no request code and holds no rule about messages.

Memory of one connection is bounded on both sides: what it sent and nobody processed is bounded by
the lanes, which stop its reading; what it asked for and does not take is bounded by
``write_buffer_bytes_max``; an unfinished frame by the frame limit of protocol.frame.

Invariants:
    - after ``connection_lost`` nothing is written, and ``closed`` is true for ever.
    - reading is paused exactly while ``_paused_by`` is not 0.

Source: org.apache.rocketmq.remoting.netty.NettyDecoder, NettyEncoder, NettyServerHandler (4.9.3).
"""

import asyncio
from collections.abc import Callable, Collection
from itertools import count
from typing import Protocol, cast

from wakelog.network.idle import Activity, CloseReason
from wakelog.network.limits import ServerLimits
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.frame import FrameDecoder, encode_frame, encode_frame_head

PAUSED_BY_LANE = 0x1
PAUSED_BY_WRITES = 0x2

BODY_BYTES_COPIED_MAX = 64 * 1024
"""Below it joining parts is cheaper than handing them to the transport one by one."""

_ids = count(1)


class ConnectionOwner(Protocol):
    """What a connection tells its server."""

    def opened(self, connection: "Connection") -> CloseReason | None:
        """Take in a connection, or say why it has to go at once."""
        ...

    def deliver(
        self, connection: "Connection", commands: list[RemotingCommand], size_bytes: int
    ) -> None:
        """Take the commands of one chunk; ``commands`` is not empty."""
        ...

    def push_to(self, connection: "Connection", command: RemotingCommand) -> bool:
        """Send a request of ours."""
        ...

    def closed(self, connection: "Connection", reason: CloseReason, detail: str) -> None:
        """Forget a connection."""
        ...


class Connection(asyncio.Protocol):
    """One accepted socket."""

    # Constant after connection_made.
    id: int
    remote_host: str
    remote_port: int

    def __init__(
        self,
        owner: ConnectionOwner,
        limits: ServerLimits,
        *,
        refused_codes: Collection[int],
        clock_seconds: Callable[[], float],
    ) -> None:
        """Wait for its transport; ``refused_codes`` are those its port does not serve."""
        self.id = next(_ids)
        self.remote_host = ""
        self.remote_port = 0
        self.refused_codes = refused_codes
        self.waiting_count = 0
        self.closed = False
        self.activity = Activity.begin(clock_seconds())
        self._owner = owner
        self._limits = limits
        self._clock_seconds = clock_seconds
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._close_reason = CloseReason.PEER
        self._close_detail = ""
        self._paused_by = 0
        self._unbilled_bytes = 0
        self._parts: list[bytes] = []
        self._written_bytes = 0

    @property
    def peer(self) -> str:
        """Address of the peer as logs write it."""
        return f"{self.remote_host}:{self.remote_port}"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Learn the peer and ask the server whether it may stay."""
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername") or ("", 0)
        # A dual-stack socket reports IPv4 peers in their IPv6 form; stored born hosts are IPv4.
        self.remote_host = str(address[0]).removeprefix("::ffff:")
        self.remote_port = int(address[1])
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes_high)
        reason = self._owner.opened(self)
        if reason is not None:
            self.abort(reason)

    def data_received(self, data: bytes) -> None:
        """Decode a chunk and hand on what it completed."""
        if self._close_reason is not CloseReason.PEER:
            return
        activity = self.activity
        activity.read_seconds = self._clock_seconds()
        self._unbilled_bytes += len(data)
        error = None
        try:
            commands = self._decoder.feed(data)
        except RemoteProtocolError as raised:
            commands, error = self._decoder.preceding, raised
        if commands:
            size_bytes, self._unbilled_bytes = self._unbilled_bytes, 0
            activity.frame_begun_seconds = None
            self._owner.deliver(self, commands, size_bytes)
        if error is not None:
            self.close(CloseReason.BAD_FRAME, error.remark)
            return
        if activity.frame_begun_seconds is None and self._decoder.buffered_bytes:
            activity.frame_begun_seconds = activity.read_seconds

    def buffer(self, command: RemotingCommand) -> bool:
        """Encode a command for ``flush``; True if it is the first since the last one.

        Raises: LocalProtocolError, and then nothing was gathered.
        """
        parts = self._parts
        is_first = not parts
        if len(command.body) < BODY_BYTES_COPIED_MAX:
            parts.append(encode_frame(command))
        else:
            parts += (encode_frame_head(command, len(command.body)), command.body)
        return is_first

    def flush(self) -> int:
        """Write what was gathered, in one call, and return its bytes."""
        parts, self._parts = self._parts, []
        transport = self._transport
        if self.closed or transport is None or transport.is_closing():
            return 0
        size_bytes = sum(map(len, parts))
        buffered_bytes = transport.get_write_buffer_size()
        if buffered_bytes + size_bytes > self._limits.write_buffer_bytes_max:
            self.abort(CloseReason.WRITE_BUFFER, f"{buffered_bytes} bytes not taken")
            return 0
        self.activity.written_seconds = self._clock_seconds()
        self._written_bytes += size_bytes
        if len(parts) == 1:
            transport.write(parts[0])
        elif size_bytes < BODY_BYTES_COPIED_MAX:
            transport.write(b"".join(parts))
        else:
            transport.writelines(parts)
        return size_bytes

    def push(self, command: RemotingCommand) -> bool:
        """Send a request of ours at the end of this turn; False if the connection is gone."""
        return self._owner.push_to(self, command)

    def observe(self, now_seconds: float) -> None:
        """Note how much of its answers the peer has taken, for ``idle.verdict``."""
        assert self._transport is not None
        left_bytes = self._transport.get_write_buffer_size()
        if self._paused_by and self.activity.frame_begun_seconds is not None:
            # The rest of a frame cannot come while nobody reads: its time starts again.
            self.activity.frame_begun_seconds = now_seconds
        self.activity.note_drained(
            self._written_bytes - left_bytes, left_bytes=left_bytes, now_seconds=now_seconds
        )

    def pause_writing(self) -> None:
        """Stop reading: the peer does not take its answers."""
        self._pause(PAUSED_BY_WRITES)

    def resume_writing(self) -> None:
        """Read again: the peer took its answers."""
        self._resume(PAUSED_BY_WRITES)

    def pause_for_lane(self) -> None:
        """Stop reading: a lane has enough to do."""
        self._pause(PAUSED_BY_LANE)

    def resume_for_lane(self) -> None:
        """Read again: the lane has room."""
        self._resume(PAUSED_BY_LANE)

    def _pause(self, by: int) -> None:
        if not self._paused_by and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._paused_by |= by

    def _resume(self, by: int) -> None:
        if not self._paused_by & by:
            return
        self._paused_by &= ~by
        if self._paused_by or self._transport is None or self._transport.is_closing():
            return
        self._transport.resume_reading()

    def close(self, reason: CloseReason, detail: str = "") -> None:
        """Read no more, write what was gathered, then close."""
        if self.closed or self._transport is None or self._transport.is_closing():
            return
        self._close_reason = reason
        self._close_detail = detail
        if self._parts:
            self.flush()
        self._transport.close()

    def abort(self, reason: CloseReason, detail: str = "") -> None:
        """Close at once; what is buffered is lost."""
        if self.closed or self._transport is None:
            return
        if self._close_reason is CloseReason.PEER:
            self._close_reason = reason
            self._close_detail = detail
        self._parts.clear()
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the server; the transport calls this exactly once."""
        self.closed = True
        self._parts = []
        detail = self._close_detail or (repr(exc) if exc is not None else "")
        self._owner.closed(self, self._close_reason, detail)
