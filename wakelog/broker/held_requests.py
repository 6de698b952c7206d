"""HeldRequests: the pull requests that wait in the Broker while PullHold watches their queues.

Ids are never used twice, so a late wake, or one from an earlier PullHold, finds nothing and does
nothing.

A request that waits keeps its typed header, not the fields that this was decoded from. Pulls of a
group share the texts of their headers. Both make it a third of what it would be.

Invariants:
    - ``hold`` keeps at most ``HOLDS_MAX`` requests, with ``CHARACTERS_MAX`` characters of
      expressions. A request above that gets its response at once. A request that ``put_back``
      returns already had its place.
    - ``_by_channel`` has exactly the ids of ``_held``, each under its own channel.
    - ``_by_topic`` has exactly the ids of ``_held``, each under its own topic.

Source: org.apache.rocketmq.broker.longpolling.{PullRequest, ManyPullRequest} (4.9.3).
"""

from collections.abc import Iterable, Set
from itertools import islice
from sys import intern

import msgspec

from wakelog.broker.decision import HoldPull
from wakelog.network.request import Request
from wakelog.protocol.headers.pull import PullMessageRequestHeader
from wakelog.storage.queue.entries import Arrival

HOLDS_MAX = 100_000  # pullThreadPoolQueueCapacity: the pulls that wait in 4.9.3

CHARACTERS_MAX = 33_554_432
"""Of all expressions. 20,000 pulls by SQL92 have some 2,000,000; one may have 262,144."""

WOKEN_AT_ONCE_MAX = 64
"""Requests of one topic that are looked at for each message. PullHold has them by queue."""

FORGOTTEN_COUNT = 500
"""Requests of a closed connection that are dropped at once: some 0.5 ms."""


class HeldRequest(msgspec.Struct, frozen=True, gc=False):
    """One waiting pull: its request, the note that PullHold has of it, and when its wait began.

    wanted: its filter. Its expression stays compiled as long as a pull keeps it.

    `gc=False` is safe: no field refers back to a held request.
    """

    request: Request[PullMessageRequestHeader]
    note: HoldPull
    held_ms: int
    wanted: object = None

    @property
    def characters_count(self) -> int:
        """The length of its expression; names are those of topics and groups that there are."""
        header = self.request.header
        return len(header.subscription or "") + len(header.expression_type or "")

    def is_over(self, now_ms: int, grace_ms: int = 0) -> bool:
        """Return whether it has waited long enough.

        A time before `held_ms` means that the clock was set back: waiting for the deadline would
        take that much longer.
        """
        return not self.held_ms <= now_ms < self.note.deadline_ms + grace_ms


