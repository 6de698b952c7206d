"""Which connections may open, which of them hold too much, and how many there are and were.

The caps are on all connections and on those of one host, so that one host cannot use up the
descriptors. A connection above a cap is accepted and closed at once. If it stayed in the backlog,
its client would see a slow broker.

When all connections together hold too much, ``largest_holders`` says which of them to close.

Invariants:
    - ``len(table) <= connections_max``, and no host has more than its share.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingServer (4.9.3) has no caps; they are ours.
"""

from collections.abc import Iterator, Sequence

import msgspec

from wakelog.network.activity import CloseReason
from wakelog.network.connection import Connection


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

    def __iter__(self) -> Iterator[Connection]:
        """Iterate over a copy, because a connection that is closed removes itself."""
        return iter(tuple(self._connections.values()))

    def get(self, connection_id: int) -> Connection | None:
        """Return a connection by its number."""
        return self._connections.get(connection_id)

    def add(self, connection: Connection) -> CloseReason | None:
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

    def remove(self, connection: Connection, reason: CloseReason) -> bool:
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
