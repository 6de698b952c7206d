"""Workers for tests of what reads and scans ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from wakelog.audit.workers import InTurn, Later

T = TypeVar("T")


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
