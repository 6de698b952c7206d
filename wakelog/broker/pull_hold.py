"""PullHold: who waits for which queue, and whom an arrival or a deadline wakes.

It knows hold ids and nothing of requests, connections or messages, so that it can live in an
actor of its own: the Broker keeps the requests and runs them again when it is told to. Whatever
it forgets, by a restart or at its bound, costs latency only, since the Broker looks at its held
requests by itself.

How a wake cannot be lost. A pull that found nothing at queue offset N is on its way here while the
message N arrives: the arrival finds nobody, so its queue's reach is remembered and the note that
comes later is woken at once. Reaches are forgotten, oldest first, when there are too many queues.

A note's tag hashes spare wakes and decide nothing: an arrival of several messages, or of unknown
tags, wakes everybody behind it.

Invariants:
    - a hold id is in ``_holds`` exactly if it is in the queue that its note names.
    - every hold has an entry in ``_deadlines``; entries of holds that are gone are skipped
      later, and there are never more than ``STALE_FACTOR`` times as many as holds (once there
      are enough of both).

Source: org.apache.rocketmq.broker.longpolling.PullRequestHoldService, LmqPullRequestHoldService
and NotifyMessageArrivingListener (4.9.3). Upstream looks at deadlines every 5 s; here each has
its moment. Queues are keyed by (topic, queue id) and not by ``topic@queueId``, so no name can
be split wrongly.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from wakelog.broker.decision import HoldPull
from wakelog.dispatchers.reput import Arrival

HOLDS_MAX = 100_000  # pullThreadPoolQueueCapacity: what 4.9.3 lets wait before a pull is refused
REACHES_MAX = (
    65_536  # queues; a note is in flight for milliseconds, so an old reach is worth nothing
)
STALE_FACTOR = 2
STALE_COUNT_MIN = 1_024

Queue: TypeAlias = tuple[str, int]


class PullHoldStatistics(msgspec.Struct, frozen=True):
    """How many holds there are and what became of those before them."""

    hold_count: int
    queue_count: int
    refused_count: int
    woken_by_arrival_count: int
    woken_by_deadline_count: int


class PullHold:
    """The table of held pulls of one broker."""

    def __init__(self, holds_max: int = HOLDS_MAX) -> None:
        """Start with nobody waiting; ``holds_max`` bounds the notes that are kept."""
        self._holds_max = holds_max
        self._holds: dict[int, HoldPull] = {}
        self._queues: dict[Queue, dict[int, HoldPull]] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._reaches: dict[Queue, int] = {}
        self._refused_count = 0
        self._woken_by_arrival_count = 0
        self._woken_by_deadline_count = 0

    def hold(self, notes: Iterable[HoldPull]) -> list[int]:
        """Keep notes; return the ids of those whose message has come already.

        A note beyond the bound is dropped: the Broker answers its request at the deadline.
        """
        woken = []
        for note in notes:
            queue = (note.topic, note.queue_id)
            self._remove(note.hold_id)
            if self._reaches.get(queue, 0) > note.queue_offset:
                woken.append(note.hold_id)
            elif len(self._holds) >= self._holds_max:
                self._refused_count += 1
            else:
                self._holds[note.hold_id] = note
                self._queues.setdefault(queue, {})[note.hold_id] = note
                heapq.heappush(self._deadlines, (note.deadline_ms, note.hold_id))
        self._woken_by_arrival_count += len(woken)
        self._drop_stale_deadlines()
        return woken

    def arrived(self, arrivals: Iterable[Arrival]) -> list[int]:
        """Return the ids of the holds that these arrivals may satisfy, longest waiting first."""
        woken = []
        for arrival in arrivals:
            queue = (arrival.topic, arrival.queue_id)
            self._reach(queue, arrival.next_queue_offset)
            for note in list(self._queues.get(queue, {}).values()):
                if _satisfies(arrival, note):
                    self._remove(note.hold_id)
                    woken.append(note.hold_id)
        self._woken_by_arrival_count += len(woken)
        return woken

    def expire(self, now_ms: int) -> list[int]:
        """Return the ids of the holds whose deadline has come."""
        woken = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            deadline_ms, hold_id = heapq.heappop(self._deadlines)
            note = self._holds.get(hold_id)
            if note is not None and note.deadline_ms == deadline_ms:
                self._remove(hold_id)
                woken.append(hold_id)
        self._woken_by_deadline_count += len(woken)
        return woken

    def next_deadline_ms(self) -> int | None:
        """Return when ``expire`` next has something to do, None if nobody waits."""
        while self._deadlines:
            deadline_ms, hold_id = self._deadlines[0]
            note = self._holds.get(hold_id)
            if note is not None and note.deadline_ms == deadline_ms:
                return deadline_ms
            heapq.heappop(self._deadlines)
        return None

    def forget(self, hold_ids: Sequence[int]) -> None:
        """Drop holds whose connection is gone or whose request was answered."""
        for hold_id in hold_ids:
            self._remove(hold_id)
        self._drop_stale_deadlines()

    def clear(self) -> None:
        """Drop everything: another Broker incarnation registers its own holds."""
        self._holds.clear()
        self._queues.clear()
        self._deadlines.clear()
        self._reaches.clear()

    def statistics(self) -> PullHoldStatistics:
        """Return sizes and counters."""
        return PullHoldStatistics(
            hold_count=len(self._holds),
            queue_count=len(self._queues),
            refused_count=self._refused_count,
            woken_by_arrival_count=self._woken_by_arrival_count,
            woken_by_deadline_count=self._woken_by_deadline_count,
        )

    def validate(self) -> None:
        """Assert the invariants of the module."""
        assert len(self._holds) <= self._holds_max
        assert len(self._reaches) <= REACHES_MAX
        assert all(self._queues.values()), "no queue is kept without holds"
        assert sum(len(holds) for holds in self._queues.values()) == len(self._holds)
        for hold_id, note in self._holds.items():
            assert self._queues[note.topic, note.queue_id][hold_id] is note
        assert {(n.deadline_ms, i) for i, n in self._holds.items()} <= set(self._deadlines)

    def _reach(self, queue: Queue, next_queue_offset: int) -> None:
        reach = max(next_queue_offset, self._reaches.pop(queue, 0))
        if len(self._reaches) >= REACHES_MAX:
            del self._reaches[next(iter(self._reaches))]
        self._reaches[queue] = reach

    def _remove(self, hold_id: int) -> None:
        note = self._holds.pop(hold_id, None)
        if note is None:
            return
        queue = (note.topic, note.queue_id)
        holds = self._queues[queue]
        del holds[hold_id]
        if not holds:
            del self._queues[queue]

    def _drop_stale_deadlines(self) -> None:
        if len(self._deadlines) > STALE_COUNT_MIN + STALE_FACTOR * len(self._holds):
            self._deadlines = [(note.deadline_ms, i) for i, note in self._holds.items()]
            heapq.heapify(self._deadlines)


def _satisfies(arrival: Arrival, note: HoldPull) -> bool:
    if arrival.next_queue_offset <= note.queue_offset:
        return False
    return note.codes is None or arrival.tags_code is None or arrival.tags_code in note.codes
