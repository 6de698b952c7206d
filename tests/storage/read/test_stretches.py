"""Batches of several stretches of the log, and by many tags; `tests/compiled` compares twins."""

from typing import Any

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import dispatch, open_store, put
from tests.storage.read.test_reader import bodies, config, get, twin
from wakelog.storage.read import reader
from wakelog.storage.read.batch_limits import LARGE_READS_MAX

__all__ = ["twin"]


@pytest.mark.usefixtures("twin")
def test_records_far_from_each_other_are_read_apart(fs: MemoryFileSystem) -> None:
    store = open_store(fs, config())
    for number in range(40):
        put(store, number.to_bytes(4, "big"))
        put(store, bytes(9_000), topic="elsewhere")
    dispatch(store, fs)
    result = get(store, 0, 40, by_bytes=True)
    assert bodies(result) == list(range(40))
    assert len(result.frames) == (40 if reader._library is None else 1)
    large = get(store, 0, 40, by_bytes=True, is_large=True)
    if reader._library is not None:
        assert large.count == large.next_begin_offset == LARGE_READS_MAX
        assert bodies(large) == list(range(LARGE_READS_MAX))
        large = get(store, 0, 40, codes=frozenset({0}), by_bytes=True, is_large=True)
    assert bodies(large) == list(range(40))


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("count", [1, reader.CODES_COUNT_MAX, reader.CODES_COUNT_MAX + 1])
def test_any_number_of_tags_may_be_asked_for(
    fs: MemoryFileSystem, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library in C has room for some of them; plain Python looks for more."""
    store = open_store(fs, config())
    for i in range(40):
        tag = "A" if i % 2 else "B"
        put(store, i.to_bytes(4, "big"), properties_text=f"TAGS\x01{tag}")
    dispatch(store, fs)
    asked: list[int] = []
    library = reader._library

    class Counting:
        """The library; what it filters by is counted."""

        def __getattr__(self, name: str) -> Any:
            if name == "filter_entries":
                asked.append(count)
            return getattr(library, name)

    if library is not None:
        monkeypatch.setattr(reader, "_library", Counting())
    codes = frozenset({ord("A"), *range(1_000, 999 + count)})
    assert len(codes) == count
    assert bodies(get(store, 0, 40, codes=codes)) == list(range(1, 40, 2))
    assert bool(asked) is (library is not None and count <= reader.CODES_COUNT_MAX)
