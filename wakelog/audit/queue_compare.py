"""Compares one consume queue with a rebuild of it, entry by entry and in both directions.

Entries of messages that the log does not hold any more are skipped: nothing can prove them.

An entry may hold the address of an extension unit in place of its tags code. Addresses differ
between the sides, so the units' tags codes and store times are compared instead. A store that was
written without units for a while may lack one. Without access to the units, an entry with an
address is compared by its place only.

A bitmap is right if it has all bits that the message must have. It may have more, of filters that
existed when it was made and that are unknown now. The rebuilt unit has exactly the required bits.

Invariants: one file of each side is in memory at a time.
"""

import contextlib
from collections.abc import Iterator
from enum import Enum
from posixpath import join
from typing import Any, Final, NamedTuple

import numpy as np

from wakelog.audit.findings import Compared, Finding, Severity
from wakelog.audit.same_bytes import same_bytes
from wakelog.compiled.layout import ENTRY_BYTES
from wakelog.storage.file_system import FileSystem, reading
from wakelog.storage.log.queue_offsets import QueueKey
from wakelog.storage.paths import parse_offset_name
from wakelog.storage.queue.consume_queue_ext import (
    EXTENSION_ADDRESS_MAX,
    ConsumeQueueExt,
    is_extension_address,
)
from wakelog.storage.queue.crash_end import ENTRY_DTYPE
from wakelog.storage.queue.entries import PADDING_SIZE

Array = np.ndarray[Any, Any]

NO_ENTRY: Final = "no entry"
BEYOND_END: Final = "entries of records after the log's end"

assert ENTRY_DTYPE.itemsize == ENTRY_BYTES


class Span(NamedTuple):
    """The physical offsets [begin, end) that the log holds."""

    begin: int
    end: int


class Extensions(NamedTuple):
    """The units of both sides of one queue."""

    found: ConsumeQueueExt
    expected: ConsumeQueueExt


def compare_queue(
    fs: FileSystem,
    key: QueueKey,
    found: str,
    expected: str,
    file_bytes: int,
    log: Span,
    extensions: Extensions | None = None,
) -> Compared:
    """Return the number of entries in folder `found` of a queue, and what differs in it."""
    found_files, expected_files = _files(fs, found), _files(fs, expected)
    entries_count, differences = 0, list[Finding]()
    for start in sorted(found_files | expected_files):
        paths = [join(directory, f"{start:020d}") for directory in (found, expected)]
        if extensions is None and start in found_files & expected_files:
            count = _same_entries(fs, paths[0], paths[1], file_bytes)
            if count is not None:
                entries_count += count
                continue
        theirs = _entries(fs, paths[0], file_bytes, start in found_files)
        ours = _entries(fs, paths[1], file_bytes, start in expected_files)
        entries_count += _entries_count(theirs)
        differences += _differences(key, theirs, ours, start // ENTRY_BYTES, log, extensions)
    return Compared(entries_count, differences)


def _entries_count(entries: Array) -> int:
    return int((entries["size"] > 0).sum())


def _same_entries(fs: FileSystem, found: str, expected: str, file_bytes: int) -> int | None:
    """Return the number of entries if both files are equal byte for byte, else None."""
    count = 0

    def count_entries(piece: bytearray) -> None:
        nonlocal count
        count += _entries_count(np.frombuffer(piece, dtype=ENTRY_DTYPE))

    try:
        return count if same_bytes(fs, found, expected, file_bytes, count_entries) else None
    except FileNotFoundError:
        return None  # a broker that runs has removed it since


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
        # A broker that runs may have removed it since.
        with contextlib.suppress(FileNotFoundError), reading(fs, path) as fd:
            data = fs.pread(fd, file_bytes, 0)
    return np.frombuffer(data.ljust(file_bytes, b"\0"), dtype=ENTRY_DTYPE)


def _differences(
    key: QueueKey,
    theirs: Array,
    ours: Array,
    queue_offset: int,
    log: Span,
    extensions: Extensions | None,
) -> Iterator[Finding]:
    has, wanted = theirs["size"] > 0, ours["size"] > 0
    ours_padded = (ours["size"] == PADDING_SIZE) & (ours["physical_offset"] == 0)
    old = has & (theirs["physical_offset"] < log.begin)
    same_place = (theirs["physical_offset"] == ours["physical_offset"]) & (
        theirs["size"] == ours["size"]
    )
    has_unit = theirs["tags_code"] <= EXTENSION_ADDRESS_MAX
    has_units = has_unit | (ours["tags_code"] <= EXTENSION_ADDRESS_MAX)
    same_tags = (theirs["tags_code"] == ours["tags_code"]) | has_units
    same = (same_place & same_tags) | (old & (ours_padded | ~wanted))
    beyond = has & ~same & (theirs["physical_offset"] >= log.end)
    lost, wrong = np.zeros_like(has), np.zeros_like(has)
    if extensions is not None:
        for i in np.flatnonzero(has & wanted & same_place & has_units & ~old).tolist():
            outcome = _compare_units(
                int(theirs["tags_code"][i]), int(ours["tags_code"][i]), extensions
            )
            lost[i], wrong[i] = outcome is _Unit.LOST, outcome is _Unit.WRONG
    reasons = (
        (NO_ENTRY, ~has & wanted & ~ours_padded, ours),
        (BEYOND_END, beyond, theirs),
        ("entries of no record", has & ~wanted & ~old & ~beyond, theirs),
        ("another entry than the record's", has & wanted & ~same & ~beyond, ours),
        ("no extension unit where the entry points to", lost, ours),
        ("another extension unit than the record's", wrong, ours),
    )
    topic, queue_id = key
    folder = join("consumequeue", topic, str(queue_id))
    for reason, places, source in reasons:
        for begin, end in _runs(places):
            at, place = int(source["physical_offset"][begin]), queue_offset + begin
            yield Finding(
                Severity.DAMAGE, "queue", folder, reason, at, topic, queue_id, place, end - begin
            )


class _Unit(Enum):
    SAME = "same"
    LOST = "lost"
    WRONG = "wrong"


def _compare_units(found: int, expected: int, extensions: Extensions) -> _Unit:
    """Compare the meaning of two tags codes, at least one of them an address."""
    theirs = extensions.found.unit(found)
    if theirs is None and is_extension_address(found):
        return _Unit.LOST
    ours = extensions.expected.unit(expected)
    tags_code = expected if ours is None else ours.tags_code
    if (found if theirs is None else theirs.tags_code) != tags_code:
        return _Unit.WRONG
    if theirs is None or ours is None:
        return _Unit.SAME
    if theirs.store_timestamp_ms != ours.store_timestamp_ms:
        return _Unit.WRONG
    return _Unit.SAME if _has_bits(theirs.bitmap, ours.bitmap) else _Unit.WRONG


def _has_bits(bitmap: bytes, needed: bytes) -> bool:
    # A pull ignores a bitmap whose length is not that of its filter.
    if len(bitmap) != len(needed):
        return True
    bits = int.from_bytes(needed)
    return int.from_bytes(bitmap) & bits == bits


def _runs(places: Array) -> list[tuple[int, int]]:
    """Return [begin, end) of each stretch of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], places, [False]))))
    return [(int(edges[i]), int(edges[i + 1])) for i in range(0, len(edges), 2)]
