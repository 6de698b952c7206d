"""How far each consume queue may be read: this turns the dispatched watermark into queue offsets.

Reput writes queue files in another process and publishes `dispatched`: every record that ends at or
below it has all its entries. So an entry is readable if it is written and its record ends at or
below `dispatched`.

Records of one queue lie in the log in the order of their entries, so readable entries are a prefix
of the queue. Its end only moves up. A search continues where the last one ended, in doubling steps,
and is not repeated while `dispatched` stays the same.

Invariants:
- The remembered end of a queue never moves down while the queue has files.
- Queues without files are not remembered: a name from a socket costs no memory.

Source: org.apache.rocketmq.store.ConsumeQueue.getMaxOffsetInQueue, getMinOffsetInQueue (4.9.3),
which read positions in memory that the writer moves.
"""

from collections.abc import Callable

from wakelog.storage.queue.consume_queue import ColdEntry, ConsumeQueue
from wakelog.storage.queue.consume_queue_ext import ConsumeQueueExt
from wakelog.storage.queue.entries import ENTRY


class ReadableQueue:
    """One queue, and how far it was readable at the last call."""

    __slots__ = ("_begin", "_begin_physical", "_dispatched", "_end", "extension", "queue")

    def __init__(self, queue: ConsumeQueue, extension: ConsumeQueueExt | None = None) -> None:
        """Touch no file yet. `extension` is None where extension units are not in use."""
        self.queue = queue
        self.extension = extension
        self._end = 0
        self._dispatched = -1
        self._begin = 0
        self._begin_physical = -1

    def end(self, dispatched: int, *, blocking: bool = True) -> int:
        """Return the queue offset after the last readable entry, 0 for an empty queue.

        Raises: ColdEntry, unless `blocking`.
        """
        if dispatched > self._dispatched:
            find_end = self.queue.end_of_readable
            while (end := find_end(dispatched, self._end, blocking=blocking)) > self._end:
                self._end = end
                # At the end of the known files: the next search lists them again.
                if end < self.queue.files_end:
                    break
            self._dispatched = dispatched
        return self._end

    def begin(self, min_physical_offset: int, dispatched: int, *, blocking: bool = True) -> int:
        """Return the first queue offset whose record is in the log (fact 48).

        Raises: ColdEntry, unless `blocking`.
        """
        if min_physical_offset != self._begin_physical:
            self.queue.refresh()  # the files below the log's new begin are being removed
            end = self.end(dispatched, blocking=blocking)
            self._begin = self.queue.min_queue_offset(
                min_physical_offset, end, current=self._begin, blocking=blocking
            )
            # While the first file has no such entry, Reput has yet to remove it: search again then.
            data = self.entries(self._begin, 1, blocking=blocking)
            if data is None:
                raise ColdEntry
            if len(data) == ENTRY.size:
                physical_offset, size_bytes, _ = ENTRY.unpack(data)
                if size_bytes > 0 and physical_offset >= min_physical_offset:
                    self._begin_physical = min_physical_offset
        return self._begin

    def entries(self, queue_offset: int, count_max: int, *, blocking: bool) -> bytes | None:
        """Return up to `count_max` entries of one file, None if they are not in the page cache."""
        if blocking:
            return self.queue.entries(queue_offset, count_max)
        return self.queue.entries_nowait(queue_offset, count_max)

    def close(self) -> None:
        """Close the queue's files."""
        self.queue.close()
        if self.extension is not None:
            self.extension.close()


OpenQueue = Callable[[str, int], ReadableQueue]


class ReadableQueues:
    """The queues of a store that were read, by topic and queue id. One thread at a time."""

    def __init__(self, open_queue: OpenQueue) -> None:
        """Open queues with `open_queue`, which checks names and touches no file."""
        self._open_queue = open_queue
        self._queues: dict[tuple[str, int], ReadableQueue] = {}

    def find(
        self, topic: str, queue_id: int, dispatched: int, *, blocking: bool = True
    ) -> ReadableQueue | None:
        """Return a queue that has readable entries or had some, None for any other.

        Raises: IllegalName; ColdEntry, unless `blocking`.
        """
        key = (topic, queue_id)
        known = self._queues.get(key)
        if known is not None:
            return known
        found = self._open_queue(topic, queue_id)
        try:
            is_empty = found.end(dispatched, blocking=blocking) == 0
        except ColdEntry:
            found.close()
            raise
        if is_empty:
            found.close()
            return None
        self._queues[key] = found
        return found

    def close(self) -> None:
        """Close the files of every queue and forget them."""
        for queue in self._queues.values():
            queue.close()
        self._queues.clear()
