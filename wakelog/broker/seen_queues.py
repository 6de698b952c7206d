"""SeenQueues: the queues of a store, and what an earlier scrape has read of them.

A read of a queue's end, or of a message's store time, is a system call or two. The store knows the
next offset of each queue that it appends to. So a queue whose end was that offset has not moved
since, and is not read. A message has the same store time as long as it is in the log.

A slave's store appends no messages by itself: there each scrape reads everything.

Invariants:
    - what is remembered was asked for by the last scrape or by this one.
    - nothing is remembered beyond a removal of queues, or of the log's oldest segment.

Source: none upstream.
"""

from collections.abc import Mapping, Sequence

from wakelog.storage.log.queue_offsets import QueueKey, QueueOffsets
from wakelog.storage.message_store import MessageStore


class SeenQueues:
    """See the module. One thread at a time."""

    def __init__(self, store: MessageStore, offsets: QueueOffsets | None) -> None:
        """Read nothing yet. offsets: those that the store appends by; None for a slave's."""
        self.store = store
        self._offsets = offsets
        self._queues: dict[str, list[int]] = {}
        self._queues_version = (-1, -1)
        self._read_version = (-1, -1)
        self._ends: dict[QueueKey, int] = {}
        self._ends_before: dict[QueueKey, int] = {}
        self._times: dict[tuple[str, int, int], int] = {}
        self._times_before: dict[tuple[str, int, int], int] = {}
        self.queue_count = 0

    def begin(self) -> None:
        """Begin a scrape: list the queues again if any came or went. Raises: StoreFailed."""
        offsets = self._offsets
        removals_count = 0 if offsets is None else offsets.removals_count
        read_version = removals_count, self.store.min_physical_offset
        is_known = offsets is not None and read_version == self._read_version
        self._read_version = read_version
        self._ends, self._ends_before = {}, self._ends if is_known else {}
        self._times, self._times_before = {}, self._times if is_known else {}
        if offsets is None:
            self._take(self.store.queues())
        elif (version := (len(offsets), removals_count)) != self._queues_version:
            self._queues_version = version
            found: dict[str, list[int]] = {}
            for topic, queue_id in offsets.queues():
                found.setdefault(topic, []).append(queue_id)
            self._take(found)

    def _take(self, queues: dict[str, list[int]]) -> None:
        self._queues = {topic: sorted(ids) for topic, ids in queues.items()}
        self.queue_count = sum(map(len, queues.values()))

    def queues(self) -> Mapping[str, Sequence[int]]:
        """Return the ids of the queues by topic, as they were when the scrape began."""
        return self._queues

    def end(self, topic: str, queue_id: int) -> int:
        """Return the queue offset after the last readable entry. Raises: StoreFailed."""
        key = topic, queue_id
        end = self._ends_before.get(key)
        if end is None or self._offsets is None or end != self._offsets.get(key):
            end = self.store.max_queue_offset(topic, queue_id)
        self._ends[key] = end
        return end

    def stored_ms(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return the store time of a message, -1 if it is gone. Raises: StoreFailed."""
        key = topic, queue_id, queue_offset
        stored_ms = self._times.get(key)
        if stored_ms is None:
            stored_ms = self._times_before.get(key, -1)
            if stored_ms < 0:
                stored_ms = self.store.store_time_at(topic, queue_id, queue_offset)
            self._times[key] = stored_ms
        return stored_ms
