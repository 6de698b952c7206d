"""QueueLooks: requests that look at queues, until those show what was acknowledged before.

A message is in its queue only after Reput dispatched it, which is some milliseconds after its
producer has the answer. Who sends and then looks (a pull that does not wait, the end of a queue, a
search by time or key) would not find it. So such a request is taken up once dispatch has come as
far as the log could be read when it came, or at its deadline: a queue that is far behind is looked
at as it is.

Pulls differ by how many entries of their queue they have ahead of them. One that has more than it
looks at sees no end, and does not wait. One that may be held need not, since it is woken; unless it
begins beyond the queue's end, for which its consumer would be sent back.

Invariants:
- every request is taken up once, in the order in which they came.

Source: none upstream; there a look within a millisecond behind the answer may find nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from wakelog.broker.processors import PROCESSORS
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.sys_flag import PULL_SUSPEND
from wakelog.storage.read.reader import SCAN_COUNT_MIN

WAIT_MS_MAX = 50
"""Reput that runs needs a few; somebody who asks is not kept longer from what is there."""

BEYOND_WAIT_MS_MAX = 1_000
"""The same for a pull beyond the end, which would wait some seconds for a message anyhow."""

LOOK_SECONDS = 0.001
"""Between two looks at how far dispatch has come, while somebody waits."""

WAITING_COUNT_MAX = 10_000
"""As many as the lanes hold of one kind; beyond, requests look at what is there."""

DIGITS_MAX = 19
"""Of a number of 64 bits."""


class AwaitDispatch(NamedTuple):
    """The request is to be taken up once the queues reach `physical_offset`."""

    physical_offset: int
    deadline_ms: int


class _Look(NamedTuple):
    until: AwaitDispatch
    take_up: Callable[[], None]


class QueueLooks:
    """Requests that wait, the oldest first."""

    __slots__ = ("_looks", "waited_count")

    def __init__(self) -> None:
        """Start with nobody waiting."""
        self._looks: deque[_Look] = deque()
        self.waited_count = 0

    def __len__(self) -> int:
        """Return how many requests wait."""
        return len(self._looks)

    def wait(
        self,
        request: RemotingCommand,
        *,
        dispatched: int,
        readable: int,
        now_ms: int,
        entries_ahead: Callable[[RemotingCommand], int | None],
    ) -> AwaitDispatch | None:
        """Return until when a request has to wait; None if it can be taken up now.

        entries_ahead: tells of a pull how many entries there are from its offset to the end of its
            queue, negative if it begins beyond; None if that cannot be told.
        """
        if dispatched >= readable or len(self._looks) >= WAITING_COUNT_MAX:
            return None
        if not _looks(request):
            return None
        wait_ms = WAIT_MS_MAX
        if request.code == RequestCode.PULL_MESSAGE:
            wait_ms = _pull_wait_ms(request, entries_ahead(request))
        return AwaitDispatch(readable, now_ms + wait_ms) if wait_ms else None

    def add(self, until: AwaitDispatch, take_up: Callable[[], None]) -> None:
        """Let a request wait; `take_up` is called once."""
        self.waited_count += 1
        self._looks.append(_Look(until, take_up))

    def take_up(self, *, dispatched: int, now_ms: int) -> None:
        """Take up whoever waits for no more, or waited long enough."""
        looks, self._looks = self._looks, deque()
        for look in looks:
            until = look.until
            if until.physical_offset > dispatched and until.deadline_ms > now_ms:
                self._looks.append(look)
            else:
                look.take_up()


def _looks(request: RemotingCommand) -> bool:
    row = PROCESSORS.get(request.code)
    return row is not None and row.looks_at_queues


def _pull_wait_ms(request: RemotingCommand, ahead_count: int | None) -> int:
    """Return how long a pull waits for the queues at most; 0 if it need not wait."""
    if ahead_count is not None and ahead_count >= _looked_at_count(request):
        return 0
    if not _number(request, "sysFlag") & PULL_SUSPEND:
        return WAIT_MS_MAX
    return BEYOND_WAIT_MS_MAX if ahead_count is not None and ahead_count < 0 else 0


def _looked_at_count(request: RemotingCommand) -> int:
    return max(SCAN_COUNT_MIN, _number(request, "maxMsgNums"))


def _number(request: RemotingCommand, name: str) -> int:
    """Return a field that is a decimal number, 0 for any other: its processor refuses that."""
    text = request.ext_fields.get(name, "")
    return int(text) if text.isdecimal() and len(text) <= DIGITS_MAX else 0
