"""ReadAfterWriteGate: a request that reads queues sees every message acknowledged before it.

A message is in its queue only after Reput has dispatched it, some milliseconds after its producer
has the response. The gate lets a request that reads queues wait until dispatch has reached the
point up to which the log was readable when it came. At its deadline it reads whatever the queue
shows. A pull also sees the last messages that are not dispatched yet (`storage/read/recent.py`).
Where these are too many for that, it waits only if it can see the end of its queue:

    entries from its offset to the end                it may be held    waits at most
    at least as many as one pull reads                -                 not at all
    fewer, none, or unknown                           no                WAIT_MS_MAX
    fewer, none, or unknown                           yes               not at all: arrivals wake it
    negative: it begins beyond the end                yes               BEYOND_END_WAIT_MS_MAX

Invariants: every waiting request is resumed once; those that are due, in the order of arrival.

Source: none. In 4.9.3 a read within a millisecond of the response may find nothing.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from wakelog.broker.effects import Dispatched
from wakelog.broker.topics import Topics
from wakelog.network.request import Request
from wakelog.protocol.headers.pull import PullMessageRequestHeader
from wakelog.protocol.sys_flag import PULL_SUSPEND
from wakelog.storage.message_store import MessageStore
from wakelog.storage.read.reader import SCAN_COUNT_MIN

WAIT_MS_MAX = 50
"""A running Reput needs a few milliseconds. What the queue shows is not kept back any longer."""

BEYOND_END_WAIT_MS_MAX = 1_000
"""Without the wait the response would make the client correct its offset."""

CHECK_SECONDS = 0.001
"""How often the shell checks the progress of dispatch while requests wait."""

WAITING_COUNT_MAX = 10_000
"""The capacity of a lane. Above it, requests read whatever the queues show."""


class ReadAfterWriteGate:
    """The requests that wait for dispatch, the oldest first."""

    __slots__ = ("_readable", "_store", "_topics", "_waiting", "waited_count")

    def __init__(self, store: MessageStore, topics: Topics, readable: Callable[[], int]) -> None:
        """Start without requests; `readable` returns the end of what consumers may see."""
        self._store = store
        self._topics = topics
        self._readable = readable
        self._waiting: deque[tuple[Dispatched, Callable[[], None]]] = deque()
        self.waited_count = 0

    def __len__(self) -> int:
        """Return how many requests wait."""
        return len(self._waiting)

    def check(self, request: Request[Any]) -> Dispatched | None:
        """Return what a request has to wait for; None if it can be handled now."""
        readable = self._readable()
        if self._store.dispatched >= readable or len(self._waiting) >= WAITING_COUNT_MAX:
            return None
        wait_ms = WAIT_MS_MAX
        if isinstance(request.header, PullMessageRequestHeader):
            if self._store.recent.shows_all(readable):
                return None
            wait_ms = self._pull_wait_ms(request.header)
        return Dispatched(readable, request.now_ms + wait_ms) if wait_ms else None

    def add(self, wait: Dispatched, resume: Callable[[], None]) -> None:
        """Let a request wait; `resume` is called once."""
        self.waited_count += 1
        self._waiting.append((wait, resume))

    def resume_due(self, now_ms: int) -> None:
        """Resume the requests whose messages are dispatched or whose deadline has come."""
        waiting, self._waiting = self._waiting, deque()
        dispatched = self._store.dispatched
        for wait, resume in waiting:
            if wait.physical_offset > dispatched and wait.deadline_ms > now_ms:
                self._waiting.append((wait, resume))
            else:
                resume()

    def _pull_wait_ms(self, header: PullMessageRequestHeader) -> int:
        ahead_count = self._entries_ahead(header)
        if ahead_count is not None and ahead_count >= max(SCAN_COUNT_MIN, header.max_msg_nums):
            return 0
        if not header.sys_flag & PULL_SUSPEND:
            return WAIT_MS_MAX
        return BEYOND_END_WAIT_MS_MAX if ahead_count is not None and ahead_count < 0 else 0

    def _entries_ahead(self, header: PullMessageRequestHeader) -> int | None:
        """Return the number of entries from the pull's offset to the end of its queue.

        None for a queue or offset that cannot be, or if only the disk has the end.
        """
        topic = self._topics.get(header.topic)
        if topic is None or not 0 <= header.queue_id < topic.read_queue_nums:
            return None
        if header.queue_offset < 0:
            return None
        end = self._store.max_queue_offset_nowait(header.topic, header.queue_id)
        return None if end is None else end - header.queue_offset
