"""Workers for tests of what reads and scans ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from wakelog.dispatchers.parallel.stretches import InTurn, Later

T = TypeVar("T")


class LaterWorker(InTurn):
    """Begins nothing before somebody waits for it: the latest that a thread may come."""

    def __init__(self) -> None:
        self.submitted_count = 0

    def submit(self, work: Callable[[], T], /) -> Later[T]:
        self.submitted_count += 1
        return super().submit(work)
