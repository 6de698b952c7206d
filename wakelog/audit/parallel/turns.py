"""Work that is done in the caller's own thread, in the form in which workers elsewhere do it.

InTurn   when its result is asked for: where one core is all there is
AT_ONCE  now: for who would only wait for what others do
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class InTurn:
    """A worker that begins nothing before it is wanted: where one core is all there is."""

    def submit(self, work: Callable[[], T], /) -> Later[T]:
        """Keep the work."""
        return Later(work)


class Later(Generic[T]):
    """Work that is done when it is asked for, once."""

    __slots__ = ("_results", "_work")

    def __init__(self, work: Callable[[], T]) -> None:
        """Do nothing yet."""
        self._work = work
        self._results: list[T] = []

    def done(self) -> bool:
        """Nothing is gained by waiting."""
        return True

    def result(self) -> T:
        """Do it, unless it was; return what came of it or raise what it raises."""
        if not self._results:
            self._results.append(self._work())
        return self._results[0]


class AtOnce:
    """A worker that is the caller's own thread."""

    def submit(self, work: Callable[[], T], /) -> Later[T]:
        """Do the work; what it raises is raised again when the result is asked for."""
        later = Later(work)
        with contextlib.suppress(Exception):
            later.result()
        return later


AT_ONCE: Final = AtOnce()
