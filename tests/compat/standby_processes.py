"""JVMs that start before a test asks for them: one stands by while another is in use.

A start takes most of a second, in which a test would only wait. The first to be asked for is
started then, and the next one along with it; from then on there always is one more than is used.
`end_standbys` ends those that nobody took: tests/conftest.py calls it at the end of a session.

Their own files lie below a temporary directory, not in a folder of the test, which nobody knows yet
when they start.
"""

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Standbys(Generic[T]):
    """What is started ahead: programs of one kind, each with a folder of its own."""

    def __init__(self, start: Callable[[Path], T], end: Callable[[T], None]) -> None:
        """Start nothing yet. `start` may return before the program is ready, and should."""
        self._start = start
        self._end = end
        self._next: T | None = None
        self._place: tempfile.TemporaryDirectory[str] | None = None
        self._folders_count = 0
        self._turn = threading.RLock()

    def take(self) -> T:
        """Return a program that is the caller's to end, and start the next."""
        with self._turn:
            taken = self._next if self._next is not None else self._start(self.make_folder())
            self._next = None
            self._next = self._start(self.make_folder())
        return taken

    def make_folder(self) -> Path:
        """Return a folder that nobody has."""
        with self._turn:
            if self._place is None:
                self._place = tempfile.TemporaryDirectory()
                end_with_session(self)
            self._folders_count += 1
            folder = Path(self._place.name, str(self._folders_count))
        folder.mkdir()
        return folder

    def close(self) -> None:
        """End the one that stands by, and remove the files of all."""
        if self._next is not None:
            self._end(self._next)
            self._next = None
        if self._place is not None:
            self._place.cleanup()
            self._place = None


class Closable(Protocol):
    """What ends with the session."""

    def close(self) -> None:
        """End it."""


_in_use: list[Closable] = []


def end_with_session(running: Closable) -> None:
    """Have something closed when the session ends."""
    _in_use.append(running)


def end_standbys() -> None:
    """End whatever stands by."""
    while _in_use:
        _in_use.pop().close()
