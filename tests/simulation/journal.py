"""What happens to a simulated disk, as values: the alphabet between `disk` and `images`.

An operation that changes a file, a name or a length is noted before its durability is known; a
sync is noted after it. Marks stand between them where a client learned something, so that each
prefix of a journal says what was asked of the disk and what was promised by then.
"""

from typing import Any, NamedTuple


class Wrote(NamedTuple):
    """Bytes went into the page cache of a file; `size_before` tells whether they made it longer."""

    inode: int
    position: int
    data: bytes
    size_before: int


class Resized(NamedTuple):
    """A file got another length by truncation or allocation; new bytes are zero."""

    inode: int
    length: int


class Linked(NamedTuple):
    """A name was given to a file, new or not."""

    path: str
    inode: int


class Unlinked(NamedTuple):
    """A name was taken away."""

    path: str


class Renamed(NamedTuple):
    """A file moved from one name to another within a directory, in one step."""

    source: str
    target: str
    inode: int


class MadeDirectory(NamedTuple):
    """A directory was made."""

    path: str


class RemovedDirectory(NamedTuple):
    """An empty directory was removed."""

    path: str


class Synced(NamedTuple):
    """Everything written to a file so far is durable, lost pages excepted."""

    inode: int


class SyncedDirectory(NamedTuple):
    """Every name in a directory is durable as it is now."""

    path: str


class LostPages(NamedTuple):
    """Write-back of a file failed: its pages are clean, and the disk holds this, for good."""

    inode: int
    durable: bytes


class Mark(NamedTuple):
    """A client learned something."""

    event: Any


Operation = (
    Wrote
    | Resized
    | Linked
    | Unlinked
    | Renamed
    | MadeDirectory
    | RemovedDirectory
    | Synced
    | SyncedDirectory
    | LostPages
    | Mark
)
