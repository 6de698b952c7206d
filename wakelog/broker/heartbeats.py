"""HeartbeatsUnderWay: what clients leave while heartbeats of theirs are read in steps.

The unregistration of a client is done at once, and a long heartbeat that came before it is still
registering groups. So each heartbeat keeps what its connection has left since it began, and leaves
that again at its end. A group that a later heartbeat has registered is no longer left.

Invariant: of a connection without a heartbeat under way nothing is kept.

Source: none upstream; there a heartbeat and an unregistration run in two threads, in any order.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, TypeAlias

from wakelog.broker.table_limits import table_full

LEFT_MAX: Final = 8_192
"""Groups that one connection leaves while a heartbeat is read: twice what it may have."""


class ClientRole(StrEnum):
    """What a client is in a group."""

    CONSUMER = "consumer"
    PRODUCER = "producer"


Membership: TypeAlias = tuple[ClientRole, str]
"""What a client is, and the group."""


class Heartbeat:
    """One heartbeat that is under way.

    left: what the connection has left since it began, oldest first.
    """

    def __init__(self, channel_id: int) -> None:
        """Nothing is left yet."""
        self.channel_id = channel_id
        self.left: dict[Membership, None] = {}


class HeartbeatsUnderWay:
    """The heartbeats that are under way, by connection."""

    def __init__(self) -> None:
        self._by_channel: dict[int, list[Heartbeat]] = {}

    @contextmanager
    def begin(self, channel_id: int) -> Iterator[Heartbeat]:
        """Keep a heartbeat until the block ends."""
        heartbeat = Heartbeat(channel_id)
        self._by_channel.setdefault(channel_id, []).append(heartbeat)
        try:
            yield heartbeat
        finally:
            others = self._by_channel[channel_id]
            others.remove(heartbeat)
            if not others:
                del self._by_channel[channel_id]

    def on_left(self, channel_id: int, *memberships: Membership) -> None:
        """Note what a connection leaves. Raises: LimitReached; then nothing is noted."""
        heartbeats = self._by_channel.get(channel_id, ())
        if any(len(one.left) + len(memberships) > LEFT_MAX for one in heartbeats):
            raise table_full("groups left during a heartbeat", LEFT_MAX)
        for heartbeat in heartbeats:
            heartbeat.left.update(dict.fromkeys(memberships))

    def on_registered(self, heartbeat: Heartbeat, membership: Membership) -> None:
        """Note what a heartbeat has registered: earlier ones no longer leave it."""
        for earlier in self._by_channel[heartbeat.channel_id]:
            if earlier is heartbeat:
                break
            earlier.left.pop(membership, None)

    def __len__(self) -> int:
        """Return how many are under way."""
        return sum(map(len, self._by_channel.values()))
