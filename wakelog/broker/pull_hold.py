"""PullHold: the pulls that wait for each queue, and those that an arrival or a deadline wakes.

It has hold ids, but no requests, connections or messages, so that it can run in an actor of its
own. A note that is lost, in a restart or at the limit, costs latency only, because the Broker
checks its held requests by itself.

No wake is lost. Message N may arrive while the note of a pull from queue offset N is on its way
here. So PullHold remembers the end of each queue, and wakes such a note as soon as it comes. When
there are too many queues, the oldest ends are forgotten.

The tag hashes of a note save wakes and decide nothing: an arrival of several messages, or of
unknown tags, wakes every note before it.

Invariants:
    - a hold id is in ``_holds`` exactly if it is in the queue that its note names.
    - every hold has an entry in ``_deadlines``. Entries of removed holds are skipped later. Above
      ``STALE_COUNT_MIN``, there are at most ``STALE_FACTOR`` times as many entries as holds.

Source: org.apache.rocketmq.broker.longpolling.PullRequestHoldService, LmqPullRequestHoldService
and NotifyMessageArrivingListener (4.9.3). It checks deadlines every 5 s; here each wakes at its
time.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from wakelog.broker.decision import HoldPull
from wakelog.broker.held_requests import HOLDS_MAX
from wakelog.storage.queue.entries import Arrival

REACHES_MAX = 65_536  # queues; a note is in flight for milliseconds, so an old end is useless
STALE_FACTOR = 2
STALE_COUNT_MIN = 1_024

Queue: TypeAlias = tuple[str, int]


class PullHold:
    """The table of held pulls of one broker."""

    def __init__(self) -> None:
        self._holds: dict[int, HoldPull] = {}
        self._queues: dict[Queue, dict[int, HoldPull]] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._reaches: dict[Queue, int] = {}
        self._refused_count = 0
        self._woken_by_arrival_count = 0
        self._woken_by_deadline_count = 0

    def hold(self, notes: Iterable[HoldPull]) -> list[int]:
        """Keep notes; return the ids of those whose message has arrived.

        A note above the limit is dropped: the Broker responds to its request at the deadline.
        """
        woken = []
        for note in notes:
            queue = (note.topic, note.queue_id)
            self._remove(note.hold_id)
            if self._reaches.get(queue, 0) > note.queue_offset:
                woken.append(note.hold_id)
            elif len(self._holds) >= HOLDS_MAX:
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
        for topic, queue_id, next_queue_offset, tags_code in arrivals:
            queue = (topic, queue_id)
            self._reach(queue, next_queue_offset)
            holds = self._queues.get(queue)
            if holds is None:
                continue  # as almost every arrival at a broker of many queues
            for note in list(holds.values()):
                if note.is_woken_by(next_queue_offset, tags_code):
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
        """Return when ``expire`` next has something to do, None without notes."""
        while self._deadlines:
            deadline_ms, hold_id = self._deadlines[0]
            note = self._holds.get(hold_id)
            if note is not None and note.deadline_ms == deadline_ms:
                return deadline_ms
            heapq.heappop(self._deadlines)
        return None

    def forget(self, hold_ids: Sequence[int]) -> None:
        """Drop holds whose connection is closed."""
        for hold_id in hold_ids:
            self._remove(hold_id)
        self._drop_stale_deadlines()

    def clear(self) -> None:
        """Drop everything: a restarted Broker registers its own holds."""
        self._holds.clear()
        self._queues.clear()
        self._deadlines.clear()
        self._reaches.clear()

    def statistics(self) -> dict[str, int]:
        """Return sizes and counters."""
        return {
            "hold_count": len(self._holds),
            "queue_count": len(self._queues),
            "refused_count": self._refused_count,
            "woken_by_arrival_count": self._woken_by_arrival_count,
            "woken_by_deadline_count": self._woken_by_deadline_count,
        }

    def validate(self) -> None:
        """Assert the invariants of the module."""
        assert len(self._holds) <= HOLDS_MAX
        assert len(self._reaches) <= REACHES_MAX
        assert all(self._queues.values()), "no queue is kept without holds"
        assert sum(len(holds) for holds in self._queues.values()) == len(self._holds)
        for hold_id, note in self._holds.items():
            assert self._queues[note.topic, note.queue_id][hold_id] is note
        assert {(n.deadline_ms, i) for i, n in self._holds.items()} <= set(self._deadlines)

    def _reach(self, queue: Queue, next_queue_offset: int) -> None:
        reaches = self._reaches
        before = reaches.pop(queue, 0)
        if len(reaches) >= REACHES_MAX:
            del reaches[next(iter(reaches))]
        reaches[queue] = next_queue_offset if next_queue_offset > before else before

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
