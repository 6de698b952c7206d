"""Lanes: bounded queues in which requests wait for a processor, one for each class of requests.

A pure core. ``turn`` offers requests, takes them in an order that is fair by weight, and refuses
those that waited too long. 4.9.3 has a thread pool with a queue for each class. Here one loop
serves all, so this module decides the order.

offer            ACCEPTED   it waits
                 CROWDED    it waits; its owner must not be read until ``relieved`` returns it
                 HELD       it waits; its owner must not be read until it is released
                 REFUSED    the lane is full; the peer gets code 2 [OVERLOAD]
take             the next request: up to ``weight`` of one lane, then the next lane
expire           requests that waited ``wait_seconds_max``; code 2 [TIMEOUT_CLEAN_QUEUE]
hold, release    requests of one owner in a lane wait for one of them that is not done yet

In a lane owners take turns, with one request each: a thousand requests of one connection do not
hold up the next one of another. What stands for several (`SendRun`) is taken whole, and counts as
many. Large requests take turns of their own, one in a round.

Times are seconds of one monotonic clock. ``since_seconds`` of a request is when its bytes could
have been read: the time of the read minus the lag of the loop. So the wait of a request in the
kernel, while the loop was busy, counts as the client sees it.

Invariants:
    - 0 <= waiting_count <= sum of capacities; waiting_bytes >= 0, and 0 when nothing waits. Neither
      counts what is held: its owners are not read, and few are held.
    - requests of one owner in one lane leave in the order in which they came.
    - ``relieved`` returns every owner that got CROWDED, once its lane has room again.

Source: org.apache.rocketmq.broker.latency.BrokerFastFailure, BrokerController (4.9.3).
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Generic, TypeVar

import msgspec

from wakelog.protocol.command import RemotingCommand

Owner = TypeVar("Owner")

WAKE_SHARE = 2
"""Reading resumes when a lane holds half (1/2) of what stopped it, not after each request."""

LARGE_BYTES = 262_144
"""Such a request takes as long as tens of small ones: some milliseconds with 4 MiB."""


class LaneSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One lane: its name and bounds.

    ``weight`` requests are taken in one round. ``crowded_count`` stops the reading of an owner,
    before ``capacity_count`` refuses. ``wait_seconds_max`` None means no limit. A turn spends no
    more time on a lane that ``yields`` than on the others, see ``turn``.
    """

    name: str
    capacity_count: int
    weight: int
    crowded_count: int
    wait_seconds_max: float | None = None
    yields: bool = False

    def __post_init__(self) -> None:
        """Assert the relations."""
        assert self.capacity_count > 0
        assert self.weight > 0
        assert self.crowded_count > 0


class InLane(msgspec.Struct, Generic[Owner]):
    """A request in a lane: its owner, since when it waits, its share of the received bytes.

    count: how many requests it stands for.
    """

    owner: Owner
    request: RemotingCommand
    since_seconds: float
    size_bytes: int
    count: int = 1


class Expired(msgspec.Struct, Generic[Owner]):
    """A request that waited too long, and the numbers for its refusal."""

    waiting: InLane[Owner]
    waited_ms: int
    left_count: int


class Offer(IntEnum):
    """The outcome for a request that was offered."""

    ACCEPTED = 0
    CROWDED = 1
    REFUSED = 2
    HELD = 3


class LaneStatistics(msgspec.Struct):
    """Counts of one lane since the start; depth and head wait are current."""

    depth_count: int
    capacity_count: int
    head_wait_seconds: float = 0.0
    taken_count: int = 0
    refused_count: int = 0
    expired_count: int = 0
    crowded_count: int = 0


