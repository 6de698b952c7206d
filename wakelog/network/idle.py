"""Idle: which connections have to go, from four times and two counts.

A pure rule between ``connection``, which keeps an Activity, and the server's sweep, which closes
whom a verdict names:

| verdict | when |
| --- | --- |
| WRITE_STALL | answers wait and the peer took none of their bytes for ``write_stall_seconds_max`` |
| SLOW_FRAME | no first frame, or a frame begun and not ended, for ``frame_seconds_max`` |
| IDLE | nothing read and nothing written for ``idle_seconds_max`` |

Source: org.apache.rocketmq.remoting.netty.NettyRemotingServer, IdleStateHandler of
serverChannelMaxIdleTimeSeconds (4.9.3); the first two rules are ours.
"""

from enum import StrEnum

import msgspec

from wakelog.network.limits import ServerLimits


class CloseReason(StrEnum):
    """Why a connection ended, as counted and logged."""

    PEER = "peer"
    REQUESTED = "requested"
    BAD_FRAME = "badFrame"
    IDLE = "idle"
    SLOW_FRAME = "slowFrame"
    WRITE_STALL = "writeStall"
    WRITE_BUFFER = "writeBuffer"
    TOO_MANY = "tooMany"
    TOO_MANY_FROM_HOST = "tooManyFromHost"
    SERVER_STOPPED = "serverStopped"


class Activity(msgspec.Struct):
    """What a connection did and when, in seconds of one monotonic clock.

    ``frame_begun_seconds`` is set while bytes of an incomplete frame are held, and moves on while
    the server itself does not read. ``drained_bytes`` is what the peer's kernel has taken so far.
    """

    opened_seconds: float
    read_seconds: float
    written_seconds: float
    drained_seconds: float
    frame_begun_seconds: float | None
    drained_bytes: int = 0

    @classmethod
    def begin(cls, now_seconds: float) -> "Activity":
        """Return the activity of a connection that opens now and owes its first frame."""
        return cls(now_seconds, now_seconds, now_seconds, now_seconds, now_seconds)

    def note_drained(self, drained_bytes: int, *, left_bytes: int, now_seconds: float) -> None:
        """Note how much the peer has taken, and that it did if it took anything or all."""
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
