"""LongWork: requests whose work goes on in steps, so that nobody waits for the whole of it.

A turn gives them ``STEPS_SECONDS`` after the other requests: one piece of each in turn. A request
whose connection is closed is dropped between two pieces. Those with a large body wait for each
other, unparsed.

Invariants: at most ``REQUESTS_MAX`` requests are under way, and ``LARGE_MAX`` of the large ones are
begun.

Source: none upstream; there each request has a thread.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from wakelog.protocol.steps import Steps

REQUESTS_MAX: Final = 256
"""With bodies of 2 MiB they keep half a GiB. A heartbeat has one every 30 s, if it is long."""

STEPS_SECONDS: Final = 0.001
"""Half of a turn's budget: the others lose a third of the loop at most, and wait for 1 ms."""

LARGE_BODY_BYTES: Final = 65_536
"""As objects of Python, a body takes ten times as much and more."""

LARGE_MAX: Final = 2
"""Fifty parsed heartbeats of 4,000 groups were 60 MB. What the tables kept of them lay in between,
so that the process could not give those pages back."""

Done = Callable[[Any, Exception | None], None]
"""Called with the result and None, or with None and the error that the steps raised."""


class _Work(NamedTuple):
    steps: Steps[Any]
    done: Done
    is_over: Callable[[], bool]
    is_large: bool


class LongWork:
    """The requests that are under way, each between two of its steps.

    under_way: those that the next `run` goes on with; read only. While one waits there is another.
    """

    def __init__(self, clock_seconds: Callable[[], float]) -> None:
        self._clock_seconds = clock_seconds
        self.under_way: deque[_Work] = deque()
        self._unbegun: deque[_Work] = deque()
        self._large_count = 0
        self.dropped_count = 0

    def __len__(self) -> int:
        """Return how many are under way."""
        return len(self.under_way) + len(self._unbegun)

    def add(
        self,
        steps: Steps[Any],
        done: Done,
        is_over: Callable[[], bool],
        *,
        body_bytes: int = 0,
    ) -> bool:
        """Go on with steps at the end of this turn; False if too many are under way.

        is_over: whether nobody waits for the result any more.
        """
        if len(self) >= REQUESTS_MAX:
            steps.close()
            return False
        work = _Work(steps, done, is_over, is_large(body_bytes))
        if work.is_large:
            self._unbegun.append(work)
            self._begin()
        else:
            self.under_way.append(work)
        return True

    def run(self) -> None:
        """Do steps until none is left or the time is spent."""
        end_seconds = self._clock_seconds() + STEPS_SECONDS
        while self.under_way:
            work = self.under_way.popleft()
            if not self._is_ended(work):
                self.under_way.append(work)
            elif work.is_large:
                self._large_count -= 1
                self._begin()
            if self._clock_seconds() >= end_seconds:
                break

    def _is_ended(self, work: _Work) -> bool:
        """Do a step, or drop the work, and return whether nothing is left of it."""
        if not work.is_over():
            return take_step(work.steps, work.done)
        self.dropped_count += 1
        work.steps.close()
        work.done(None, None)
        return True

    def _begin(self) -> None:
        while self._unbegun and self._large_count < LARGE_MAX:
            self._large_count += 1
            self.under_way.append(self._unbegun.popleft())


def is_large(body_bytes: int) -> bool:
    """Return whether a request waits until few others with such a body are under way."""
    return body_bytes >= LARGE_BODY_BYTES


def take_step(steps: Steps[Any], done: Done) -> bool:
    """Do one step, and return whether it was the last: `done` has the result then."""
    try:
        next(steps)
    except StopIteration as end:
        done(end.value, None)
    except Exception as error:
        done(None, error)
    else:
        return False
    return True
