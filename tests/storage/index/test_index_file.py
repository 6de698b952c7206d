"""The index file's format, its hash, and the search along a chain."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.golden_stores import read_manifest
from wakelog.protocol.java import INT_MAX, string_hash
from wakelog.storage.index.index_file import (
    ENTRY,
    HEADER,
    SLOT,
    IndexFileReader,
    IndexHeader,
    IndexShape,
    decode_header,
    index_key_hash,
)

SHAPE = IndexShape(slot_count=4, entry_count=10)
PATH = "/store/index/20200101000000000"
BEGIN_MS = 1_000_000

Entry = tuple[int, int, int, int]


def make(entries: list[Entry], slots: dict[int, int], **header: int) -> IndexFileReader:
    """Make a file of entries (hash, physical offset, seconds, previous) and of slots."""
    fs = MemoryFileSystem()
    fields = IndexHeader(BEGIN_MS, BEGIN_MS + 9000, 0, 900, len(slots), len(entries) + 1)
    data = msgspec.structs.replace(fields, **header).encode()
    data += b"".join(SLOT.pack(slots.get(slot, 0)) for slot in range(SHAPE.slot_count))
    data += b"".join(ENTRY.pack(*entry) for entry in [(0, 0, 0, 0), *entries])
    write_file(fs, PATH, data.ljust(SHAPE.file_bytes, b"\0"))
    return IndexFileReader(fs, PATH, SHAPE)


def select(
    reader: IndexFileReader,
    key_hash: int,
    *,
    count_max: int = 10,
    begin_ms: int = 0,
    end_ms: int = 1 << 62,
) -> list[int]:
    found: list[int] = []
    reader.select(
        reader.header(),
        key_hash,
        count_max=count_max,
        begin_ms=begin_ms,
        end_ms=end_ms,
        found=found,
    )
    return found


@given(st.text(max_size=8), st.text(max_size=8))
def test_hash_is_that_of_topic_and_word(topic: str, word: str) -> None:
    value = abs(string_hash(f"{topic}#{word}"))
    assert index_key_hash(topic, word) == (0 if value == 1 << 31 else value)


def word_of(topic: str, target: int, prefix: str) -> str:
    """Return a word whose `topic#word` has that hash: seven digits of base 31 reach every one."""
    begin = string_hash(f"{topic}#{prefix}" + "!" * 7)
    rest = (target - begin) % (1 << 32)
    digits = [chr(ord("!") + rest // 31**place % 31) for place in reversed(range(7))]
    return prefix + "".join(digits)


@pytest.mark.parametrize("prefix", ["", "a" * 57, "a" * 58, "é", "\N{GRINNING FACE}"])
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (0, 0),
        (1, 1),
        (INT_MAX, INT_MAX),
        (-INT_MAX, INT_MAX),
        (-(1 << 31), 0),
        (-1, 1),
    ],
)
def test_the_hash_at_the_ends_of_its_range(target: int, expected: int, prefix: str) -> None:
    word = word_of("T", target, prefix)
    assert string_hash(f"T#{word}") == target
    assert index_key_hash("T", word) == expected


def test_the_hash_without_a_positive_counts_as_0() -> None:
    # The golden store has one such word for each topic.
    queries = read_manifest("basic")["queries"]
    found = [
        index_key_hash(query["topic"], query["key"])
        for query in queries
        if string_hash(f"{query['topic']}#{query['key']}") == -(1 << 31)
    ]
    assert found and set(found) == {0}


def test_shape() -> None:
    default = IndexShape(5_000_000, 20_000_000)
    assert default.file_bytes == 420_000_040
    assert SHAPE.entries_position == 56


def test_header_of_a_new_file() -> None:
    assert decode_header(bytes(40)) == IndexHeader(0, 0, 0, 0, 0, 1)
    assert decode_header(b"").is_empty
    assert not decode_header(HEADER.pack(1, 2, 3, 4, 5, 2)).is_empty


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "expected"),
    [
        (0, 99, False),
        (0, 100, True),
        (0, 500, True),
        (150, 160, True),
        (200, 300, True),
        (201, 300, False),
    ],
)
def test_overlap(begin_ms: int, end_ms: int, expected: bool) -> None:
    assert IndexHeader(100, 200, 0, 0, 0, 1).overlaps(begin_ms, end_ms) is expected


CHAIN: list[Entry] = [(1, 100, 0, 0), (5, 200, 1, 1), (1, 300, 2, 2), (1, 400, 8, 3)]


def test_newest_first_and_only_the_hash() -> None:
    reader = make(CHAIN, {1: 4})
    assert select(reader, 1) == [400, 300, 100]
    assert select(reader, 5) == [200]
    assert select(reader, 9) == []
    assert select(reader, 2) == []


def test_count() -> None:
    assert select(make(CHAIN, {1: 4}), 1, count_max=2) == [400, 300]


def test_times_are_whole_seconds_after_the_begin() -> None:
    reader = make(CHAIN, {1: 4})
    assert select(reader, 1, begin_ms=BEGIN_MS + 2000) == [400, 300]
    assert select(reader, 1, end_ms=BEGIN_MS + 7999) == [300, 100]
    # The record was stored up to a second later than the file says.
    assert select(reader, 1, begin_ms=BEGIN_MS + 2001) == [400]


def test_a_chain_ends_at_the_first_entry_that_is_too_old() -> None:
    # An older entry of another hash hides the younger one behind it, as in 4.9.3.
    chain: list[Entry] = [(1, 100, 5, 0), (5, 200, 1, 1), (1, 300, 6, 2)]
    assert select(make(chain, {1: 3}), 1, begin_ms=BEGIN_MS + 4000) == [300]


@pytest.mark.parametrize(
    ("entries", "slots", "expected"),
    [
        ([(1, 100, 0, 1)], {1: 1}, [100]),  # an entry before itself
        ([(1, 100, 0, 2), (1, 200, 0, 1)], {1: 2}, [200, 100, 200]),  # a circle
        ([(1, 100, 0, 99)], {1: 1}, [100]),
        ([(1, 100, 0, -1)], {1: 1}, [100]),
        ([(1, 100, -1, 0)], {1: 1}, []),
        ([(1, 100, 0, 0)], {1: 99}, []),
        ([(1, 100, 0, 0)], {1: -1}, []),
    ],
)
def test_damaged_chains_end(
    entries: list[Entry], slots: dict[int, int], expected: list[int]
) -> None:
    assert select(make(entries, slots), 1) == expected


def test_an_empty_file_has_nothing() -> None:
    assert select(make([], {1: 1}), 1) == []


def test_a_file_that_is_cut_off() -> None:
    fs = MemoryFileSystem()
    write_file(fs, PATH, HEADER.pack(BEGIN_MS, BEGIN_MS, 0, 0, 1, 5) + bytes(6))
    reader = IndexFileReader(fs, PATH, SHAPE)
    assert select(reader, 1) == []
    reader.close()
    assert fs.descriptor_count == 0
