"""A block of index entries, for a chain that has many of them there.

A chain has every entry of its slot. So its members in a block are told by their hashes, all at
once, and need not be followed one by one: 20,000,000 messages with one key took a thread 42 s.
Where a member does not lead to the one before it, the block is damaged, and nothing is told.

Source: none upstream; org.apache.rocketmq.store.index.IndexFile#selectPhyOffset (4.9.3) follows a
chain in mapped memory.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from wakelog.compiled.layout import ENTRY_BYTES

ENTRY_DTYPE: Final = np.dtype(
    [("hash", ">i4"), ("physical_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")]
)
assert ENTRY_DTYPE.itemsize == ENTRY_BYTES


class ChainEntries(NamedTuple):
    """The entries of a chain in a block, newest first, as far as they are not too old.

    next_number: of the entry with which the chain goes on, 0 if it ends here.
    """

    entries: "np.ndarray[Any, Any]"
    next_number: int

    def places(self, key_hash: int, seconds_max: int) -> list[int]:
        """Return the physical offsets of a key's entries that are not too young."""
        wanted = (self.entries["hash"] == key_hash) & (self.entries["seconds"] <= seconds_max)
        found: list[int] = self.entries["physical_offset"][wanted].tolist()
        return found


def members_of(
    data: bytes, first_number: int, slot: int, slot_count: int, *, seconds_min: int
) -> ChainEntries | None:
    """Return the members in the block `data`, whose last entry is one; None if it is damaged.

    first_number: of the block's first entry.
    seconds_min: a chain ends for its reader with the first entry before that.
    """
    entries = np.frombuffer(data, dtype=ENTRY_DTYPE)
    hashes = entries["hash"].astype(np.int64)
    numbers = np.flatnonzero((hashes >= 0) & (hashes % slot_count == slot))[::-1] + first_number
    if not len(numbers) or numbers[0] != first_number + len(entries) - 1:
        return None
    members = entries[numbers - first_number]
    previous = members["previous"].astype(np.int64)
    is_linked = (previous[:-1] == numbers[1:]).all() and 0 <= previous[-1] < first_number
    if not is_linked or (members["seconds"] < 0).any():
        return None
    too_old = members["seconds"] < seconds_min
    if too_old.any():
        return ChainEntries(members[: int(too_old.argmax())], 0)
    return ChainEntries(members, int(previous[-1]))
