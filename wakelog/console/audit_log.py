"""Who did what, from where, and what became of it: the newest entries, and a file of all."""

import json
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

ENTRIES_MAX: Final = 1_000
"""What the page shows; the file has all."""


class Entry(NamedTuple):
    """One action that was asked for. result: done, refused or failed, and why."""

    at_ms: int
    account: str
    address: str
    command: str
    result: str


class AuditLog:
    """See the module."""

    def __init__(
        self, write: Callable[[str], None], close: Callable[[], None] = lambda: None
    ) -> None:
        """Know nothing yet. write: takes each line of the file; close: closes it."""
        self.entries: deque[Entry] = deque(maxlen=ENTRIES_MAX)
        self._write = write
        self.close = close

    def add(self, entry: Entry) -> None:
        """Write an entry, and keep it for the page."""
        self.entries.appendleft(entry)
        self._write(json.dumps(entry._asdict(), ensure_ascii=False))
