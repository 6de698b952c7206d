"""Compares a store's index with a rebuild of it: the keys, and which records they lead to.

The boundaries of index files depend on when a broker ran. So files that are not all equal are
compared by their (hash, record) pairs, all files together. A repeated pair, as 4.9.3 leaves after
a crash, counts once. In each file the chains and slots have to agree with the entries, because a
query would miss the others.
"""

from collections.abc import Iterator
from posixpath import join
from typing import Any

import numpy as np

from wakelog.audit.findings import Compared, Finding, Severity
from wakelog.audit.queue_compare import Span
from wakelog.audit.same_bytes import same_bytes
from wakelog.compiled.layout import ENTRY_BYTES
from wakelog.storage.file_system import FileSystem, reading, size_of
from wakelog.storage.index.index_block import ENTRY_DTYPE
from wakelog.storage.index.index_file import (
    ENTRY_FIRST,
    HEADER_BYTES,
    SLOT_BYTES,
    IndexHeader,
    IndexShape,
    decode_header,
)
from wakelog.storage.index.index_repair import newest_by_slot, sound_entries_count
from wakelog.storage.index.index_service import index_names

Array = np.ndarray[Any, Any]
_BEYOND_ALL = 1 << 62


def compare_index(
    fs: FileSystem, found: str, expected: str, shape: IndexShape, log: Span
) -> Compared:
    """Return the number of keys in index folder `found`, and what differs in it."""
    names, made = _whole_files(fs, found, shape), _whole_files(fs, expected, shape)
    count = _same_count(
        fs, [join(found, name) for name in names], [join(expected, name) for name in made], shape
    )
    if count is not None:
        return Compared(count, [])
    differences: list[Finding] = []
    theirs = []
    for name in names:
        header, entries, slots = _read(fs, join(found, name), shape)
        sound_count = sound_entries_count(entries, shape.slot_count, _BEYOND_ALL)
        if sound_count < len(entries):
            at = int(entries["physical_offset"][sound_count])
            left_out = len(entries) - sound_count
            differences.append(_difference(name, "entries out of order", left_out, at))
        wrong = int((slots != newest_by_slot(entries, shape.slot_count)).sum())
        if wrong:
            reason = "slots that do not lead to the newest entry"
            differences.append(_difference(name, reason, wrong))
        theirs.append((header, entries[ENTRY_FIRST:]))
    ours = []
    for name in made:
        header, entries, _ = _read(fs, join(expected, name), shape)
        ours.append((header, entries[ENTRY_FIRST:]))
    for name, (header, has), (wanted, wants) in zip(names, theirs, ours, strict=False):
        same_seconds = np.array_equal(has["seconds"], wants["seconds"])
        same_records = np.array_equal(has["physical_offset"], wants["physical_offset"])
        if same_records and _hides(header, wanted, same_seconds=same_seconds):
            differences.append(_difference(name, "a header that is not of its keys", len(has)))
    keys, wanted_keys = (
        np.concatenate([np.zeros(0, dtype=ENTRY_DTYPE), *(entries for _, entries in side)])
        for side in (theirs, ours)
    )
    differences += _pair_differences(keys, wanted_keys, log)
    return Compared(len(keys), differences)


def _difference(
    name: str, reason: str, affected_count: int, physical_offset: int | None = None
) -> Finding:
    """Return the finding of `affected_count` keys of a file; `physical_offset` is of the first."""
    place = join("index", name) if name else "index"
    return Finding(
        Severity.DAMAGE, "index", place, reason, physical_offset, affected_count=affected_count
    )


def _same_count(
    fs: FileSystem, found: list[str], expected: list[str], shape: IndexShape
) -> int | None:
    """Return the number of keys if both sides are equal byte for byte, else None."""
    if len(found) != len(expected):
        return None
    count = 0
    for one, other in zip(found, expected, strict=True):
        with reading(fs, one) as fd:  # a wrong header makes the first bytes differ
            header = decode_header(fs.pread(fd, HEADER_BYTES, 0))
        end = min(header.entry_next, shape.entry_count)
        if not same_bytes(fs, one, other, shape.entries_position + ENTRY_BYTES * end):
            return None
        count += end - ENTRY_FIRST
    return count


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


def _read(fs: FileSystem, path: str, shape: IndexShape) -> tuple[IndexHeader, Array, Array]:
    with reading(fs, path) as fd:
        header = decode_header(fs.pread(fd, HEADER_BYTES, 0))
        count = min(header.entry_next, shape.entry_count)
        entries = fs.pread(fd, ENTRY_BYTES * count, shape.entries_position)
        slots = fs.pread(fd, SLOT_BYTES * shape.slot_count, HEADER_BYTES)
    return header, np.frombuffer(entries, dtype=ENTRY_DTYPE), np.frombuffer(slots, dtype=">i4")


def _pair_differences(theirs: Array, ours: Array, log: Span) -> Iterator[Finding]:
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
            yield _difference("", reason, len(pairs), int(pairs["physical_offset"][0]))


def _pairs(entries: Array) -> Array:
    pairs = np.empty(len(entries), dtype=[("physical_offset", "i8"), ("hash", "i4")])
    pairs["physical_offset"] = entries["physical_offset"]
    pairs["hash"] = entries["hash"]
    return pairs
