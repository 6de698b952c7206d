"""Where a queue ends after a crash of the machine: a look at each entry of its last files.

A crash may have torn what was not durable, in any order: the first place that has no entry ends the
queue, as in 4.9.3, and dispatch makes anew what follows. But entries of records below a position
are known to have been durable (`state/dispatched.py`), and dispatch does not begin below it. What
is no entry there was spoilt since, and ends nothing.

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
    end, highest = None, -1
    for file in files:
        for position in range(0, file.size_bytes, RECOVER_PIECE_BYTES):
            found = np.frombuffer(file.read(position, RECOVER_PIECE_BYTES), ENTRY_DTYPE)
            wrong = (found["physical_offset"] < 0) | (found["size"] <= 0)
            known = _known_durable(found, durable, highest)
            if len(known):
                end, highest = None, int(found["physical_offset"][known[-1]])
                wrong[: known[-1]] = False
            elif highest < 0:
                durable = 0  # nothing in these files was, so that all may be torn
            if end is None and wrong.any():
                end = (file.start_offset + position) // ENTRY_BYTES + int(wrong.argmax())
            if end is not None and not durable:
                return end
    return end


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
