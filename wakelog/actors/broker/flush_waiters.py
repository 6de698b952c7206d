"""FlushWaiters: responses that are ready and wait for the disk (synchronous flush).

Responses are added in the order in which their messages were put. So their offsets and deadlines
only grow, and checking the first response is enough.

Source: org.apache.rocketmq.store.CommitLog.GroupCommitService (4.9.3).
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from wakelog.broker.decision import AwaitFlush
from wakelog.network.handler import Reply


class _Waiter(NamedTuple):
    deferred: AwaitFlush
    reply: Reply


class FlushWaiters:
    """A queue of responses."""

    __slots__ = ("_waiters", "timed_out_count")

    def __init__(self) -> None:
        """Begin with no response."""
        self._waiters: deque[_Waiter] = deque()
        self.timed_out_count = 0

    def __len__(self) -> int:
        """Return how many responses wait."""
        return len(self._waiters)

    @property
    def next_deadline_ms(self) -> int | None:
        """The deadline of the first response, None if there is none."""
        return self._waiters[0].deferred.deadline_ms if self._waiters else None

    def add(self, deferred: AwaitFlush, reply: Reply) -> None:
        """Let a response wait."""
        self._waiters.append(_Waiter(deferred, reply))

    def flushed(self, physical_offset: int) -> None:
        """Send the responses for messages that are durable now."""
        waiters = self._waiters
        while waiters and waiters[0].deferred.physical_offset_end <= physical_offset:
            waiter = waiters.popleft()
            waiter.reply(waiter.deferred.response)

    def unwritten(self, appended: int, cause: str) -> None:
        """Fail the responses whose message did not reach the file: no flush makes it durable."""
        waiters = self._waiters
        while waiters and waiters[-1].deferred.physical_offset_end > appended:
            waiter = waiters.pop()
            waiter.reply(waiter.deferred.flush_failed(cause))

    def failed(self, cause: str) -> None:
        """Fail every response: a sync failed."""
        while self._waiters:
            waiter = self._waiters.popleft()
            waiter.reply(waiter.deferred.flush_failed(cause))

    def expire(self, now_ms: int, timeout_ms: int) -> None:
        """Time out the responses whose deadline has come.

        timeout_ms: how long a response waits; a later deadline shows that the clock was set back.
        """
        waiters, end_ms = self._waiters, now_ms + timeout_ms
        while waiters and not now_ms < waiters[0].deferred.deadline_ms <= end_ms:
            waiter = waiters.popleft()
            self.timed_out_count += 1
            waiter.reply(waiter.deferred.timed_out())
