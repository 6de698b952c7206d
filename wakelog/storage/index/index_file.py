"""One index file: from a key's hash to the places of its messages in the log.

A hash table on disk. A slot holds the number of the newest entry of its chain; each entry holds
the number of the one before it. All numbers are big endian; docs/formats/index_file.md has all
fields. These positions are on disk and never change.

    40 bytes        header
     4 * slots      slots: number of an entry, 0 if empty
    20 * entries    entries; they count from 1, entry 0 is never used

The key is `topic#word`. A file is sparse, with its full length.

Invariants:
- A writer writes entries before the header, and the header before slots. A reader in between misses
  the newest keys and follows no number without an entry.
- A chain is followed for at most as many steps as there are entries, whatever the numbers are.

Source: org.apache.rocketmq.store.index.IndexFile, IndexHeader (4.9.3).
"""

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from wakelog.compiled.layout import ENTRY_BYTES
from wakelog.protocol.java import INT_MAX, INT_MIN, string_hash
from wakelog.storage.file_system import FileSystem

if TYPE_CHECKING:
    from wakelog.storage.index.index_block import ChainEntries

HEADER: Final = struct.Struct(">4q2i")
SLOT: Final = struct.Struct(">i")
ENTRY: Final = struct.Struct(">iqii")
HEADER_BYTES: Final = 40
SLOT_BYTES: Final = 4
ENTRY_FIRST: Final = 1

BLOCK_ENTRIES: Final = 8_192
"""What is read at once of a dense chain takes as long as some 80 entries one by one."""

DENSE_STEPS: Final = 64
"""A chain is dense if so many steps stay within half a block."""

_TOPIC_MEMO_ENTRIES_MAX: Final = 1024
_FOLDED_CHARACTERS_MAX: Final = 64  # UNIQ_KEY has 32, with a v6 address 56
_INT_MASK: Final = 0xFFFFFFFF

assert HEADER.size == HEADER_BYTES and SLOT.size == SLOT_BYTES and ENTRY.size == ENTRY_BYTES


class IndexHeader(msgspec.Struct):
    """The 40 bytes at the front, of a file without keys if nothing is given."""

    begin_timestamp_ms: int = 0
    end_timestamp_ms: int = 0
    begin_physical_offset: int = 0
    end_physical_offset: int = 0
    slot_used_count: int = 0
    entry_next: int = ENTRY_FIRST

    def encode(self) -> bytes:
        """Return the bytes on disk."""
        return HEADER.pack(*msgspec.structs.astuple(self))

    @property
    def is_empty(self) -> bool:
        """Whether no key was put."""
        return self.entry_next <= ENTRY_FIRST

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        """Tell whether the file can hold messages stored in [begin_ms, end_ms]."""
        return end_ms >= self.begin_timestamp_ms and begin_ms <= self.end_timestamp_ms


class IndexShape(NamedTuple):
    """How many slots and entries a file has: from the configuration, the file does not say."""

    slot_count: int
    entry_count: int

    @property
    def entries_position(self) -> int:
        """Where entry 0 lies."""
        return HEADER_BYTES + SLOT_BYTES * self.slot_count

    @property
    def file_bytes(self) -> int:
        """The length of the file."""
        return self.entries_position + ENTRY_BYTES * self.entry_count


def decode_header(data: bytes) -> IndexHeader:
    """Read a header; a next entry's number that is missing or below 1 counts as 1."""
    header = IndexHeader(*HEADER.unpack(data.ljust(HEADER_BYTES, b"\0")))
    header.entry_next = max(header.entry_next, ENTRY_FIRST)
    return header


def index_key_hash(topic: str, word: str) -> int:
    """Return the hash of `topic#word`: an entry stores it, and it chooses the slot (fact 2)."""
    if word.isascii() and len(word) <= _FOLDED_CHARACTERS_MAX:
        # One long number, cut once: half the time of cutting at every step.
        value = _topic_hash(topic)
        for unit in word.encode("ascii"):
            value = value * 31 + unit
    else:
        units = len(word.encode("utf-16-le", "surrogatepass")) // 2
        value = _topic_hash(topic) * pow(31, units, 1 << 32) + string_hash(word)
    value &= _INT_MASK
    if value > INT_MAX:
        value = (1 << 32) - value
        return 0 if value == -INT_MIN else value
    return value


