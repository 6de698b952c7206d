"""HeldRequests: the pull requests that wait in the Broker while PullHold watches their queues.

A request is added when a pull found nothing and may wait, taken out when it is woken, and put back
under its old id and deadline when the wake was in vain. Ids are never used twice, so a wake that
comes late, or from a PullHold of before, finds nothing and does nothing.

Invariants:
    - ``hold`` keeps at most ``holds_max`` requests; one more is answered at once instead. What
      ``put_back`` returns had its place before.
    - ``_by_channel`` has exactly the ids of ``_held``, each under its own channel.

Source: org.apache.rocketmq.broker.longpolling.{PullRequest, ManyPullRequest} (4.9.3).
"""

import msgspec

from wakelog.broker.decision import Channel, HoldPull
from wakelog.broker.pull_hold import HOLDS_MAX
from wakelog.protocol.command import RemotingCommand


class HeldRequest(msgspec.Struct, frozen=True):
    """One waiting pull: who asked, what, since when, and what was told to PullHold."""

    request: RemotingCommand
    channel: Channel
    note: HoldPull
    held_ms: int

    def is_over(self, now_ms: int, grace_ms: int = 0) -> bool:
        """Tell whether it has waited for long enough.

        A time before it was held is that of a clock that was set back since: who waits for the
        deadline then waits for so much longer.
        """
        return not self.held_ms <= now_ms < self.note.deadline_ms + grace_ms


class HeldRequests:
    """Waiting pulls by hold id and by connection."""

    def __init__(self, holds_max: int = HOLDS_MAX) -> None:
        """Start with nobody waiting."""
        self._holds_max = holds_max
        self._held: dict[int, HeldRequest] = {}
        self._by_channel: dict[int, set[int]] = {}
        self._next_id = 1

    def __len__(self) -> int:
        """Return how many requests wait."""
        return len(self._held)

    def hold(
        self,
        request: RemotingCommand,
        channel: Channel,
        *,
        topic: str,
        queue_id: int,
        queue_offset: int,
        held_ms: int,
        deadline_ms: int,
        codes: frozenset[int] | None,
    ) -> HoldPull | None:
        """Keep a request and return the note for PullHold, or None when too many wait already."""
        if len(self._held) >= self._holds_max:
            return None
        note = HoldPull(self._next_id, topic, queue_id, queue_offset, deadline_ms, codes)
        self._next_id += 1
        self._add(HeldRequest(request, channel, note, held_ms))
        return note

    def put_back(self, held: HeldRequest, *, queue_offset: int | None = None) -> HoldPull:
        """Keep a request that was woken in vain; its id and deadline stay what they were.

        queue_offset: behind what it has looked at, if it is to be woken by what comes there.
        """
        if queue_offset is not None:
            note = msgspec.structs.replace(held.note, queue_offset=queue_offset)
            held = msgspec.structs.replace(held, note=note)
        self._add(held)
        return held.note

    def take(self, hold_id: int) -> HeldRequest | None:
        """Remove and return a request, None if it is no longer held."""
        held = self._held.pop(hold_id, None)
        if held is not None:
            ids = self._by_channel[held.channel.id]
            ids.discard(hold_id)
            if not ids:
                del self._by_channel[held.channel.id]
        return held

    def forget_channel(self, channel_id: int) -> tuple[int, ...]:
        """Drop the requests of a connection that is gone; return their ids."""
        ids = tuple(self._by_channel.pop(channel_id, ()))
        for hold_id in ids:
            del self._held[hold_id]
        return ids

    def get(self, hold_id: int) -> HeldRequest | None:
        """Return a request that stays held, None if it is no longer."""
        return self._held.get(hold_id)

    def notes(self) -> list[HoldPull]:
        """Return the note of every held request, oldest first."""
        return [held.note for held in self._held.values()]

    def validate(self) -> None:
        """Assert the invariants of the module."""
        by_channel: dict[int, set[int]] = {}
        for hold_id, held in self._held.items():
            assert hold_id == held.note.hold_id < self._next_id
            by_channel.setdefault(held.channel.id, set()).add(hold_id)
        assert by_channel == self._by_channel

    def _add(self, held: HeldRequest) -> None:
        assert held.note.hold_id not in self._held
        self._held[held.note.hold_id] = held
        self._by_channel.setdefault(held.channel.id, set()).add(held.note.hold_id)
