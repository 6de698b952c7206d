"""The entries of a chain in a block: the same as by steps, and nothing from a damaged one."""

import random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.calls import counted
from tests.storage.index.test_index_file import BEGIN_MS, Entry, make, select
from wakelog.storage.index import index_file
from wakelog.storage.index.index_block import members_of
from wakelog.storage.index.index_file import ENTRY, ENTRY_FIRST, IndexFileReader, IndexShape

SLOTS = 3


def chained(hashes: list[int], seconds: list[int]) -> list[Entry]:
    """Return entries as a writer makes them, each behind the newest of its slot."""
    newest: dict[int, int] = {}
    entries = []
    for number, (key_hash, second) in enumerate(zip(hashes, seconds, strict=True), ENTRY_FIRST):
        slot = key_hash % SLOTS
        entries.append((key_hash, number * 100, second, newest.get(slot, 0)))
        newest[slot] = number
    return entries


def reader_of(entries: list[Entry]) -> IndexFileReader:
    slots = {entry[0] % SLOTS: number for number, entry in enumerate(entries, ENTRY_FIRST)}
    shape = IndexShape(SLOTS, len(entries) + 1)
    with patch("tests.storage.index.test_index_file.SHAPE", shape):
        return make(entries, slots)


ENTRIES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 9)), max_size=60)
DAMAGE = st.none() | st.tuples(st.integers(0, 59), st.integers(0, 3), st.integers(-2, 70))


@given(ENTRIES, DAMAGE, st.integers(0, 8), st.integers(1, 20), st.integers(0, 9), st.integers(0, 9))
def test_blocks_find_what_steps_find(
    drawn: list[tuple[int, int]],
    damage: tuple[int, int, int] | None,
    key_hash: int,
    count_max: int,
    begin: int,
    end: int,
) -> None:
    entries = chained([one for one, _ in drawn], sorted(second for _, second in drawn))
    if damage is not None and damage[0] < len(entries):
        place, field, value = damage
        changed = list(entries[place])
        changed[field] = value
        entries[place] = (changed[0], changed[1], changed[2], changed[3])
    reader = reader_of(entries)
    times = {"begin_ms": 1_000_000 + begin * 1_000, "end_ms": 1_000_000 + end * 1_000}
    with patch.object(index_file, "DENSE_STEPS", 1_000):
        by_steps = select(reader, key_hash, count_max=count_max, **times)
    with patch.object(index_file, "DENSE_STEPS", 2), patch.object(index_file, "BLOCK_ENTRIES", 9):
        assert select(reader, key_hash, count_max=count_max, **times) == by_steps


def test_of_a_dense_chain_the_newest_are_found_however_many_are_wanted() -> None:
    reader = reader_of(chained([0, 3] * 20, [0] * 40))
    newest = [number * 100 for number in range(39, 0, -2)]
    with patch.object(index_file, "DENSE_STEPS", 2), patch.object(index_file, "BLOCK_ENTRIES", 9):
        for count_max in range(1, 23):
            assert select(reader, 0, count_max=count_max) == newest[:count_max]


@pytest.mark.parametrize("share", [1.0, 0.05])
def test_a_long_chain_takes_few_steps(share: float) -> None:
    choose = random.Random(3)
    hashes = [0 if choose.random() < share else 1 for _ in range(20_000)]
    reader = reader_of(chained(hashes, [0] * len(hashes)))
    calls_count, found = counted(lambda: select(reader, SLOTS))
    assert found == []
    assert calls_count < 2_000
    wanted = [number * 100 for number, one in enumerate(hashes, ENTRY_FIRST) if not one][::-1]
    assert select(reader, 0, count_max=1_000_000) == wanted


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "count"),
    [(-(1 << 63), (1 << 63) - 1, 200), ((1 << 63) - 1,) * 2 + (0,), (-(1 << 63),) * 2 + (0,)],
)
def test_any_times_may_be_asked_for(begin_ms: int, end_ms: int, count: int) -> None:
    reader = reader_of(chained([0] * 200, [0] * 200))
    found = select(reader, 0, count_max=1_000, begin_ms=begin_ms, end_ms=end_ms)
    assert len(found) == count


def test_a_block_whose_last_entry_is_of_another_chain_has_no_members() -> None:
    data = b"".join(ENTRY.pack(*entry) for entry in chained([0, 0, 1], [0, 0, 0]))
    assert members_of(data, ENTRY_FIRST, 0, SLOTS, seconds_min=0) is None
    assert members_of(b"", ENTRY_FIRST, 0, SLOTS, seconds_min=0) is None
    members = members_of(data[:-20], ENTRY_FIRST, 0, SLOTS, seconds_min=0)
    assert members is not None and members.places(0, 0) == [200, 100]
    assert members.next_number == 0


def test_blocks_hold_to_times_as_steps_do() -> None:
    """Of 30 entries of one chain, three were stored in each second."""
    reader = reader_of(chained([0] * 30, [number // 3 for number in range(30)]))
    with patch.object(index_file, "DENSE_STEPS", 2), patch.object(index_file, "BLOCK_ENTRIES", 9):
        for begin in range(11):
            for end in range(11):
                found = select(
                    reader,
                    0,
                    count_max=99,
                    begin_ms=BEGIN_MS + 1000 * begin,
                    end_ms=BEGIN_MS + 1000 * end,
                )
                wanted = (
                    number for number in range(30, 0, -1) if begin <= (number - 1) // 3 <= end
                )
                assert found == [100 * number for number in wanted], (begin, end)
