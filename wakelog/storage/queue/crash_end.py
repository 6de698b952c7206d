"""Where a queue ends after a crash of the machine: check each entry of its last files.

A crash may have torn what was not durable, in any order. The first place without an entry ends the
queue, as in 4.9.3, and dispatch makes the rest again. An entry that does not lie after the record
of the one before also ends it: a torn cut has left its size. 4.9.3 accepts such an entry.

Entries of records below a position are known to have been durable (`durability/dispatched.py`), and
dispatch does not begin below it. Damage among those came later and does not end the queue.

Source: org.apache.rocketmq.store.ConsumeQueue.recover (4.9.3).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from wakelog.compiled.layout import ENTRY_BYTES
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.queue.entries import PADDING_SIZE

RECOVER_PIECE_BYTES: Final = 10_000 * ENTRY_BYTES
ENTRY_DTYPE: Final = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
Array = np.ndarray[Any, Any]

_UNWRITTEN: Final[Array] = np.zeros(1, ENTRY_DTYPE)

assert ENTRY_DTYPE.itemsize == ENTRY_BYTES


def crash_end(files: Sequence[MappedFile], durable: int) -> int | None:
    """Return the queue offset of the first place without an entry, None if all have one.

    durable: entries of records that end at or below it were durable before the crash; 0 if unknown.
    Raises: StoreFailed.
    """
    end, highest, last = None, -1, (0, 0)
    for file, position, length in _stretches(files):
        found = np.frombuffer(file.read(position, length), ENTRY_DTYPE) if length else _UNWRITTEN
        known = _known_durable(found, durable, highest)
        begin = 0
        if len(known):
            begin = int(known[-1])
            end, highest = None, int(found["physical_offset"][begin])
            last = highest, int(found["size"][begin])
        elif highest < 0:
            durable = 0  # no entry of these files was durable, so all may be torn
        if end is None:
            torn, last = _first_torn(found[begin:], last)
            if torn is not None:
                end = (file.start_offset + position) // ENTRY_BYTES + begin + torn
        if end is not None and not durable:
            return end
    return end


def _stretches(files: Sequence[MappedFile]) -> Iterator[tuple[MappedFile, int, int]]:
    """Yield file, position and length of pieces to read, and a length of 0 where a hole begins.

    A queue of a few entries has megabytes that were never written.
    """
    for file in files:
        position = 0
        while position < file.size_bytes:
            data = file.next_data(position)
            begin = data - data % ENTRY_BYTES
            if begin > position:
                yield file, position, 0
            if data < file.size_bytes:
                data_end = -(-file.data_end(data) // ENTRY_BYTES) * ENTRY_BYTES
                position = max(begin, position)
                length = min(RECOVER_PIECE_BYTES, data_end - position)
                yield file, position, length
                position += length
            else:
                position = data


def _first_torn(entries: Array, last: tuple[int, int]) -> tuple[int | None, tuple[int, int]]:
    """Return the first place without an entry that may follow `last`, and the entry at the end.

    last: physical offset and size of the entry in front. The next one begins after its record, or
    is the same again where a gap was filled.
    """
    if not len(entries):
        return None, last
    offsets = np.concatenate(([last[0]], entries["physical_offset"].astype(np.int64)))
    sizes = np.concatenate(([last[1]], entries["size"].astype(np.int64)))
    is_padding = (offsets == 0) & (sizes == PADDING_SIZE)
    ends = np.maximum.accumulate(np.where(is_padding, 0, offsets + sizes))
    is_same = (offsets[1:] == offsets[:-1]) & (sizes[1:] == sizes[:-1])
    wrong = (offsets[1:] < 0) | (sizes[1:] <= 0) | ((offsets[1:] < ends[:-1]) & ~is_same)
    torn = np.flatnonzero(wrong)
    return (int(torn[0]) if len(torn) else None), (int(offsets[-1]), int(sizes[-1]))


def _known_durable(entries: Array, durable: int, highest: int) -> Array:
    """Return the places of entries of records that end at or below `durable`.

    highest: the physical offset of the last such entry in front, -1 if there is none. A torn entry
    may have a lower one and does not count. Without such an entry in front, none counts unless the
    first does.
    """
    offsets, sizes = entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int64)
    known = (sizes > 0) & (offsets > highest) & (offsets <= durable - sizes)
    if not known.any() or (highest < 0 and not known[0]):
        return np.empty(0, np.int64)
    # Each lies above all those in front of it.
    before = np.maximum.accumulate(np.where(known, offsets, highest))[:-1]
    known[1:] &= offsets[1:] > before
    return np.flatnonzero(known)
