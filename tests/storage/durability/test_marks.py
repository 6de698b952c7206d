"""The mark of a running broker: durable before the first append, gone after an orderly stop."""

from __future__ import annotations

import pytest

from tests.fakes.logs import read_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.durability.marks import AbortFile
from wakelog.storage.errors import StoreFailed


def test_it_is_there_while_a_broker_runs() -> None:
    fs = MemoryFileSystem()
    abort = AbortFile(fs, "/store/abort")
    assert not abort.exists()
    abort.create()
    assert abort.exists() and read_file(fs, "/store/abort") == b""
    abort.create()
    abort.remove()
    assert not abort.exists()
    abort.remove()


def test_it_is_durable_before_anything_is_appended() -> None:
    fs = MemoryFileSystem()
    AbortFile(fs, "/store/abort").create()
    assert fs.calls["sync"] == 1 and fs.calls["sync_directory"] == 1


@pytest.mark.parametrize("operation", ["sync", "sync_directory", "open"])
def test_a_mark_that_may_not_last_is_an_error(operation: str) -> None:
    fs = MemoryFileSystem()
    fs.fail(operation)
    with pytest.raises(StoreFailed):
        AbortFile(fs, "/store/abort").create()
    assert fs.descriptor_count == 0


def test_a_mark_that_cannot_be_removed_is_an_error() -> None:
    fs = MemoryFileSystem()
    abort = AbortFile(fs, "/store/abort")
    abort.create()
    fs.fail("unlink")
    with pytest.raises(StoreFailed):
        abort.remove()
    assert abort.exists()
    fs.fail("sync_directory")  # it may come back
    with pytest.raises(StoreFailed):
        abort.remove()