class RequestQueue(Generic[Owner]):
    """One bounded queue: the first request of each owner in turn, and those behind each."""

    def __init__(self, spec: LaneSpec) -> None:
        self.spec = spec
        self.count = 0
        self._small: deque[InLane[Owner]] = deque()
        self._large: deque[InLane[Owner]] = deque()
        self._behind: dict[Owner, deque[InLane[Owner]] | None] = {}
        self.held: dict[Owner, deque[InLane[Owner]]] = {}
        self.paused: list[Owner] = []
        self.taken_count = 0
        self.counts = LaneStatistics(0, spec.capacity_count)

    def add(self, waiting: InLane[Owner]) -> bool:
        """Put a request behind those of its owner; return whether it is the only one."""
        self.count += waiting.count
        owner, behind = waiting.owner, self._behind
        if owner not in behind:
            behind[owner] = None
            (self._small if waiting.size_bytes < LARGE_BYTES else self._large).append(waiting)
            return True
        others = behind[owner]
        if others is None:
            behind[owner] = deque((waiting,))
        else:
            others.append(waiting)
        return False

    def first(self) -> InLane[Owner]:
        """Return the next request: a large one if there is no other."""
        return (self._small or self._large)[0]

    def take(self, *, is_last_of_round: bool) -> InLane[Owner]:
        """Remove and return the next request; at the end of a round a large one, if one waits."""
        small, large = self._small, self._large
        waiting = (large if large and (is_last_of_round or not small) else small).popleft()
        self.count -= waiting.count
        others = self._behind[waiting.owner]
        if others:
            following = others.popleft()
            (small if following.size_bytes < LARGE_BYTES else large).append(following)
        else:
            del self._behind[waiting.owner]
        return waiting

    def hold(self, owner: Owner) -> deque[InLane[Owner]]:
        """Take an owner out of the turns, and return its requests."""
        held: deque[InLane[Owner]] = deque()
        if owner in self._behind:
            for queue in (self._small, self._large):
                held += [one for one in queue if one.owner is owner]
                for _ in range(len(queue)):
                    one = queue.popleft()
                    if one.owner is not owner:
                        queue.append(one)
            held += self._behind.pop(owner) or ()
            self.count -= sum(one.count for one in held)
        self.held[owner] = held
        return held

    def all(self) -> list[InLane[Owner]]:
        """Return every request that is not held, in no order."""
        behind = [one for others in self._behind.values() for one in others or ()]
        return [*self._small, *self._large, *behind]

    def statistics(self, now_seconds: float) -> LaneStatistics:
        """Return a copy of the counts, with the current depth and the wait of the oldest."""
        firsts = (one.since_seconds for one in (*self._small, *self._large))
        return msgspec.structs.replace(
            self.counts,
            depth_count=self.count,
            head_wait_seconds=now_seconds - min(firsts, default=now_seconds),
            taken_count=self.taken_count,
        )


