"""Durations that wait to be recorded until the next request is on its way.

To record one takes the SDK 10 µs. Then the broker and the SDK work at the same time.

Invariants: a reader of metrics gets all that was added before it collects. At most
`DURATIONS_WAITING_MAX` wait.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, Generic, TypeVar

Record = Callable[[], None]
Result = TypeVar("Result")

DURATIONS_WAITING_MAX: Final = 256
"""One more, and the first is recorded."""


class Durations:
    """See the module. Any thread."""

    def __init__(self) -> None:
        """Have none."""
        self._waiting: deque[Record] = deque()

    def add(self, record: Record) -> None:
        """Record later."""
        self._waiting.append(record)
        if len(self._waiting) > DURATIONS_WAITING_MAX:
            self._record_first()

    def record_all(self) -> None:
        """Record what waits."""
        while self._waiting:
            self._record_first()

    def _record_first(self) -> None:
        try:
            record = self._waiting.popleft()
        except IndexError:  # another thread has it
            return
        record()


class Meanwhile(Generic[Result]):
    """Wait for something, and do something else once it waits itself."""

    def __init__(self, running: Awaitable[Result], work: Callable[[], None]) -> None:
        """Begin with neither."""
        self._running, self._work = running, work

    def __await__(self) -> Generator[Any, Any, Result]:
        """Do both."""
        steps = self._running.__await__()
        try:
            waited_for = next(steps)
        except StopIteration as ended:
            result: Result = ended.value
            return result
        self._work()
        return (yield from _going_on(steps, waited_for))


def _going_on(steps: Generator[Any, Any, Result], waited_for: Any) -> Generator[Any, Any, Result]:
    """Go on with steps of which the first has been taken."""
    while True:
        failure: BaseException | None = None
        answer = None
        try:
            answer = yield waited_for
        except BaseException as error:
            failure = error
        try:
            waited_for = steps.send(answer) if failure is None else steps.throw(failure)
        except StopIteration as ended:
            result: Result = ended.value
            return result


DURATIONS: Final = Durations()
"""Of this process: an instrument of an earlier instrumentor may be the one that is read."""
