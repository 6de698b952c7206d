"""Workers for tests of what reads and scans ahead."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Later(Generic[T]):
    """Work that runs once, when its result is requested."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._results: list[T] = []

    def done(self) -> bool:
        return True

    def result(self) -> T:
        if not self._results:
            self._results.append(self._work())
        return self._results[0]


class InTurn:
    """Begins no work before its result is requested."""

    def submit(self, work: Callable[[], T], /) -> Later[T]:
        return Later(work)


class LaterWorker(InTurn):
    """Begins no work before a caller waits for it, as late as a thread may."""

    def __init__(self) -> None:
        self.submitted_count = 0

    def submit(self, work: Callable[[], T], /) -> Later[T]:
        self.submitted_count += 1
        return super().submit(work)


class Slow(Later[T]):
    """Work that is not done before a caller waits for it; `done` says so."""

    def done(self) -> bool:
        return bool(self._results)


class SlowWorker(LaterWorker):
    """Is never done early, so that a caller should do other work first."""

    def submit(self, work: Callable[[], T], /) -> Slow[T]:
        super().submit(work)
        return Slow(work)
