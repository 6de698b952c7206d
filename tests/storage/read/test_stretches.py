"""Batches of several stretches of the log; `tests/compiled` compares both twins."""

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
