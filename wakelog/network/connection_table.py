"""Which connections may stay: caps when one opens, times while it is open, counts of both.

The caps are on all connections and on those of one host, so that one host cannot use up the
descriptors. A connection above a cap is accepted and closed at once. If it stayed in the backlog,
its client would see a slow broker. The server's sweep asks ``verdict`` about each open connection:

| verdict | when |
| --- | --- |
| WRITE_STALL | responses wait, and the peer read no byte of them for ``write_stall_seconds_max`` |
| SLOW_FRAME | a frame was begun, and not finished for ``frame_seconds_max`` |
| IDLE | nothing read and nothing written for ``idle_seconds_max`` |

When all connections together hold too much, ``largest_holders`` says which of them to close.

Invariants:
    - ``len(table) <= connections_max``, and no host has more than its share.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingServer, IdleStateHandler of
serverChannelMaxIdleTimeSeconds (4.9.3); the other rules are ours.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from wakelog.network.limits import ServerLimits

if TYPE_CHECKING:  # a connection asks the table
    from wakelog.network.connection import Connection


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

    ``frame_begun_seconds`` is set while the rest of a frame is missing. It moves on while the
    server itself does not read. ``drained_bytes`` is what the kernel has sent.
    """

    read_seconds: float
    written_seconds: float
    drained_seconds: float
    frame_begun_seconds: float | None
    drained_bytes: int = 0

    @classmethod
    def begin(cls, now_seconds: float) -> "Activity":
        """Return the activity of a connection that opens now."""
        return cls(now_seconds, now_seconds, now_seconds, None)

    def note_drained(self, drained_bytes: int, *, left_bytes: int, now_seconds: float) -> None:
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


def largest_holders(held_bytes: Sequence[int], bytes_max: int) -> list[int]:
    """Return the places of those that hold most, if all together hold more than `bytes_max`.

    Without them the others hold at most three quarters of it.
    """
    left_bytes = sum(held_bytes)
    if left_bytes <= bytes_max:
        return []
    places = []
    for place in sorted(range(len(held_bytes)), key=held_bytes.__getitem__, reverse=True):
        places.append(place)
        left_bytes -= held_bytes[place]
        if left_bytes <= bytes_max * 3 // 4:
            break
    return places


class ConnectionStatistics(msgspec.Struct, frozen=True):
    """Connections now, since the start, and how the closed ones ended."""

    open_count: int
    connections_max: int
    accepted_count: int
    closed_count: dict[str, int]


class ConnectionTable:
    """The open connections of one server."""

    def __init__(self, *, connections_max: int, connections_per_host_max: int) -> None:
        """Start empty."""
        self._connections_max = connections_max
        self._per_host_max = connections_per_host_max
        self._connections: dict[int, Connection] = {}
        self._count_of_host: dict[str, int] = {}
        self._accepted_count = 0
        self._closed_count = {reason.value: 0 for reason in CloseReason}

    def __len__(self) -> int:
        """Count the open connections."""
        return len(self._connections)

    def __iter__(self) -> Iterator["Connection"]:
        """Iterate over a copy, because a connection that is closed removes itself."""
        return iter(tuple(self._connections.values()))

    def get(self, connection_id: int) -> "Connection | None":
        """Return a connection by its number."""
        return self._connections.get(connection_id)

    def add(self, connection: "Connection") -> CloseReason | None:
        """Add a new connection, or return why it may not stay."""
        from_host = self._count_of_host.get(connection.remote_host, 0)
        self._accepted_count += 1
        if len(self._connections) >= self._connections_max:
            return CloseReason.TOO_MANY
        if from_host >= self._per_host_max:
            return CloseReason.TOO_MANY_FROM_HOST
        self._connections[connection.id] = connection
        self._count_of_host[connection.remote_host] = from_host + 1
        return None

    def remove(self, connection: "Connection", reason: CloseReason) -> bool:
        """Remove a connection; False if it was never added."""
        self._closed_count[reason.value] += 1
        if self._connections.pop(connection.id, None) is None:
            return False
        left = self._count_of_host[connection.remote_host] - 1
        if left:
            self._count_of_host[connection.remote_host] = left
        else:
            del self._count_of_host[connection.remote_host]
        return True

    def statistics(self) -> ConnectionStatistics:
        """Return the counts as a value."""
        return ConnectionStatistics(
            open_count=len(self._connections),
            connections_max=self._connections_max,
            accepted_count=self._accepted_count,
            closed_count=dict(self._closed_count),
        )

    def validate(self) -> None:
        """Assert the invariants; tests call it."""
        assert len(self._connections) <= self._connections_max
        assert sum(self._count_of_host.values()) == len(self._connections)
        assert all(0 < count <= self._per_host_max for count in self._count_of_host.values())
