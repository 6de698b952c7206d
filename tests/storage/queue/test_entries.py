"""Ends and begins found by few entries: as a look at each of them would, and despite one that lies.

The reference looks at every entry.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.storage.queue.entries import (
    NEAR_COUNT,
    Entry,
    end_below,
    first_not_below,
    front_end,
    last_near,
)

SIZE = 100
EMPTY = (0, 0, 0)


class Listed:
    """Entries in a list, in one file; counts what is read."""

    def __init__(self, entries: list[Entry], near: int = NEAR_COUNT) -> None:
        self.entries = entries
        self.near = near
        self.reads_count = 0

    def at(self, place: int) -> Entry:
        self.reads_count += 1
        return self.entries[place]

    def some(self, begin: int, count: int) -> list[Entry]:
        self.reads_count += 1
        found = self.entries[begin : begin + count]
        while found and found[-1] == EMPTY:
            found.pop()
        return found

    def near_count(self, begin: int) -> int:
        return self.near


def sound(count: int, places: int = 0) -> list[Entry]:
    """Entries of records of 100 bytes, followed by empty places."""
    written: list[Entry] = [(i * SIZE, SIZE, i) for i in range(count)]
    return written + [EMPTY] * (places - count)


def end_at(entries: Listed, position: int, low: int = 0) -> int:
    return front_end(
        entries, low, len(entries.entries), lambda one: one[1] > 0 and one[0] + one[1] <= position
    )


LIES: list[Entry] = [
    EMPTY,
    (1 << 40, SIZE, 0),
    ((1 << 63) - 1, SIZE, 0),
    (-1, SIZE, 0),
    (0, -1, 0),
    (0, SIZE, 0),
    (0, 0x7FFFFFFF, 0),
]


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 70), st.integers(0, 60))
def test_of_entries_that_go_up_each_search_gives_what_all_of_them_give(
    written: int, empty: int, reached: int, low: int
) -> None:
    entries = Listed(sound(written, written + empty))
    low = min(low, written, reached)
    assert end_at(entries, reached * SIZE, low) == min(written, reached)
    assert end_at(entries, reached * SIZE + SIZE - 1, low) == min(written, reached)
    assert first_not_below(entries, 0, written, reached * SIZE) == min(written, reached)
    assert end_below(entries, 0, written, reached * SIZE) == min(written, reached)


@pytest.mark.parametrize("lie", LIES)
@given(st.integers(2, 600), st.data())
def test_an_entry_that_lies_hides_itself_alone(
    lie: Entry, written: int, data: st.DataObject
) -> None:
    entries = Listed(sound(written, written + 50))
    place = data.draw(st.integers(0, written - 1))
    entries.entries[place] = lie
    ends = written - (place == written - 1)
    assert end_at(entries, written * SIZE) in (ends, written)
    assert end_below(entries, 0, written, written * SIZE) in (ends, written)
    begin = data.draw(st.integers(0, written - 1))
    found = first_not_below(entries, 0, written, begin * SIZE)
    assert found <= begin + (place == begin)


@pytest.mark.parametrize("lost", [1, 5, 204])
@pytest.mark.parametrize("first", [0, 1, 300])
def test_a_page_that_is_lost_hides_itself_alone(first: int, lost: int) -> None:
    entries = Listed(sound(700, 900))
    entries.entries[first : first + lost] = [EMPTY] * lost
    assert end_at(entries, 700 * SIZE) == 700
    assert end_at(entries, 600 * SIZE) == 600
    assert first_not_below(entries, 0, 700, 100 * SIZE) == (
        max(100, first + lost) if first < 100 else 100
    )


def test_without_waiting_only_near_entries_are_read() -> None:
    entries = Listed(sound(20, 40), near=3)
    entries.entries[4] = EMPTY
    assert end_at(entries, 20 * SIZE, low=4) == 20
    entries.entries[4:8] = [EMPTY] * 4
    assert end_at(entries, 20 * SIZE, low=4) == 4


def test_an_entry_after_the_end_that_lies_below_it_is_not_trusted() -> None:
    entries = Listed(sound(20))
    entries.entries[12] = (3 * SIZE, SIZE, 0)
    assert end_at(entries, 10 * SIZE) == 10
    assert end_below(entries, 0, 20, 10 * SIZE) == 10


@pytest.mark.parametrize("entry", [EMPTY, (0, -1, 0), (0, 1, 0)])
def test_no_place_that_was_never_written_is_one_of_a_record_below(entry: Entry) -> None:
    """A page was lost, and all records of the queue are above the cut."""
    above: list[Entry] = [(place * SIZE, SIZE, 0) for place in range(10, 16)]
    entries = Listed([*above[:2], entry, *above[3:]])
    assert end_below(entries, 0, 6, 5 * SIZE) == (3 if entry[1] > 0 else 0)


def test_few_entries_are_read_where_the_end_was_known() -> None:
    entries = Listed(sound(100_000, 200_000))
    assert end_at(entries, 1 << 60, low=99_998) == 100_000
    assert entries.reads_count <= 8


@given(
    st.lists(st.sampled_from([EMPTY, *((i * SIZE, SIZE, 0) for i in range(5))]), max_size=8),
    st.integers(0, 7),
    st.integers(0, 5),
)
def test_the_last_near_entry_is_that_of_a_check_of_each(
    written: list[Entry], place: int, reached: int
) -> None:
    entries = Listed(written)
    place = min(place, len(written))

    def holds(one: Entry) -> bool:
        return one[1] > 0 and one[0] < reached * SIZE

    floor = written[place - 1][0] if place else -1
    fitting = [
        i for i in range(place + 1, len(written)) if holds(written[i]) and written[i][0] >= floor
    ]
    assert last_near(entries, place, len(written), holds) == (fitting[-1] if fitting else None)
