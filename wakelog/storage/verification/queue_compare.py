"""Holds one consume queue against a rebuild of it: both ways, entry by entry.

Entries of messages that the log does not hold any more are left alone: nothing proves them. An
entry whose tags code is the address of an extension unit is compared by its place alone.

Invariants: one file of each side is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import join
from typing import Any, Final, NamedTuple

import numpy as np

from wakelog.storage.bulk.layout import ENTRY_BYTES
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import parse_offset_name
from wakelog.storage.queue.consume_queue import PADDING_SIZE

Array = np.ndarray[Any, Any]
ENTRY_DTYPE: Final = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
_EXTENSION_MAX: Final = -(1 << 31) - 1

assert ENTRY_DTYPE.itemsize == ENTRY_BYTES


class Span(NamedTuple):
    """What the log holds: physical offsets [begin, end)."""

    begin: int
    end: int


class QueueDifference(NamedTuple):
    """`affected_count` places from `queue_offset` on, and the record of the first."""

    queue_offset: int
    affected_count: int
    physical_offset: int
    reason: str


def compare_queue(
    fs: FileSystem, found: str, expected: str, file_bytes: int, log: Span
) -> Iterator[QueueDifference | int]:
    """Yield differences of two queue folders and, for each file, how many entries were compared."""
    found_files, expected_files = _files(fs, found), _files(fs, expected)
    for start in sorted(found_files | expected_files):
        theirs = _entries(fs, join(found, f"{start:020d}"), file_bytes, start in found_files)
        ours = _entries(fs, join(expected, f"{start:020d}"), file_bytes, start in expected_files)
        yield int((theirs["size"] > 0).sum())
        yield from _differences(theirs, ours, start // ENTRY_BYTES, log)


def _files(fs: FileSystem, directory: str) -> set[int]:
    try:
        names = fs.list_directory(directory)
    except (FileNotFoundError, NotADirectoryError):
        return set()
    starts = {parse_offset_name(name) for name in names if fs.is_file(join(directory, name))}
    return {start for start in starts if start is not None}


def _entries(fs: FileSystem, path: str, file_bytes: int, exists: bool) -> Array:
    data = b""
    if exists:
        fd = fs.open(path, read_only=True)
        try:
            data = fs.pread(fd, file_bytes, 0)
        finally:
            fs.close(fd)
    return np.frombuffer(data.ljust(file_bytes, b"\0"), dtype=ENTRY_DTYPE)


def _differences(
    theirs: Array, ours: Array, queue_offset: int, log: Span
) -> Iterator[QueueDifference]:
    has, wanted = theirs["size"] > 0, ours["size"] > 0
    ours_padded = (ours["size"] == PADDING_SIZE) & (ours["physical_offset"] == 0)
    old = has & (theirs["physical_offset"] < log.begin)
    same_place = (theirs["physical_offset"] == ours["physical_offset"]) & (
        theirs["size"] == ours["size"]
    )
    same_tags = (theirs["tags_code"] == ours["tags_code"]) | (theirs["tags_code"] <= _EXTENSION_MAX)
    same = (same_place & same_tags) | (old & (ours_padded | ~wanted))
    beyond = has & ~same & (theirs["physical_offset"] >= log.end)
    reasons = (
        ("no entry", ~has & wanted & ~ours_padded, ours),
        ("entries of records behind the log's end", beyond, theirs),
        ("entries of no record", has & ~wanted & ~old & ~beyond, theirs),
        ("another entry than the record's", has & wanted & ~same & ~beyond, ours),
    )
    for reason, places, source in reasons:
        for begin, end in _runs(places):
            yield QueueDifference(
                queue_offset + begin, end - begin, int(source["physical_offset"][begin]), reason
            )


def _runs(places: Array) -> list[tuple[int, int]]:
    """Return [begin, end) of each stretch of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], places, [False]))))
    return [(int(edges[i]), int(edges[i + 1])) for i in range(0, len(edges), 2)]
