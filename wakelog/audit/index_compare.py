"""Compares a store's index with a rebuild of it: the keys, and which records they lead to.

The boundaries of index files depend on when a broker ran. So files that are not all equal are
compared by their (hash, record) pairs, all files together. A repeated pair, as 4.9.3 leaves after
a crash, counts once. In each file the chains and slots have to agree with the entries, because a
query would miss the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import join
from typing import Any, NamedTuple

import numpy as np

from wakelog.audit.queue_compare import Span
from wakelog.audit.same_bytes import same_bytes
from wakelog.storage.file_system import FileSystem, naming, size_of
from wakelog.storage.index.index_file import (
    ENTRY_FIRST,
    HEADER_BYTES,
    SLOT_BYTES,
    IndexHeader,
    IndexShape,
    decode_header,
)
from wakelog.storage.index.index_repair import ENTRY_DTYPE, newest_by_slot, sound_entries_count
from wakelog.storage.index.index_service import index_names
from wakelog.storage.kernels.layout import ENTRY_BYTES

Array = np.ndarray[Any, Any]
_BEYOND_ALL = 1 << 62


class IndexDifference(NamedTuple):
    """`affected_count` keys of file `name`; `physical_offset` is that of the first."""

    name: str
    affected_count: int
    physical_offset: int | None
    reason: str


def compare_index(
    fs: FileSystem, found: str, expected: str, shape: IndexShape, log: Span
) -> Iterator[IndexDifference | int]:
    """Yield the differences of index folder `found`, and the number of keys of each file."""
    names, made = _whole_files(fs, found, shape), _whole_files(fs, expected, shape)
    counts = _same_counts(
        fs, [join(found, name) for name in names], [join(expected, name) for name in made], shape
    )
    if counts is not None:
        yield from counts
        return
    theirs: list[Array] = [np.zeros(0, dtype=ENTRY_DTYPE)]
    for name in names:
        entries, slots = _read(fs, join(found, name), shape)
        sound_count = sound_entries_count(entries, shape.slot_count, _BEYOND_ALL)
        used_count = len(entries) - ENTRY_FIRST
        if sound_count < len(entries):
            at = int(entries["physical_offset"][sound_count])
            yield IndexDifference(name, len(entries) - sound_count, at, "entries out of order")
        wrong = int((slots != newest_by_slot(entries, shape.slot_count)).sum())
        if wrong:
            yield IndexDifference(name, wrong, None, "slots that do not lead to the newest entry")
        yield used_count
        theirs.append(entries[ENTRY_FIRST:])
    ours = [np.zeros(0, dtype=ENTRY_DTYPE)]
    for name in made:
        ours.append(_read(fs, join(expected, name), shape)[0][ENTRY_FIRST:])
    for name, other, has, wants in zip(names, made, theirs[1:], ours[1:], strict=False):
        if not _same(has, wants, "physical_offset"):
            continue
        header, wanted = _header(fs, join(found, name)), _header(fs, join(expected, other))
        if _hides(header, wanted, same_seconds=_same(has, wants, "seconds")):
            yield IndexDifference(name, len(has), None, "a header that is not of its keys")
    yield from _pair_differences(np.concatenate(theirs), np.concatenate(ours), log)


def _same_counts(
    fs: FileSystem, found: list[str], expected: list[str], shape: IndexShape
) -> list[int] | None:
    """Return the number of keys of each file if both sides are equal byte for byte, else None."""
    if len(found) != len(expected):
        return None
    counts = []
    for one, other in zip(found, expected, strict=True):
        header = _header(fs, one)  # a wrong header makes the first bytes differ
        end = min(header.entry_next, shape.entry_count)
        if not same_bytes(fs, one, other, shape.entries_position + ENTRY_BYTES * end):
            return None
        counts.append(end - ENTRY_FIRST)
    return counts


def _header(fs: FileSystem, path: str) -> IndexHeader:
    fd = fs.open(path, read_only=True)
    try:
        with naming(path):
            return decode_header(fs.pread(fd, HEADER_BYTES, 0))
    finally:
        fs.close(fd)


def _same(has: Array, wants: Array, field: str) -> bool:
    return np.array_equal(has[field], wants[field])


def _hides(header: IndexHeader, wanted: IndexHeader, *, same_seconds: bool) -> bool:
    """Return whether a wrong header hides keys from queries by time, or lets retention remove them.

    A header may begin earlier than its first key, at the end of an earlier file that was removed.
    Then the seconds of its entries differ as well.
    """
    begin_ms, wanted_ms = header.begin_timestamp_ms, wanted.begin_timestamp_ms
    return (
        (begin_ms > wanted_ms or (begin_ms < wanted_ms and same_seconds))
        or header.end_timestamp_ms < wanted.end_timestamp_ms
        or header.end_physical_offset != wanted.end_physical_offset
    )


def _whole_files(fs: FileSystem, directory: str, shape: IndexShape) -> list[str]:
    names = []
    for name in index_names(fs, directory):
        path = join(directory, name)
        if fs.is_file(path) and size_of(fs, path) == shape.file_bytes:
            names.append(name)
    return names


def _read(fs: FileSystem, path: str, shape: IndexShape) -> tuple[Array, Array]:
    fd = fs.open(path, read_only=True)
    try:
        with naming(path):
            header = decode_header(fs.pread(fd, HEADER_BYTES, 0))
            count = min(header.entry_next, shape.entry_count)
            entries = fs.pread(fd, ENTRY_BYTES * count, shape.entries_position)
            slots = fs.pread(fd, SLOT_BYTES * shape.slot_count, HEADER_BYTES)
    finally:
        fs.close(fd)
    return np.frombuffer(entries, dtype=ENTRY_DTYPE), np.frombuffer(slots, dtype=">i4")


def _pair_differences(theirs: Array, ours: Array, log: Span) -> Iterator[IndexDifference]:
    theirs = theirs[theirs["physical_offset"] >= log.begin]
    if len(theirs) == len(ours) and all(
        np.array_equal(theirs[field], ours[field]) for field in ("hash", "physical_offset")
    ):
        return
    has, wanted = _pairs(theirs), _pairs(ours)
    for reason, pairs in (
        ("keys of records are missing", np.setdiff1d(wanted, has)),
        ("keys of no record", np.setdiff1d(has, wanted)),
    ):
        if len(pairs):
            yield IndexDifference("", len(pairs), int(pairs["physical_offset"][0]), reason)


def _pairs(entries: Array) -> Array:
    pairs = np.empty(len(entries), dtype=[("physical_offset", "i8"), ("hash", "i4")])
    pairs["physical_offset"] = entries["physical_offset"]
    pairs["hash"] = entries["hash"]
    return pairs
