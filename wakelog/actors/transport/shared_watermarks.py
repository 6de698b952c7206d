"""Shared watermarks: a broker's positions in one page of memory, each written by one process.

A watermark is an aligned 64-bit integer in a cache line of its own. Its writer stores it after the
work that it reports is done. Readers may read at any time, mostly because a notification came.

    line  bytes    what                                     writer  moves when
    0     0        magic                                    -       never
    0     8 to 23  the store's id                           -       never
    1     64       epoch of the Broker that made the page   Broker  a later one replaced the page
    2     128      appended: the log's end                  Broker  a turn's records are written
    3     192      committed: what the segments hold of it  Broker  a write or copy returned
    4     256      flushed: what survives a power cut       Flush   fdatasync returned
    5     320      readable: how far consumers may see      Broker  flushed, or appended, moved
    6     384      dispatched: how far the queues reach     Reput   its files are written
    7     448      stored_ms: store time of the last record Broker  after appended covers it
    8     512      wanted: up to where a sync is waited for Broker  a sync was asked for

Without a transient pool `committed` is `appended`; with one it moves when Commit has copied.

Each Broker incarnation makes a new page, renames it into place, then stores its epoch in the page
that was there before. A service that finds another epoch in its page must map the new one; until
then it reads and writes a page that no other process reads.

Invariants:
- flushed <= committed <= appended, and dispatched <= readable. To check `a <= b`, read `a` first:
  both only grow, so an order that is found wrong was wrong.
- A watermark is stored by one aligned 8-byte store, through `memoryview.cast("q")`. `struct` would
  clear the bytes first, and a reader can see that.
"""

import mmap
import os
from collections.abc import Mapping
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from uuid import UUID

MAGIC = int.from_bytes(b"WAKEMARK", "big")
PAGE_BYTES = 4096
LINE_BYTES = 64  # of every x86-64 and most ARM processors; on Apple's (128) only speed suffers
VALUE_BYTES = 8
_STORE_ID_INDEX = 1  # two 64-bit halves, after the magic


class SharedWatermark(IntEnum):
    """The values that move, by cache line."""

    EPOCH = 1
    APPENDED = 2
    COMMITTED = 3
    FLUSHED = 4
    READABLE = 5
    DISPATCHED = 6
    STORED_MS = 7
    WANTED = 8


_INDEX = {name: name * LINE_BYTES // VALUE_BYTES for name in SharedWatermark}
ORDERED = (
    (SharedWatermark.FLUSHED, SharedWatermark.COMMITTED),
    (SharedWatermark.COMMITTED, SharedWatermark.APPENDED),
    (SharedWatermark.DISPATCHED, SharedWatermark.READABLE),
)
"""Pairs of which the first never passes the second."""

assert max(_INDEX.values()) * VALUE_BYTES + LINE_BYTES <= PAGE_BYTES
assert len(set(_INDEX.values())) == len(SharedWatermark)


class NoSharedWatermarks(Exception):
    """There is no page of this store at the path: its Broker does not run."""


class SharedWatermarks:
    """One process's view of a page."""

    __slots__ = ("_map", "_values", "epoch")

    def __init__(self, path: Path, store_id: UUID) -> None:
        """Map the page at `path`. Raises: NoSharedWatermarks."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise NoSharedWatermarks(f"{path}: {error.strerror}") from error
        try:
            if os.fstat(fd).st_size != PAGE_BYTES:
                raise NoSharedWatermarks(f"{path} does not have the size of a page")
            self._map = mmap.mmap(fd, PAGE_BYTES)
        finally:
            os.close(fd)
        self._values = memoryview(self._map).cast("q")
        if self._values[0] != MAGIC or self.store_id != store_id:
            self.close()
            raise NoSharedWatermarks(f"{path} is not a page of store {store_id}")
        self.epoch = self.get(SharedWatermark.EPOCH)  # of the Broker that made this page

    @property
    def store_id(self) -> UUID:
        """The id of the store."""
        begin = _STORE_ID_INDEX * VALUE_BYTES
        return UUID(bytes=bytes(self._map[begin : begin + 16]))

    @property
    def is_replaced(self) -> bool:
        """Whether a later Broker has made another page."""
        return self.get(SharedWatermark.EPOCH) != self.epoch

    def get(self, name: SharedWatermark) -> int:
        """Return a watermark as it is now."""
        return int(self._values[_INDEX[name]])

    def set(self, name: SharedWatermark, value: int) -> None:
        """Store a watermark that only this process writes; it must not fall."""
        index = _INDEX[name]
        assert value >= self._values[index], (name, value, self._values[index])
        self._values[index] = value

    def replace_by(self, epoch: int) -> None:
        """Mark this page as replaced, for every process that maps it."""
        assert epoch > self.epoch
        self.set(SharedWatermark.EPOCH, epoch)

    def validate(self) -> None:
        """Assert the order of the watermarks; for any process, at any time."""
        for lower, upper in ORDERED:
            low = self.get(lower)
            high = self.get(upper)
            assert low <= high, f"{lower.name} {low} has passed {upper.name} {high}"

    def close(self) -> None:
        """Unmap."""
        self._values.release()
        self._map.close()


def make_shared_watermarks(
    path: Path, store_id: UUID, *, epoch_min: int, values: Mapping[SharedWatermark, int]
) -> SharedWatermarks:
    """Make the page of a new Broker incarnation, mark the page before it, and return it mapped.

    epoch_min: the epoch, unless the page before has a later one because a clock was set back.
    values: what the page begins with; 0 if left out.
    """
    before = None
    with suppress(NoSharedWatermarks):
        before = SharedWatermarks(path, store_id)
    epoch = epoch_min if before is None else max(epoch_min, before.epoch + 1)
    content = bytearray(PAGE_BYTES)
    stored = memoryview(content).cast("q")
    stored[0] = MAGIC
    for name, value in {**values, SharedWatermark.EPOCH: epoch}.items():
        stored[_INDEX[name]] = value
    stored.release()
    begin = _STORE_ID_INDEX * VALUE_BYTES
    content[begin : begin + 16] = store_id.bytes
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)
    os.rename(temporary, path)
    if before is not None:
        before.replace_by(epoch)
        before.close()
    page = SharedWatermarks(path, store_id)
    page.validate()
    return page
