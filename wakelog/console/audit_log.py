"""Who did what, from where, and what became of it: the newest entries, and a file of all.

What was refused is written, too, but not more of it than REFUSED_MAX within a minute: else whoever
is refused could push out what was done.

A line of the file has `timestamp`, `account` and `address` as a broker's `audit.log`, and the
command that was asked for. The broker has a line about the request of it, in the name of the
console's account.
"""

import json
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

ENTRIES_MAX: Final = 1_000
"""What the page shows; the file has all."""
TEXT_LENGTH_MAX: Final = 4_096
"""Of each part of an entry: the command that sends a message has its body."""
REFUSED_MAX: Final = 60
REFUSED_MS: Final = 60_000


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
        self._refused_since_ms = 0
        self._refused_count = 0

    def add(self, entry: Entry) -> None:
        """Write an entry, and keep it for the page."""
        texts = (_cut(each) for each in entry[1:])
        entry = Entry(entry.at_ms, *texts)
        self.entries.appendleft(entry)
        self._write(_line(entry))

    def add_refused(self, entry: Entry) -> None:
        """Write an entry about a refusal; of too many within a minute, how many there were."""
        if not 0 <= entry.at_ms - self._refused_since_ms < REFUSED_MS:
            if (count := self._refused_count - REFUSED_MAX) > 0:
                self.add(Entry(entry.at_ms, "", "", "further ones", f"refused: {count:,} times"))
            self._refused_since_ms, self._refused_count = entry.at_ms, 0
        self._refused_count += 1
        if self._refused_count <= REFUSED_MAX:
            self.add(entry)


def _line(entry: Entry) -> str:
    """Return the line of an entry, with the time as the broker's logs have it."""
    at = datetime.fromtimestamp(entry.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    values = {"timestamp": at.replace("+00:00", "Z"), **entry._asdict()}
    del values["at_ms"]
    return json.dumps(values)


def _cut(text: str) -> str:
    if len(text) <= TEXT_LENGTH_MAX:
        return text
    return f"{text[:TEXT_LENGTH_MAX]}... ({len(text):,} characters)"