@lru_cache(maxsize=_TOPIC_MEMO_ENTRIES_MAX)
def _topic_hash(topic: str) -> int:
    return string_hash(topic + "#")


class IndexFileReader:
    """Reads a file that another process may be writing; keeps only the descriptor."""

    def __init__(self, fs: FileSystem, path: str, shape: IndexShape) -> None:
        """Open the file read only. Raises: OSError."""
        self._fs = fs
        self._shape = shape
        self._fd = fs.open(path, read_only=True)

    def header(self) -> IndexHeader:
        """Read the header as it is now."""
        return decode_header(self._fs.pread(self._fd, HEADER_BYTES, 0))

    def select(
        self,
        header: IndexHeader,
        key_hash: int,
        *,
        count_max: int,
        begin_ms: int,
        end_ms: int,
        found: list[int],
    ) -> None:
        """Append physical offsets of entries with `key_hash` to `found`, newest first.

        Ends at `count_max` elements in `found`, or at the first entry of the chain that is older
        than `begin_ms`, whatever its hash (fact 9). Times are up to a second early (fact 3).
        """
        if header.is_empty:
            return
        number, left_count = self._slot(key_hash % self._shape.slot_count), header.entry_next
        while left_count > 0 and 0 < number <= header.entry_next and len(found) < count_max:
            begin = number
            for _ in range(min(left_count, DENSE_STEPS)):
                number, place = self._step(header, number, key_hash, begin_ms, end_ms)
                found += place
                if not 0 < number <= header.entry_next or len(found) >= count_max:
                    return
            left_count -= DENSE_STEPS
            if begin - number >= BLOCK_ENTRIES // 2:
                continue
            seconds_min = -((header.begin_timestamp_ms - begin_ms) // 1000)
            seconds_max = (end_ms - header.begin_timestamp_ms) // 1000
            for members in self._blocks(key_hash, number, seconds_min):
                found += members.places(key_hash, seconds_max)[: count_max - len(found)]
                number = members.next_number
                left_count -= len(members.entries)
                if len(found) >= count_max:
                    return

    def _step(
        self, header: IndexHeader, number: int, key_hash: int, begin_ms: int, end_ms: int
    ) -> tuple[int, tuple[int, ...]]:
        """Return the number of the next entry, 0 at the end, and the place in this one, if any."""
        entry_hash, physical_offset, seconds, previous = self._entry(number)
        if seconds < 0:
            return 0, ()
        time_ms = header.begin_timestamp_ms + seconds * 1000
        is_wanted = entry_hash == key_hash and begin_ms <= time_ms <= end_ms
        is_last = time_ms < begin_ms or previous == number
        return 0 if is_last else previous, (physical_offset,) if is_wanted else ()

    def _blocks(self, key_hash: int, number: int, seconds_min: int) -> Iterator["ChainEntries"]:
        """Yield the members of a chain from entry `number` on, as long as a block has many."""
        # With numpy, which readers of single entries, such as TransactionCheck, do without.
        from wakelog.storage.index.index_block import members_of

        slot_count = self._shape.slot_count
        while number > 0:
            first = max(ENTRY_FIRST, number + 1 - BLOCK_ENTRIES)
            size_bytes = ENTRY_BYTES * (number + 1 - first)
            position = self._shape.entries_position + ENTRY_BYTES * first
            data = self._fs.pread(self._fd, size_bytes, position).ljust(size_bytes, b"\0")
            slot = key_hash % slot_count
            members = members_of(data, first, slot, slot_count, seconds_min=seconds_min)
            if members is None:
                return
            yield members
            number = members.next_number if len(members.entries) >= DENSE_STEPS else 0

    def physical_offset_of(self, number: int) -> int:
        """Return the physical offset in one entry."""
        return self._entry(number)[1]

    def close(self) -> None:
        """Close the file."""
        self._fs.close(self._fd)

    def _slot(self, slot: int) -> int:
        data = self._fs.pread(self._fd, SLOT_BYTES, HEADER_BYTES + SLOT_BYTES * slot)
        return int.from_bytes(data, "big", signed=True)

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        position = self._shape.entries_position + ENTRY_BYTES * number
        data = self._fs.pread(self._fd, ENTRY_BYTES, position).ljust(ENTRY_BYTES, b"\0")
        entry: tuple[int, int, int, int] = ENTRY.unpack(data)
        return entry
