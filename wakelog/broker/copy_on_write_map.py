"""CopyOnWriteMap: a table in blocks, of which a copy costs no more than a list of the blocks.

A copy shares every block. Before a block that is shared changes, the table gets a copy of that one.
So a save of a million entries stops the loop for no longer than a save of a thousand.

Values that change in place belong to the table only while `owns` says so; else a copy has them too.

Invariants:
    - a block has at most BLOCK_ENTRIES entries, and `_open` has exactly the blocks with room.
    - `_block_of` has exactly the keys of all blocks.
    - a block of an earlier generation is never changed, nor is a value that the table does not own.

Source: none upstream; there a thread writes the file while others change the table.
"""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

BLOCK_ENTRIES: Final = 1_024
"""Copying a block takes some 20 us, and the list of the blocks of a million entries as much."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class _Block(Generic[Key, Value]):
    __slots__ = ("entries", "generation", "own")

    def __init__(self, generation: int) -> None:
        self.entries: dict[Key, Value] = {}
        self.own: set[Key] = set()
        self.generation = generation


class CopyOnWriteMap(Generic[Key, Value]):
    """A mapping whose copies are cheap. Order is that of insertion until something is removed."""

    def __init__(self) -> None:
        self._blocks: list[_Block[Key, Value]] = []
        self._open: list[_Block[Key, Value]] = []
        self._block_of: dict[Key, _Block[Key, Value]] = {}
        self._generation = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._block_of)

    def __contains__(self, key: Key) -> bool:
        """Return whether there is an entry."""
        return key in self._block_of

    def get(self, key: Key) -> Value | None:
        """Return a value, None if there is none."""
        block = self._block_of.get(key)
        return None if block is None else block.entries[key]

    def __getitem__(self, key: Key) -> Value:
        """Return a value. Raises: KeyError."""
        return self._block_of[key].entries[key]

    def __setitem__(self, key: Key, value: Value) -> None:
        """Set a value; the table owns it until the next copy."""
        block = self._block_of.get(key)
        if block is None:
            block = self._block_of[key] = self._block_with_room()
        self._make_own(block)
        block.entries[key] = value
        block.own.add(key)
        if len(block.entries) >= BLOCK_ENTRIES and self._open and self._open[-1] is block:
            self._open.pop()

    def pop(self, key: Key) -> Value:
        """Remove an entry and return its value. Raises: KeyError."""
        block = self._block_of.pop(key)
        self._make_own(block)
        if len(block.entries) == BLOCK_ENTRIES:
            self._open.append(block)
        block.own.discard(key)
        return block.entries.pop(key)

    def owns(self, key: Key) -> bool:
        """Return whether no copy has the value of an entry."""
        block = self._block_of[key]
        return block.generation == self._generation and key in block.own

    def copy_blocks(self) -> list[dict[Key, Value]]:
        """Return the entries as they are now, in blocks that are not to be changed."""
        self._generation += 1
        return [block.entries for block in self._blocks]

    def items(self) -> Iterator[list[tuple[Key, Value]]]:
        """Yield the entries of each block; the table may change between two blocks."""
        for block in list(self._blocks):
            yield list(block.entries.items())

    def validate(self) -> None:
        """Assert the invariants of the module."""
        assert sum(len(block.entries) for block in self._blocks) == len(self._block_of)
        for block in self._blocks:
            assert len(block.entries) <= BLOCK_ENTRIES
            assert block.own <= block.entries.keys()
            assert (block in self._open) == (len(block.entries) < BLOCK_ENTRIES)
            assert all(self._block_of[key] is block for key in block.entries)

    def _block_with_room(self) -> _Block[Key, Value]:
        if not self._open:
            self._open.append(_Block(self._generation))
            self._blocks.append(self._open[-1])
        return self._open[-1]

    def _make_own(self, block: _Block[Key, Value]) -> None:
        if block.generation != self._generation:
            block.entries, block.own = block.entries.copy(), set()
            block.generation = self._generation