class Lanes(Generic[Owner]):
    """The lanes of one server."""

    def __init__(
        self,
        specs: Sequence[LaneSpec],
        *,
        lane_of_code: Mapping[int, str],
        default_lane: str,
        bytes_max: int,
    ) -> None:
        """Start empty.

        ``lane_of_code`` has the lane of a request code. Other codes go to ``default_lane``, as they
        go to the default processor in 4.9.3.
        """
        self._lanes: list[RequestQueue[Owner]] = [RequestQueue(spec) for spec in specs]
        by_name = {lane.spec.name: lane for lane in self._lanes}
        self._default = by_name[default_lane]
        self._by_code = {int(code): by_name[name] for code, name in lane_of_code.items()}
        self._expiring: list[RequestQueue[Owner]] = []
        self.change_waits(specs)
        self._bytes_max = bytes_max
        self._index = 0
        self._credit = self._lanes[0].spec.weight
        self._paused_count = 0
        self.yields = False
        self.waiting_count = 0
        self.waiting_bytes = 0
        self.held_count = 0  # owners

    def change_waits(self, specs: Iterable[LaneSpec]) -> None:
        """Take the limits on waiting, and nothing else, from these specs."""
        waits = {spec.name: spec.wait_seconds_max for spec in specs}
        for lane in self._lanes:
            wait = waits[lane.spec.name]
            lane.spec = msgspec.structs.replace(lane.spec, wait_seconds_max=wait)
        self._expiring = [lane for lane in self._lanes if lane.spec.wait_seconds_max is not None]

    def offer(self, waiting: InLane[Owner]) -> Offer:
        """Put a request into its lane, if there is room."""
        lane = self._by_code.get(waiting.request.code, self._default)
        if lane.held and waiting.owner in lane.held:
            lane.held[waiting.owner].append(waiting)
            return Offer.HELD
        depth = lane.count + waiting.count
        if depth > lane.spec.capacity_count:
            lane.counts.refused_count += waiting.count
            return Offer.REFUSED
        is_only = lane.add(waiting)
        self.waiting_count += waiting.count
        self.waiting_bytes += waiting.size_bytes
        if self.waiting_bytes > self._bytes_max or (
            depth >= lane.spec.crowded_count and not is_only
        ):
            return self._crowd(lane, waiting.owner)
        return Offer.ACCEPTED

    def _crowd(self, lane: RequestQueue[Owner], owner: Owner) -> Offer:
        lane.counts.crowded_count += 1
        if not lane.paused or lane.paused[-1] is not owner:
            lane.paused.append(owner)
            self._paused_count += 1
        return Offer.CROWDED

    def count_taken(self, code: int) -> None:
        """Count a request that waited in no lane, because nothing else did."""
        self._by_code.get(code, self._default).taken_count += 1

    def hold(self, owner: Owner, code: int) -> None:
        """Keep the requests of an owner in the lane of a code until `release`."""
        lane = self._by_code.get(code, self._default)
        assert owner not in lane.held
        self.held_count += 1
        for waiting in lane.hold(owner):
            self.waiting_count -= waiting.count
            self.waiting_bytes -= waiting.size_bytes

    def release(self, owner: Owner, code: int, now_seconds: float) -> None:
        """Let what was held be taken in its turn; it waits from now on."""
        lane = self._by_code.get(code, self._default)
        self.held_count -= 1
        for waiting in lane.held.pop(owner):
            waiting.since_seconds = now_seconds
            lane.add(waiting)
            self.waiting_count += waiting.count
            self.waiting_bytes += waiting.size_bytes

    def depth(self, code: int) -> int:
        """Return how many requests wait in the lane of a request code."""
        return self._by_code.get(code, self._default).count

    def has_room(self, code: int, count: int) -> bool:
        """Return whether the lane of a code takes so many more requests."""
        lane = self._by_code.get(code, self._default)
        return lane.count + count <= lane.spec.capacity_count

    def yields_for(self, code: int) -> bool:
        """Return whether requests of a code wait in a lane that yields."""
        return self._by_code.get(code, self._default).spec.yields

    def take(self) -> InLane[Owner] | None:
        """Remove and return the next request in the weighted order, None when nothing waits.

        The attribute ``yields`` is then that of its lane.
        """
        if not self.waiting_count:
            return None
        lane = self._lanes[self._index]
        while not lane.count or not self._credit:
            self._index = (self._index + 1) % len(self._lanes)
            lane = self._lanes[self._index]
            self._credit = lane.spec.weight
        is_last = self._credit <= lane.first().count
        waiting = lane.take(is_last_of_round=is_last)
        self._credit = 0 if is_last else self._credit - waiting.count
        lane.taken_count += waiting.count
        self.yields = lane.spec.yields
        self.waiting_count -= waiting.count
        self.waiting_bytes -= waiting.size_bytes
        return waiting

    def end_round(self) -> None:
        """End the round of the current lane: the next request comes from the lanes after it."""
        self._credit = 0

    def expire(self, now_seconds: float) -> list[Expired[Owner]]:
        """Remove and return the requests that waited too long, while those are next."""
        expired: list[Expired[Owner]] = []
        for lane in self._expiring:
            wait_seconds_max = lane.spec.wait_seconds_max
            assert wait_seconds_max is not None
            while lane.count:
                waited = now_seconds - lane.first().since_seconds
                if waited < wait_seconds_max:
                    break
                waiting = lane.take(is_last_of_round=False)
                self.waiting_count -= waiting.count
                self.waiting_bytes -= waiting.size_bytes
                lane.counts.expired_count += waiting.count
                expired.append(Expired(waiting, int(waited * 1000), lane.count))
        return expired

    def relieved(self) -> list[Owner]:
        """Remove and return the owners whose lane has room again."""
        if not self._paused_count or self.waiting_bytes * WAKE_SHARE > self._bytes_max:
            return []
        owners: list[Owner] = []
        for lane in self._lanes:
            if lane.paused and lane.count * WAKE_SHARE <= lane.spec.crowded_count:
                owners += lane.paused
                lane.paused = []
        self._paused_count -= len(owners)
        return owners

    def statistics(self, now_seconds: float) -> dict[str, LaneStatistics]:
        """Return every lane's counts by its name."""
        return {lane.spec.name: lane.statistics(now_seconds) for lane in self._lanes}

    def validate(self) -> None:
        """Assert the invariants over the whole structure; tests call it, production does not."""
        assert self.waiting_count == sum(lane.count for lane in self._lanes)
        in_lanes = [waiting for lane in self._lanes for waiting in lane.all()]
        assert self.waiting_count == sum(waiting.count for waiting in in_lanes)
        assert self.waiting_bytes == sum(waiting.size_bytes for waiting in in_lanes)
        assert self._paused_count == sum(len(lane.paused) for lane in self._lanes)
        for lane in self._lanes:
            assert lane.count <= lane.spec.capacity_count
