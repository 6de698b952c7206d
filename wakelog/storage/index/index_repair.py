"""Cut an index file back to what it was when the log had a given length.

Two ways, by what is known:

- `repair_index_file` knows nothing. After a kill slots may be missing, after a crash of the machine
  anything. Entries lie in log order, and each has the number of the entry before it in its chain.
  So they are checked from the front and kept up to the first that is wrong or too high.
- `cut_index_file` knows from `durability/dispatched.py` how many entries were durable; that saves
  reading 400 MB of a full file. The slots were durable as they stood then. A later slot points to a
  later entry, and following a few chains gives back its old value.

A crash may have torn the later entries. All fields and slots are at multiples of 4, so a sector
border cuts none of them in two: a field is there or zero. So the number of the entry before is
right, unless it is zero and its sector was never written. Then every kept entry is read after all.

Invariants of `cut_index_file`: it changes no kept entry, and no slot points above them. The caller
has lowered the number durably first, because a crash may leave the cut half done.

Source: none upstream. 4.9.3 deletes an index file that is newer than its checkpoint, and builds
again only what it happens to replay.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from wakelog.compiled.layout import ENTRY_BYTES
from wakelog.storage.file_system import FileSystem, opened
from wakelog.storage.index.index_block import ENTRY_DTYPE
from wakelog.storage.index.index_file import (
    ENTRY_FIRST,
    HEADER_BYTES,
    SLOT_BYTES,
    IndexHeader,
    IndexShape,
    decode_header,
)
from wakelog.storage.log.mapped_file_queue import zero_from
from wakelog.storage.log.record_check import SECTOR_BYTES

Array = np.ndarray[Any, Any]
_PLACE: Final = struct.Struct(">q")
_PLACE_POSITION: Final = 4  # in an entry
_PREVIOUS_POSITION: Final = 16

assert HEADER_BYTES % 4 == SLOT_BYTES % 4 == ENTRY_BYTES % 4 == 0


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
    with opened(fs, path) as fd:
        fs.truncate(fd, shape.file_bytes)
        stated = decode_header(fs.pread(fd, HEADER_BYTES, 0))
        entries = _entries(fs, fd, shape, 0, min(stated.entry_next, shape.entry_count))
        kept = sound_entries_count(entries, shape.slot_count, physical_offset)
        slots = newest_by_slot(entries[:kept], shape.slot_count)
        return _write_cut(fs, fd, shape, kept, slots, store_time)


def cut_index_file(
    fs: FileSystem,
    path: str,
    shape: IndexShape,
    *,
    entry_next: int,
    store_time: Callable[[int], int],
) -> IndexHeader:
    """Keep durably the entries below `entry_next`, all of which are durable; return the header.

    No file may count the others any more: a crash during the cut leaves some of them torn.

    store_time: physical offset to the record's store timestamp, below 0 if unknown.
    Raises: OSError.
    """
    with opened(fs, path) as fd:
        fs.truncate(fd, shape.file_bytes)
        data = fs.pread(fd, SLOT_BYTES * shape.slot_count, HEADER_BYTES)
        slots = np.frombuffer(data, dtype=">i4").astype(np.int32)
        if ((slots < 0) | (slots >= entry_next)).any():
            _reset_slots(fs, fd, shape, slots, entry_next)
        return _write_cut(fs, fd, shape, entry_next, slots, store_time)


def first_entry_at(
    fs: FileSystem, path: str, shape: IndexShape, entry_next: int, physical_offset: int
) -> int:
    """Return the number of the first entry of a record at or above `physical_offset`.

    entry_next: entries below it are durable; it is returned if none of them qualifies.
    Raises: OSError.
    """
    with opened(fs, path, read_only=True) as fd:

        def place_of(number: int) -> int:
            position = shape.entries_position + ENTRY_BYTES * number + _PLACE_POSITION
            place = fs.pread(fd, _PLACE.size, position)
            # A shortened file holds fewer entries.
            return _PLACE.unpack(place)[0] if len(place) == _PLACE.size else physical_offset

        end = max(min(entry_next, shape.entry_count), ENTRY_FIRST)
        return bisect_left(range(end), physical_offset, lo=ENTRY_FIRST, key=place_of)


def sound_entries_count(entries: Array, slot_count: int, physical_offset: int) -> int:
    """Return how many entries from the front are sound, counting the unused entry 0."""
    used = entries[ENTRY_FIRST:]
    places = used["physical_offset"].astype(np.int64)
    hashes = used["hash"].astype(np.int64)
    wrong = (hashes < 0) | (places >= physical_offset) | (used["seconds"] < 0)
    wrong[1:] |= np.diff(places) < 0
    # Never written; or a key with hash 0 of the log's first record, which is made again.
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
    # The last assignment to a slot stays: the newest entry is the head of the chain.
    numbers = np.arange(ENTRY_FIRST, len(entries), dtype=np.int32)
    slots[entries["hash"][ENTRY_FIRST:].astype(np.int64) % slot_count] = numbers
    return slots


def _write_cut(
    fs: FileSystem,
    fd: int,
    shape: IndexShape,
    entry_next: int,
    slots: Array,
    store_time: Callable[[int], int],
) -> IndexHeader:
    """Write durably the header and slots of a file that ends before `entry_next`, then zeros.

    The header goes first: zeros that a header on the disk still counts would be taken for a key of
    the log's first record.
    """
    header = IndexHeader()
    if entry_next > ENTRY_FIRST:
        stated = decode_header(fs.pread(fd, HEADER_BYTES, 0))
        (first,) = _entries(fs, fd, shape, ENTRY_FIRST, ENTRY_FIRST + 1)
        (last,) = _entries(fs, fd, shape, entry_next - 1, entry_next)
        begin_offset, end_offset = int(first["physical_offset"]), int(last["physical_offset"])
        begin_ms, end_ms = stated.begin_timestamp_ms, stated.end_timestamp_ms
        if begin_offset != stated.begin_physical_offset:
            begin_ms = store_time(begin_offset)
        if end_offset != stated.end_physical_offset:
            # If the log no longer has the record, use its entry's coarser time.
            found = store_time(end_offset)
            end_ms = found if found >= 0 else begin_ms + 1000 * int(last["seconds"])
        used = int(np.count_nonzero(slots))
        header = IndexHeader(begin_ms, end_ms, begin_offset, end_offset, used, entry_next)
    fs.pwrite(fd, header.encode(), 0)
    fs.pwrite(fd, slots.astype(">i4").tobytes(), HEADER_BYTES)
    fs.datasync(fd)
    zero_from(fs, fd, shape.entries_position + ENTRY_BYTES * entry_next, shape.file_bytes)
    fs.datasync(fd)
    return header


class _LaterEntries(NamedTuple):
    """Entries from number `first` on, as the disk has them, and where in the file they begin."""

    first: int
    position: int
    data: bytes
    entries: Array


def _entries(fs: FileSystem, fd: int, shape: IndexShape, begin: int, end: int) -> Array:
    position = shape.entries_position + ENTRY_BYTES * begin
    return np.frombuffer(fs.pread(fd, ENTRY_BYTES * (end - begin), position), dtype=ENTRY_DTYPE)


def _reset_slots(fs: FileSystem, fd: int, shape: IndexShape, slots: Array, kept: int) -> None:
    """Point each slot to the newest kept entry of its chain."""
    changed = np.flatnonzero((slots < 0) | (slots >= kept))
    numbers = slots[changed].astype(np.int64)
    if (numbers >= kept).all() and (numbers < shape.entry_count).all():
        position = shape.entries_position + ENTRY_BYTES * kept
        data = fs.pread(fd, ENTRY_BYTES * (int(numbers.max()) + 1 - kept), position)
        later = _LaterEntries(kept, position, data, np.frombuffer(data, dtype=ENTRY_DTYPE))
        found = _followed(later, changed, numbers, shape.slot_count)
        if found is not None:
            slots[changed] = found
            return
    slots[:] = newest_by_slot(_entries(fs, fd, shape, 0, kept), shape.slot_count)


def _followed(later: _LaterEntries, slots: Array, numbers: Array, slot_count: int) -> Array | None:
    """Follow the chains of slots down to kept entries; None if an entry was torn."""
    found = numbers.copy()
    going = np.arange(len(found))
    while len(going):
        at = found[going] - later.first
        entries = later.entries[at]
        hashes, previous = entries["hash"].astype(np.int64), entries["previous"].astype(np.int64)
        sound = (hashes >= 0) & (hashes % slot_count == slots[going])
        sound &= (previous >= 0) & (previous < found[going])
        if not sound.all() or not all(_is_written(later, int(i)) for i in at[previous == 0]):
            return None
        found[going] = previous
        going = going[previous >= later.first]
    return found


def _is_written(later: _LaterEntries, at: int) -> bool:
    """Tell whether the sector with an entry's last field reached the disk."""
    begin = ENTRY_BYTES * at
    last_field = later.position + begin + _PREVIOUS_POSITION
    sector = last_field - last_field % SECTOR_BYTES - later.position
    return any(later.data[max(begin, sector) : sector + SECTOR_BYTES])
