"""LongWork: requests whose work goes on in steps, so that nobody waits for the whole of it.

A turn gives them ``STEPS_SECONDS`` after the other requests: one piece of each in turn. A request
whose connection is closed is dropped between two pieces.

Invariants: at most ``REQUESTS_MAX`` requests are under way.

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

Done = Callable[[Any, Exception | None], None]
"""Called with the result and None, or with None and the error that the steps raised."""


class _Work(NamedTuple):
    steps: Steps[Any]
    done: Done
    is_over: Callable[[], bool]


class LongWork:
    """The requests that are under way, each between two of its steps."""

    def __init__(self, clock_seconds: Callable[[], float]) -> None:
        self._clock_seconds = clock_seconds
        self._under_way: deque[_Work] = deque()
        self.dropped_count = 0

    def __len__(self) -> int:
        """Return how many are under way."""
        return len(self._under_way)

    def add(self, steps: Steps[Any], done: Done, is_over: Callable[[], bool]) -> bool:
        """Go on with steps at the end of this turn; False if too many are under way.

        is_over: whether nobody waits for the result any more.
        """
        if len(self._under_way) >= REQUESTS_MAX:
            steps.close()
            return False
        self._under_way.append(_Work(steps, done, is_over))
        return True

    def run(self) -> None:
        """Do steps until none is left or the time is spent."""
        if not self._under_way:
            return
        end_seconds = self._clock_seconds() + STEPS_SECONDS
        while self._under_way:
            work = self._under_way.popleft()
            if work.is_over():
                self.dropped_count += 1
                work.steps.close()
                work.done(None, None)
            elif not take_step(work.steps, work.done):
                self._under_way.append(work)
            if self._clock_seconds() >= end_seconds:
                break


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
