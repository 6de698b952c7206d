"""InSync: what one master, in one epoch, knows of the replicas that count.

`members` is the in-sync set as the register has it. A proposed set that is not decided counts as
well: the register may have taken it, or may take it later.

Rules:
- An offset is confirmed once every replica that counts has it durably, this one included.
- Acknowledgements begin at nothing in each epoch, and end with the connection that brought them.
- A proposed set counts until the register's version has moved past the one it was compared with.
  A read that does not show it proves nothing: the request may still be on its way.
- A replica whose connection ends leaves by compare-and-set like any other, so that it may be soon.
- A replica joins when it has what is confirmed, and everything from before the epoch.
- With fewer than `replicas_min` members nothing is stored: code 14.

Source: 5.x's AutoSwitchHAService (org.apache.rocketmq.store.ha.autoswitch).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

BEHIND_MS_MAX: Final = 15_000
"""A replica that has not caught up for so long leaves the set; 5.x's haMaxTimeSlaveNotCatchup."""

ABSENT_MS_MAX: Final = 5_000
"""A replica without a connection leaves sooner, so that sends go on."""

LOST_MS_MAX: Final = 1_000
"""One whose connection has ended leaves before a send gives up (`slaveTimeout`), if enough others
are in the set. One that opens its store again is back by then."""

NOTHING: Final = -1


class _Peer:
    """What is known of one follower.

    durable: what it acknowledged on its connection; NOTHING without one.
    goal: a log end and when it was so: a follower that has it had caught up then.
    lost_ms: when its connection has ended, None while it has one or had none.
    """

    __slots__ = (
        *("acked_ms", "caught_up_ms", "durable", "goal_end", "goal_ms"),
        *("is_seeding", "lost_ms"),
    )

    def __init__(self, now_ms: int) -> None:
        self.durable = NOTHING
        self.acked_ms = self.caught_up_ms = self.goal_ms = now_ms
        self.goal_end = 0
        self.is_seeding = False
        self.lost_ms: int | None = None

    def on_ack(self, durable: int, now_ms: int, *, is_seeding: bool) -> None:
        """Note what it has on a connection that works."""
        self.durable, self.acked_ms, self.is_seeding = durable, now_ms, is_seeding
        self.lost_ms = None

    def on_lost(self, now_ms: int) -> None:
        """Note that its connection has ended."""
        if self.durable != NOTHING:
            self.durable, self.lost_ms = NOTHING, now_ms

    def is_lost_for_long(self, now_ms: int) -> bool:
        """Tell whether its connection has ended long enough ago."""
        return self.lost_ms is not None and now_ms - self.lost_ms > LOST_MS_MAX


class Proposal(NamedTuple):
    """A set that the register was asked for, and the version it was compared with."""

    members: frozenset[int]
    version: str


class InSync:
    """See the module. One object for each epoch of a master."""

    def __init__(
        self,
        own_id: int,
        start: int,
        members: Iterable[int],
        *,
        confirmed: int,
        replicas_min: int,
        now_ms: int,
    ) -> None:
        """Begin an epoch at `start`, the own durable end.

        confirmed: what an earlier master had reported as confirmed.
        """
        self._own_id, self._start, self._replicas_min = own_id, start, replicas_min
        self._own_durable = start
        self.members = frozenset(members)
        assert own_id in self.members, (own_id, members)
        self.proposal: Proposal | None = None
        self._peers = {one: _Peer(now_ms) for one in self.members if one != own_id}
        self.confirmed = min(confirmed, start)
        self._confirm()

    @property
    def counted(self) -> frozenset[int]:
        """The replicas that an acknowledgement waits for."""
        return self.members if self.proposal is None else self.members | self.proposal.members

    @property
    def takes_sends(self) -> bool:
        """Whether there are enough replicas for a message to be stored."""
        proposed = self.members if self.proposal is None else self.proposal.members
        return min(len(self.members), len(proposed)) >= self._replicas_min

    def on_own_durable(self, durable: int) -> bool:
        """Note what is durable here; return whether `confirmed` has moved."""
        self._own_durable = max(self._own_durable, durable)
        return self._confirm()

    def on_ack(self, replica: int, durable: int, now_ms: int, *, is_seeding: bool) -> bool:
        """Note what a follower has on its connection; return whether `confirmed` has moved."""
        peer = self._peers.get(replica)
        if peer is None:
            peer = self._peers[replica] = _Peer(now_ms)
        peer.on_ack(durable, now_ms, is_seeding=is_seeding)
        if durable >= peer.goal_end:
            peer.caught_up_ms = peer.goal_ms
            peer.goal_end, peer.goal_ms = self._own_durable, now_ms
        return self._confirm()

    def on_lost(self, replica: int, now_ms: int) -> None:
        """Note that a follower's connection has ended."""
        peer = self._peers.get(replica)
        if peer is not None:
            peer.on_lost(now_ms)

    def acked_by_all_ms(self, now_ms: int) -> int:
        """Return since when one of the counted has been silent; now for a master alone."""
        others = self.counted - {self._own_id}
        return min((self._peers[one].acked_ms for one in others), default=now_ms)

    def all_have(self, end: int) -> bool:
        """Tell whether all that count have the log up to `end` durably, and may lead."""
        peers = [self._peers[one] for one in self.counted if one != self._own_id]
        has_all = all(peer.durable >= end and not peer.is_seeding for peer in peers)
        return has_all and self._own_durable >= end

    def wanted(self, now_ms: int) -> frozenset[int]:
        """Return the set that the register should have."""
        found = {self._own_id}
        for replica, peer in self._peers.items():
            if replica in self.members:
                is_kept = not (
                    peer.is_seeding
                    or now_ms - peer.caught_up_ms > BEHIND_MS_MAX
                    or (peer.durable == NOTHING and now_ms - peer.acked_ms > ABSENT_MS_MAX)
                )
            else:
                is_near = peer.durable >= max(self.confirmed, self._start)
                is_heard = now_ms - peer.acked_ms <= ABSENT_MS_MAX
                is_kept = is_near and is_heard and not peer.is_seeding
            if is_kept:
                found.add(replica)
        followers = (found & self.members) - {self._own_id}
        lost = {one for one in followers if self._peers[one].is_lost_for_long(now_ms)}
        if len(found - lost) >= self._replicas_min:
            found -= lost
        return frozenset(found)

    def propose(self, members: frozenset[int], version: str) -> None:
        """Count a set from now on that the register is asked for."""
        assert self.proposal is None and self._own_id in members, (self.proposal, members)
        for one in members - self.members:
            assert self._peers[one].durable >= self.confirmed, one
        self.proposal = Proposal(members, version)
        self._confirm()

    def on_register(self, members: frozenset[int], version: str) -> bool:
        """Note what the register has in this epoch; return whether `confirmed` has moved."""
        proposal = self.proposal
        if proposal is not None and version != proposal.version:
            self.proposal = None
        self.members = members
        return self._confirm()

    def _confirm(self) -> bool:
        confirmed = self._own_durable
        peers = self._peers
        for one in self.counted:
            if one != self._own_id and peers[one].durable < confirmed:
                confirmed = peers[one].durable
        if confirmed <= self.confirmed:
            return False
        self.confirmed = confirmed
        return True
