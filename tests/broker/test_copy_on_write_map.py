"""A table in blocks: it is a mapping, and no copy sees what came later."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.broker import copy_on_write_map
from wakelog.broker.copy_on_write_map import BLOCK_ENTRIES, CopyOnWriteMap

KEYS = st.integers(0, 12)
CHANGES = st.lists(st.tuples(st.sampled_from(["set", "pop", "copy"]), KEYS), max_size=60)


@pytest.fixture(autouse=True)
def _small_blocks(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if "small" in request.node.name:
            patch.setattr(copy_on_write_map, "BLOCK_ENTRIES", 4)
        yield


def joined(blocks: list[dict[int, int]]) -> dict[int, int]:
    return {key: value for block in blocks for key, value in block.items()}


@given(CHANGES)
def test_a_table_of_small_blocks_is_a_mapping(changes: list[tuple[str, int]]) -> None:
    table: CopyOnWriteMap[int, int] = CopyOnWriteMap()
    model: dict[int, int] = {}
    copies: list[tuple[list[dict[int, int]], dict[int, int]]] = []
    for number, (change, key) in enumerate(changes):
        if change == "copy":
            copies.append((table.copy_blocks(), dict(model)))
        elif change == "set":
            table[key] = model[key] = number
            assert table.owns(key)
        elif key in model:
            assert table.pop(key) == model.pop(key)
        table.validate()
        assert len(table) == len(model)
        assert [table.get(key) for key in range(13)] == [model.get(key) for key in range(13)]
        assert all((key in table) == (key in model) for key in range(13))
        assert dict(pair for pairs in table.items() for pair in pairs) == model
    for blocks, expected in copies:
        assert joined(blocks) == expected


def test_a_copy_has_a_list_of_blocks_and_a_change_copies_one_of_them() -> None:
    table: CopyOnWriteMap[int, int] = CopyOnWriteMap()
    count = 10 * BLOCK_ENTRIES
    for number in range(count):
        table[number] = number
    first = table.copy_blocks()
    assert len(first) == 10
    table[5] = -1
    table[6] = -1
    second = table.copy_blocks()
    assert [one is other for one, other in zip(first, second, strict=True)] == [False] + [True] * 9
    assert (first[0][5], second[0][5]) == (5, -1)
    assert list(joined(first)) == list(range(count))


def test_a_value_is_the_tables_own_until_the_next_copy() -> None:
    table: CopyOnWriteMap[str, list[int]] = CopyOnWriteMap()
    table["a"], table["b"] = [1], [2]
    assert table.owns("a")
    table.copy_blocks()
    assert not table.owns("a")
    table["a"] = [3]
    assert table.owns("a") and not table.owns("b")


def test_room_that_was_freed_is_used_again() -> None:
    table: CopyOnWriteMap[int, int] = CopyOnWriteMap()
    for number in range(50 * BLOCK_ENTRIES):
        table[number] = number
        if number >= 10:
            table.pop(number - 10)
    assert len(table.copy_blocks()) == 1
