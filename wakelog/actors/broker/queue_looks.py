"""QueueLooks: requests that look at queues, until those show what was acknowledged before.

A message is in its queue only after Reput dispatched it, which is some milliseconds after its
producer has the answer. Who sends and then looks (a pull that does not wait, the end of a queue, a
search by time or key) would not find it. So such a request is taken up once dispatch has come as
far as the log could be read when it came, or at its deadline: a queue that is far behind is looked
at as it is. A pull that may wait need not, since it is held and woken; unless it begins beyond the
queue's end, for which its consumer would be sent back.

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

WAIT_MS_MAX = 50
"""Reput that runs needs a few; somebody who asks is not kept longer from what is there."""

BEYOND_WAIT_MS_MAX = 1_000
"""The same for a pull beyond the end, which would wait some seconds for a message anyhow."""

LOOK_SECONDS = 0.001
"""Between two looks at how far dispatch has come, while somebody waits."""

WAITING_COUNT_MAX = 10_000
"""As many as the lanes hold of one kind; beyond, requests look at what is there."""


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
        is_beyond: Callable[[RemotingCommand], bool],
    ) -> AwaitDispatch | None:
        """Return until when a request has to wait; None if it can be taken up now.

        is_beyond: tells of a pull whether it begins beyond the end of its queue.
        """
        if dispatched >= readable or len(self._looks) >= WAITING_COUNT_MAX:
            return None
        if not _looks(request):
            return None
        if not _may_wait(request):
            return AwaitDispatch(readable, now_ms + WAIT_MS_MAX)
        return AwaitDispatch(readable, now_ms + BEYOND_WAIT_MS_MAX) if is_beyond(request) else None

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


def _may_wait(request: RemotingCommand) -> bool:
    flags = request.ext_fields.get("sysFlag", "")
    is_pull = request.code == RequestCode.PULL_MESSAGE
    return is_pull and flags.isdecimal() and bool(int(flags) & PULL_SUSPEND)
