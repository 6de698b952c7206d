"""When a connection did what, and why it has to end.

The server's sweep asks ``verdict`` about each open connection:

| verdict | when |
| --- | --- |
| WRITE_STALL | responses wait, and the peer read no byte of them for ``write_stall_seconds_max`` |
| SLOW_FRAME | of an unfinished frame no ``frame_bytes_step`` came for ``frame_seconds_max`` |
| IDLE | nothing read and nothing written for ``idle_seconds_max`` |

Source: org.apache.rocketmq.remoting.netty.NettyRemotingServer, IdleStateHandler of
serverChannelMaxIdleTimeSeconds (4.9.3); the other rules are ours.
"""

from dataclasses import dataclass
from enum import StrEnum

from wakelog.network.limits import ServerLimits


class CloseReason(StrEnum):
    """Why a connection ended, for counts and logs."""

    PEER = "peer"
    REQUESTED = "requested"
    BAD_FRAME = "badFrame"
    IDLE = "idle"
    SLOW_FRAME = "slowFrame"
    WRITE_STALL = "writeStall"
    WRITE_BUFFER = "writeBuffer"
    MEMORY = "memory"
    NO_TLS = "noTls"
    TLS_HANDSHAKE = "tlsHandshake"
    TOO_MANY = "tooMany"
    TOO_MANY_FROM_HOST = "tooManyFromHost"
    SERVER_STOPPED = "serverStopped"


@dataclass(slots=True)
class Activity:
    """When a connection did what, in seconds of one monotonic clock.

    ``frame_begun_seconds`` is set while the rest of a frame is missing. It moves on with each
    ``frame_bytes_step`` of the frame, and while the server itself does not read. ``frame_bytes``
    came since then. ``drained_bytes`` is what the kernel has sent. ``oneway_count`` chunks in a
    row, the last one at ``oneway_seconds``, had one-way messages only, and came close together.
    """

    read_seconds: float
    written_seconds: float
    drained_seconds: float
    frame_begun_seconds: float | None
    drained_bytes: int = 0
    frame_bytes: int = 0
    oneway_count: int = 0
    oneway_seconds: float = 0.0

    @classmethod
    def begin(cls, now_seconds: float) -> "Activity":
        """Return the activity of a connection that opens now."""
        return cls(now_seconds, now_seconds, now_seconds, None)

    def on_unfinished(self, size_bytes: int, limits: ServerLimits) -> None:
        """Note bytes that were read now and left a frame unfinished."""
        self.frame_bytes += size_bytes
        if self.frame_begun_seconds is None or self.frame_bytes >= limits.frame_bytes_step:
            self.frame_begun_seconds = self.read_seconds
            self.frame_bytes = 0

    def on_drained(self, drained_bytes: int, *, left_bytes: int, now_seconds: float) -> None:
        """Note how much the kernel has sent; it is progress if it is more, or everything."""
        if drained_bytes > self.drained_bytes or not left_bytes:
            self.drained_bytes = drained_bytes
            self.drained_seconds = now_seconds


def verdict(activity: Activity, now_seconds: float, limits: ServerLimits) -> CloseReason | None:
    """Return why a connection has to be closed now, None if it may stay."""
    if now_seconds - activity.drained_seconds >= limits.write_stall_seconds_max:
        return CloseReason.WRITE_STALL
    begun_seconds = activity.frame_begun_seconds
    if begun_seconds is not None and now_seconds - begun_seconds >= limits.frame_seconds_max:
        return CloseReason.SLOW_FRAME
    last_seconds = max(activity.read_seconds, activity.written_seconds)
    if now_seconds - last_seconds >= limits.idle_seconds_max:
        return CloseReason.IDLE
    return None
