"""ConnectionTable: who is connected, who may connect, and how connections ended.

The caps are on all connections and on those of one host, so that one peer in a loop cannot take the
descriptors of every other. A connection over a cap is accepted and closed at once: left in the
backlog it would look to its client like a slow broker.

Invariants:
    - ``len(table) <= connections_max`` and no host has more than its share.
    - ids are never used twice.
"""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

import msgspec

from wakelog.network.idle import CloseReason


class Member(Protocol):
    """What the table needs of a connection."""

    @property
    def id(self) -> int:
        """Number of the connection."""
        ...

    @property
    def remote_host(self) -> str:
        """Numeric address of the peer."""
        ...


MemberT = TypeVar("MemberT", bound=Member)


class ConnectionStatistics(msgspec.Struct, frozen=True):
    """Connections now, since the start, and how the others ended."""

    open_count: int
    connections_max: int
    accepted_count: int
    closed_count: dict[str, int]


class ConnectionTable(Generic[MemberT]):
    """The open connections of one server."""

    def __init__(self, *, connections_max: int, connections_per_host_max: int) -> None:
        """Start empty."""
        self._connections_max = connections_max
        self._per_host_max = connections_per_host_max
        self._members: dict[int, MemberT] = {}
        self._count_of_host: dict[str, int] = {}
        self._accepted_count = 0
        self._closed_count = dict.fromkeys(CloseReason, 0)

    def __len__(self) -> int:
        """Count the open connections."""
        return len(self._members)

    def __iter__(self) -> Iterator[MemberT]:
        """Iterate over a copy, so that closing may remove while one walks."""
        return iter(tuple(self._members.values()))

    def get(self, connection_id: int) -> MemberT | None:
        """Return a connection by its number."""
        return self._members.get(connection_id)

    def add(self, member: MemberT) -> CloseReason | None:
        """Take in a new connection, or say why it may not stay."""
        from_host = self._count_of_host.get(member.remote_host, 0)
        self._accepted_count += 1
        if len(self._members) >= self._connections_max:
            return CloseReason.TOO_MANY
        if from_host >= self._per_host_max:
            return CloseReason.TOO_MANY_FROM_HOST
        self._members[member.id] = member
        self._count_of_host[member.remote_host] = from_host + 1
        return None

    def remove(self, member: MemberT, reason: CloseReason) -> bool:
        """Forget a connection; False if it was never taken in."""
        self._closed_count[reason] += 1
        if self._members.pop(member.id, None) is None:
            return False
        left = self._count_of_host[member.remote_host] - 1
        if left:
            self._count_of_host[member.remote_host] = left
        else:
            del self._count_of_host[member.remote_host]
        return True

    def statistics(self) -> ConnectionStatistics:
        """Return the counts as a value."""
        return ConnectionStatistics(
            open_count=len(self._members),
            connections_max=self._connections_max,
            accepted_count=self._accepted_count,
            closed_count={reason.value: count for reason, count in self._closed_count.items()},
        )

    def validate(self) -> None:
        """Assert the invariants; tests call it."""
        assert len(self._members) <= self._connections_max
        assert sum(self._count_of_host.values()) == len(self._members)
        assert all(0 < count <= self._per_host_max for count in self._count_of_host.values())
