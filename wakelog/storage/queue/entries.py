"""The entries of a consume queue: their layout, and searches for ends and begins among them.

All numbers are big endian; docs/formats/consume_queue.md has the same in words. These positions are
on disk and never change.

    offset  width  field
    0         8    physical offset of the record in the log
    8         4    size of the record; 0: no entry was written here
    12        8    tags code, or time of delivery, or address of an extension unit

Before a first entry inside a file, places are filled with padding: physical offset 0, size
0x7FFFFFFF, tags code 0.

Physical offsets ascend inside a queue, so a search can bisect. But an entry that the disk damaged
misleads a bisection: it would hide all later entries, or all earlier ones. So the result is
compared with the entries near it, and where they disagree the search continues there.

Invariants:
- Among ascending entries a search gives what a check of every entry would give.
- A few damaged entries hide only themselves; so does a damaged page where the search may wait.

Source: none upstream; 4.9.3 keeps these positions in memory.
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from wakelog.compiled.layout import ENTRY_BYTES

ENTRY: Final = struct.Struct(">qiq")
PADDING_SIZE: Final = 0x7FFFFFFF
PADDING_ENTRY: Final = ENTRY.pack(0, PADDING_SIZE, 0)
PAGE_BYTES: Final = 4096
NEAR_COUNT: Final = 2 * PAGE_BYTES // ENTRY_BYTES
"""So many places near a result are compared: disks lose whole pages, and an entry may span two."""

Entry = tuple[int, ...]
"""Physical offset, size, tags code; zeros where nothing was written."""

Holds = Callable[[Entry], bool]
"""Whether an entry belongs to the front part that a search wants."""


assert ENTRY.size == ENTRY_BYTES


class QueueEntry(NamedTuple):
    """One entry; a size of 0 means that none was written there."""

    physical_offset: int
    size_bytes: int
    tags_code: int

    @property
    def is_padding(self) -> bool:
        """Whether it only fills the place before a queue's first entry."""
        return self.size_bytes == PADDING_SIZE and self.physical_offset == 0


class Arrival(NamedTuple):
    """A queue has grown to `next_queue_offset`; tags_code is None for several messages."""

    topic: str
    queue_id: int
    next_queue_offset: int
    tags_code: int | None


class Entries(Protocol):
    """Places of a queue by their queue offsets."""

    def at(self, place: int) -> Entry:
        """Return one entry."""

    def some(self, begin: int, count: int) -> list[Entry]:
        """Return up to `count` entries of one file, without the empty ones at their end."""

    def near_count(self, begin: int) -> int:
        """Return how many entries from a place on count as near."""


def front_end(entries: Entries, low: int, end: int, holds: Holds) -> int:
    """Return the end of the front part of [low, end) whose entries satisfy `holds`, else `low`."""
    while low < end:
        found = _gallop(entries, low + 1, end, holds) if holds(entries.at(low)) else low
        later = last_near(entries, found, end, holds)
        if later is None:
            return found
        low = later
    return low


def last_near(entries: Entries, place: int, end: int, holds: Holds) -> int | None:
    """Return the last place shortly after `place` whose entry satisfies `holds`, None if none."""
    begin = place + 1
    count = min(end - begin, entries.near_count(begin))
    some = entries.some(begin, count) if count > 0 else []
    if not some:
        return None
    # An entry below the one in front is damaged itself.
    floor = entries.at(place - 1)[0] if place > 0 else -1
    held = (i for i in reversed(range(len(some))) if some[i][0] >= floor and holds(some[i]))
    last = next(held, None)
    return None if last is None else begin + last


def first_not_below(entries: Entries, low: int, end: int, physical_offset: int) -> int:
    """Return the first place of [low, end) whose record is not below an offset, or `end`."""

    def is_below(entry: Entry) -> bool:
        return entry[0] < physical_offset

    found = bisect(entries, low, end, is_below)
    while (near := max(low, found - NEAR_COUNT)) < found:
        some = entries.some(near, found - near)
        kept = next((i for i, entry in enumerate(some) if not is_below(entry)), None)
        if kept is None:
            break
        found = bisect(entries, low, near + kept, is_below)
    return found


def end_below(entries: Entries, begin: int, end: int, physical_offset: int) -> int:
    """Return the end of the written entries of records below an offset."""

    def is_below(entry: Entry) -> bool:
        return entry[0] < physical_offset

    def is_written_below(entry: Entry) -> bool:
        return entry[1] > 0 and is_below(entry)

    kept = bisect(entries, begin, end, is_below)
    while (later := last_near(entries, kept, end, is_written_below)) is not None:
        kept = bisect(entries, later + 1, end, is_below)
    return kept


def bisect(entries: Entries, low: int, high: int, holds: Holds) -> int:
    """Return the first place of [low, high) for which `holds` is false, `high` if all do."""
    while low < high:
        middle = (low + high) // 2
        if holds(entries.at(middle)):
            low = middle + 1
        else:
            high = middle
    return low


def _gallop(entries: Entries, low: int, end: int, holds: Holds) -> int:
    # Growing steps from the front: a queue that was searched before has few new entries.
    step = 1
    while low < end:
        probe = min(low + step, end) - 1
        if not holds(entries.at(probe)):
            return bisect(entries, low, probe, holds)
        low = probe + 1
        step *= 2
    return end
