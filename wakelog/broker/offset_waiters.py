"""OffsetWaiters: responses that wait until a watermark has reached their message.

A response may wait for two watermarks, for example the disk's and a replica's. It is then in the
queue of each, and leaves when both are done with it: reached, or too late.

Invariants:
- responses wait in the order of their offsets, even if one comes late because its table was saved
  first. Messages are put in that order, so that deadlines grow with it. Checking the first response
  is enough. A timeout that was made shorter counts once those before it have left.
- a response leaves once.

Source: org.apache.rocketmq.store.CommitLog.GroupCommitRequest (4.9.3).
"""

from collections import deque
from collections.abc import Callable

from wakelog.broker.decision import AwaitFlush
from wakelog.network.handler import Reply
from wakelog.protocol.command import RemotingCommand


class Waiter:
    """One response, and for how many watermarks it still waits."""

    __slots__ = ("_outstanding_count", "_reply", "deferred")

    def __init__(self, deferred: AwaitFlush, reply: Reply, outstanding_count: int) -> None:
        self.deferred = deferred
        self._reply = reply
        self._outstanding_count = outstanding_count

    def end_one(self) -> None:
        """Wait for one watermark less; with the last one the response leaves."""
        self._outstanding_count -= 1
        if not self._outstanding_count:
            self._reply(self.deferred.response)

    def fail(self, cause: str) -> None:
        """Send a failure instead, unless the response has left."""
        self._leave_as(self.deferred.flush_failed, cause)

    def refuse(self, cause: str) -> None:
        """Send a refusal instead, unless the response has left."""
        self._leave_as(self.deferred.refused, cause)

    def _leave_as(self, changed: Callable[[str], RemotingCommand], cause: str) -> None:
        if self._outstanding_count > 0:
            self._outstanding_count = 0
            self._reply(changed(cause))


class OffsetWaiters:
    """What waits for one watermark.

    late_count: how many responses left because of their deadline.
    timeout_ms: how long a response waits at most.
    """

    def __init__(self, timeout_ms: int, on_late: Callable[[AwaitFlush], object]) -> None:
        """Wait for nothing yet.

        timeout_ms: how long a response waits at most.
        on_late: changes a response whose deadline has come.
        """
        self.timeout_ms = timeout_ms
        self._on_late = on_late
        self._waiters: deque[tuple[int, int, Waiter]] = deque()
        self.late_count = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiters)

    @property
    def next_deadline_ms(self) -> int | None:
        """The deadline of the first response, None if there is none."""
        return self._waiters[0][1] if self._waiters else None

    def add(self, offset: int, deadline_ms: int, waiter: Waiter) -> bool:
        """Let a response wait; return whether it is the first one."""
        waiters, place = self._waiters, len(self._waiters)
        while place and waiters[place - 1][0] > offset:
            place -= 1
        waiters.insert(place, (offset, deadline_ms, waiter))
        return not place

    def reached(self, offset: int) -> None:
        """Let go what waited for an offset up to this one."""
        waiters = self._waiters
        while waiters and waiters[0][0] <= offset:
            waiters.popleft()[2].end_one()

    def expire(self, now_ms: int) -> None:
        """Let go what has waited too long.

        A deadline later than the timeout allows shows that the clock was set back.
        """
        waiters, end_ms = self._waiters, now_ms + self.timeout_ms
        while waiters and not now_ms < waiters[0][1] <= end_ms:
            waiter = waiters.popleft()[2]
            self.late_count += 1
            self._on_late(waiter.deferred)
            waiter.end_one()

    def fail_above(self, offset: int, cause: str) -> None:
        """Fail what waits for more than an offset."""
        waiters, failed = self._waiters, list[Waiter]()
        while waiters and waiters[-1][0] > offset:
            failed.append(waiters.pop()[2])
        for waiter in reversed(failed):
            waiter.fail(cause)

    def fail_all(self, cause: str) -> None:
        """Fail everything that waits."""
        while self._waiters:
            self._waiters.popleft()[2].fail(cause)

    def refuse_all(self, cause: str) -> None:
        """Refuse everything that waits."""
        while self._waiters:
            self._waiters.popleft()[2].refuse(cause)