class HeldRequests:
    """Waiting pulls by hold id and by connection."""

    def __init__(self) -> None:
        self._held: dict[int, HeldRequest] = {}
        self._by_channel: dict[int, set[int]] = {}
        self._by_topic: dict[str, set[int]] = {}
        self._characters_count = 0
        self._next_id = 1

    def __len__(self) -> int:
        """Return how many requests wait."""
        return len(self._held)

    @property
    def next_id(self) -> int:
        """The id of the next request that waits."""
        return self._next_id

    def has_before(self, hold_id: int) -> bool:
        """Return whether a request waits that came before one."""
        return any(each < hold_id for each in self._held)

    def waits_for(self, topics: Set[str]) -> bool:
        """Return whether a request waits for a message of one of these topics."""
        return not self._by_topic.keys().isdisjoint(topics)

    def woken_by(self, arrivals: Iterable[Arrival]) -> list[int] | None:
        """Return the requests that wait for these messages, the longest waiting first.

        None if a topic has so many that to go through them takes too long.
        """
        woken: set[int] = set()
        for arrival in arrivals:
            of_topic = self._by_topic.get(arrival.topic, ())
            if len(of_topic) > WOKEN_AT_ONCE_MAX:
                return None
            for hold_id in of_topic:
                note = self._held[hold_id].note
                if note.queue_id == arrival.queue_id and note.is_woken_by(
                    arrival.next_queue_offset, arrival.tags_code
                ):
                    woken.add(hold_id)
        return sorted(woken)

    def hold(
        self,
        request: Request[PullMessageRequestHeader],
        *,
        held_ms: int,
        deadline_ms: int,
        codes: frozenset[int] | None,
        wanted: object = None,
    ) -> HoldPull | None:
        """Keep a request and return the note for PullHold, or None if too many wait already.

        Its fields are dropped: the header has what is needed of them.
        """
        header = _with_shared_texts(request.header)
        note = HoldPull(
            self._next_id, header.topic, header.queue_id, header.queue_offset, deadline_ms, codes
        )
        held = HeldRequest(request, note, held_ms, wanted)
        characters_count = self._characters_count + held.characters_count
        if len(self._held) >= HOLDS_MAX or characters_count > CHARACTERS_MAX:
            return None
        self._next_id += 1
        request.command.ext_fields, request.header = {}, header
        self._add(held)
        return note

    def put_back(self, held: HeldRequest, *, queue_offset: int | None = None) -> HoldPull:
        """Keep a woken request that found nothing, under its old id and deadline.

        queue_offset: after the messages that its filter refused; None if there were none.
        """
        if queue_offset is not None:
            note = msgspec.structs.replace(held.note, queue_offset=queue_offset)
            held = msgspec.structs.replace(held, note=note)
        self._add(held)
        return held.note

    def remove(self, hold_id: int) -> HeldRequest | None:
        """Remove and return a request, None if it is no longer held."""
        held = self._held.pop(hold_id, None)
        if held is not None:
            ids = self._by_channel[held.request.channel.id]
            ids.discard(hold_id)
            if not ids:
                del self._by_channel[held.request.channel.id]
            of_topic = self._by_topic[held.note.topic]
            of_topic.discard(hold_id)
            if not of_topic:
                del self._by_topic[held.note.topic]
            self._characters_count -= held.characters_count
        return held

    def forget_channel(self, channel_id: int) -> tuple[int, ...]:
        """Drop some requests of a connection that is gone; return their ids."""
        ids = tuple(islice(self._by_channel.get(channel_id, ()), FORGOTTEN_COUNT))
        for hold_id in ids:
            self.remove(hold_id)
        return ids

    def has_channel(self, channel_id: int) -> bool:
        """Return whether requests of a connection are held."""
        return channel_id in self._by_channel

    def get(self, hold_id: int) -> HeldRequest | None:
        """Return a request without removing it, None if it is no longer held."""
        return self._held.get(hold_id)

    def has(self, note: HoldPull) -> bool:
        """Return whether a request waits under this note, and under no later one."""
        held = self._held.get(note.hold_id)
        return held is not None and held.note is note

    def notes(self) -> list[HoldPull]:
        """Return the note of every held request, oldest first."""
        return [held.note for held in self._held.values()]

    def validate(self) -> None:
        """Assert the invariants of the module."""
        by_channel: dict[int, set[int]] = {}
        by_topic: dict[str, set[int]] = {}
        for hold_id, held in self._held.items():
            assert hold_id == held.note.hold_id < self._next_id
            by_channel.setdefault(held.request.channel.id, set()).add(hold_id)
            by_topic.setdefault(held.note.topic, set()).add(hold_id)
        assert self._characters_count == sum(one.characters_count for one in self._held.values())
        assert by_channel == self._by_channel
        assert by_topic == self._by_topic

    def _add(self, held: HeldRequest) -> None:
        assert held.note.hold_id not in self._held
        self._held[held.note.hold_id] = held
        self._by_channel.setdefault(held.request.channel.id, set()).add(held.note.hold_id)
        self._by_topic.setdefault(held.note.topic, set()).add(held.note.hold_id)
        self._characters_count += held.characters_count


def _with_shared_texts(header: PullMessageRequestHeader) -> PullMessageRequestHeader:
    expression, expression_type = header.subscription, header.expression_type
    return msgspec.structs.replace(
        header,
        consumer_group=intern(header.consumer_group),
        topic=intern(header.topic),
        subscription=None if expression is None else intern(expression),
        expression_type=None if expression_type is None else intern(expression_type),
    )
