"""Bring an index file back to what it was when the log had a given length.

After a kill the entries on the disk are right, as far as the header counts, but slots may be
missing; after a crash of the machine anything may be missing. Entries tell enough to make slots
and header again: they lie in log order, and each names the entry before it in its chain. So the
entries are checked from the front, kept up to the first that is wrong or belongs to a record at or
above the given offset, and everything else is made from them.

This is ours. 4.9.3 deletes an index file that is newer than its checkpoint, and builds again only
what it happens to replay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_file import (
    ENTRY_FIRST,
    HEADER,
    HEADER_BYTES,
    IndexHeader,
    IndexShape,
    decode_header,
)
from wakelog.storage.kernels.layout import ENTRY_BYTES
from wakelog.storage.log.mapped_file_queue import zero_from

Array = np.ndarray[Any, Any]
ENTRY_DTYPE: Final = np.dtype(
    [("hash", ">i4"), ("physical_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")]
)

assert ENTRY_DTYPE.itemsize == ENTRY_BYTES


def repair_index_file(
    fs: FileSystem,
    path: str,
    shape: IndexShape,
    *,
    physical_offset: int,
    store_time: Callable[[int], int],
) -> IndexHeader:
    """Keep the sound entries of records below `physical_offset`, durably; return the header.

    store_time: physical offset to the record's store timestamp, below 0 if unknown.
    Raises: OSError.
    """
    fd = fs.open(path)
    try:
        fs.truncate(fd, shape.file_bytes)
        header = decode_header(fs.pread(fd, HEADER_BYTES, 0))
        stated = min(header.entry_next, shape.entry_count)
        data = fs.pread(fd, ENTRY_BYTES * stated, shape.entries_position)
        entries = np.frombuffer(data, dtype=ENTRY_DTYPE)
        kept = sound_entries_count(entries, shape.slot_count, physical_offset)
        slots = newest_by_slot(entries[:kept], shape.slot_count)
        header = cut_header(
            header,
            begin=entries[ENTRY_FIRST : min(kept, ENTRY_FIRST + 1)],
            last=entries[max(kept - 1, ENTRY_FIRST) : kept],
            slots=slots,
            entry_next=kept,
            store_time=store_time,
        )
        write_cut(fs, fd, shape, header, slots)
    finally:
        fs.close(fd)
    return header


def write_cut(
    fs: FileSystem, fd: int, shape: IndexShape, header: IndexHeader, slots: Array
) -> None:
    """Write what a cut leaves, durably, and zeros behind it.

    Nothing is zeroed that a header on the disk still counts: zeros, or what is left of an entry
    where they were torn, would be taken for a key of the log's first record. Raises: OSError.
    """
    fs.pwrite(fd, HEADER.pack(*header), 0)
    fs.pwrite(fd, slots.astype(">i4").tobytes(), HEADER_BYTES)
    fs.datasync(fd)
    end = shape.entries_position + ENTRY_BYTES * header.entry_next
    zero_from(fs, fd, end, shape.file_bytes)
    fs.datasync(fd)


def sound_entries_count(entries: Array, slot_count: int, physical_offset: int) -> int:
    """Return how many entries of the front are sound, the unused entry 0 included."""
    used = entries[ENTRY_FIRST:]
    places = used["physical_offset"].astype(np.int64)
    hashes = used["hash"].astype(np.int64)
    wrong = (hashes < 0) | (places >= physical_offset) | (used["seconds"] < 0)
    wrong[1:] |= np.diff(places) < 0
    # Never written, or a key of the log's first record whose hash is 0, which is made anew as well.
    wrong |= (hashes == 0) & (places == 0)
    slots = np.where(hashes < 0, 0, hashes) % slot_count
    wrong |= used["previous"] != _previous_in_chain(slots)
    return ENTRY_FIRST + (int(wrong.argmax()) if wrong.any() else len(used))


def _previous_in_chain(slots: Array) -> Array:
    """Return for each entry the number of the one before it with the same slot, 0 if none."""
    order = np.argsort(slots, kind="stable")
    previous = np.zeros(len(slots), dtype=np.int64)
    same = slots[order[1:]] == slots[order[:-1]]
    previous[order[1:]] = np.where(same, order[:-1] + ENTRY_FIRST, 0)
    return previous


def newest_by_slot(entries: Array, slot_count: int) -> Array:
    """Return what the slots of a file with these entries hold: each chain's newest entry."""
    slots = np.zeros(slot_count, dtype=np.int32)
    # Of entries with one slot the last assignment stays: the newest is the head of the chain.
    numbers = np.arange(ENTRY_FIRST, len(entries), dtype=np.int32)
    slots[entries["hash"][ENTRY_FIRST:].astype(np.int64) % slot_count] = numbers
    return slots


def cut_header(
    stated: IndexHeader,
    *,
    begin: Array,
    last: Array,
    slots: Array,
    entry_next: int,
    store_time: Callable[[int], int],
) -> IndexHeader:
    """Return the header of a file whose entries end before `entry_next`.

    begin, last: its first entry and its last one; empty if it has none.
    """
    if entry_next <= ENTRY_FIRST:
        return IndexHeader(0, 0, 0, 0, 0, ENTRY_FIRST)
    begin_offset, end_offset = int(begin["physical_offset"][0]), int(last["physical_offset"][0])
    begin_ms, end_ms = stated.begin_timestamp_ms, stated.end_timestamp_ms
    if begin_offset != stated.begin_physical_offset:
        begin_ms = store_time(begin_offset)
    if end_offset != stated.end_physical_offset:
        # The log may not have that record any more: then its entry's own, coarser time.
        found = store_time(end_offset)
        end_ms = found if found >= 0 else begin_ms + 1000 * int(last["seconds"][0])
    used = int(np.count_nonzero(slots))
    return IndexHeader(begin_ms, end_ms, begin_offset, end_offset, used, entry_next)
