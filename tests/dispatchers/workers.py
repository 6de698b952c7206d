"""Workers for tests of what reads and scans ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from wakelog.audit.workers import InTurn, Later

T = TypeVar("T")


class LaterWorker(InTurn):
    """Begins nothing before somebody waits for it: the latest that a thread may come."""

    def __init__(self) -> None:
        self.submitted_count = 0

    def submit(self, work: Callable[[], T], /) -> Later[T]:
        self.submitted_count += 1
        return super().submit(work)


class Slow(Later[T]):
    """Work that is not done before somebody waits for it, and says so."""

    def done(self) -> bool:
        return bool(self._results)


class SlowWorker(LaterWorker):
    """Is behind with everything: who can do something else meanwhile had better."""

    def submit(self, work: Callable[[], T], /) -> Slow[T]:
        super().submit(work)
        return Slow(work)
