"""Where a queue ends after a crash of the machine: a look at each entry of its last files.

A crash may have torn what was not durable, in any order: the first place that has no entry ends the
queue, as in 4.9.3, and dispatch makes anew what follows. So does the entry of a record below that
of the one before, which 4.9.3 takes: a cut that was torn has left its size. But entries of records
below a position are known to have been durable (`state/dispatched.py`), and dispatch does not begin
below it. What is no entry there was spoilt since, and ends nothing.

Source: org.apache.rocketmq.store.ConsumeQueue.recover (4.9.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from wakelog.storage.bulk.layout import ENTRY_BYTES
from wakelog.storage.mapped_file import MappedFile

RECOVER_PIECE_BYTES: Final = 10_000 * ENTRY_BYTES
ENTRY_DTYPE: Final = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
Array = np.ndarray[Any, Any]

assert ENTRY_DTYPE.itemsize == ENTRY_BYTES


def careful_end(files: Sequence[MappedFile], durable: int) -> int | None:
    """Return the queue offset of the first place without an entry, None if all have one.

    durable: entries of records that end at or below were durable before the crash; 0 if unknown.
    Raises: StoreFailed.
    """
    end, highest, last = None, -1, -1
    for file in files:
        for position in range(0, file.size_bytes, RECOVER_PIECE_BYTES):
            found = np.frombuffer(file.read(position, RECOVER_PIECE_BYTES), ENTRY_DTYPE)
            known = _known_durable(found, durable, highest)
            begin = 0
            if len(known):
                begin = int(known[-1])
                end, highest = None, int(found["physical_offset"][begin])
                last = highest
            elif highest < 0:
                durable = 0  # nothing in these files was, so that all may be torn
            if end is None:
                torn, last = _first_torn(found[begin:], last)
                if torn is not None:
                    end = (file.start_offset + position) // ENTRY_BYTES + begin + torn
            if end is not None and not durable:
                return end
    return end


def _first_torn(entries: Array, last: int) -> tuple[int | None, int]:
    """Return the first place without an entry that may follow `last`, and the last offset."""
    offsets = entries["physical_offset"].astype(np.int64)
    last_before = np.maximum.accumulate(np.concatenate(([last], offsets)))
    torn = np.flatnonzero((offsets < 0) | (entries["size"] <= 0) | (offsets < last_before[:-1]))
    return (int(torn[0]) if len(torn) else None), int(last_before[-1])


def _known_durable(entries: Array, durable: int, highest: int) -> Array:
    """Return the places of entries of records that end at or below `durable`.

    highest: the place in the log of the last such entry in front, -1 if there is none. What a crash
    has torn may state any lower one, and then is none of them; nor is any behind a first that is
    not.
    """
    offsets, sizes = entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int64)
    known = (sizes > 0) & (offsets > highest) & (offsets <= durable - sizes)
    if not known.any() or (highest < 0 and not known[0]):
        return np.empty(0, np.int64)
    # Each of them lies above all those in front of it.
    before = np.maximum.accumulate(np.where(known, offsets, highest))[:-1]
    known[1:] &= offsets[1:] > before
    return np.flatnonzero(known)
