"""Files are synced through other descriptors than the writer's, names by their directories."""

import pytest

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.dispatchers.sync_files import sync_directories, sync_files, sync_tree
from wakelog.storage.errors import StoreFailed


def test_syncs_each_and_closes_it() -> None:
    fs = MemoryFileSystem()
    write_file(fs, "/store/a", b"")
    write_file(fs, "/store/b", b"")
    sync_files(fs, ["/store/a", "/store/gone", "/store/b"])
    assert fs.calls["datasync"] == 2
    assert fs.descriptor_count == 0


@pytest.mark.parametrize("operation", ["open", "datasync"])
def test_a_failure_raises(operation: str) -> None:
    fs = MemoryFileSystem()
    write_file(fs, "/store/a", b"")
    fs.fail(operation)
    with pytest.raises(StoreFailed):
        sync_files(fs, ["/store/a"])
    assert fs.descriptor_count == 0


def test_each_directory_is_synced_once() -> None:
    fs = MemoryFileSystem()
    fs.make_directories("/store/topic")
    fs.calls.clear()
    sync_directories(fs, ["/store", "/store/topic", "/store/gone", "/store"])
    assert fs.calls["sync_directory"] == 3


def test_a_directory_that_cannot_be_synced_is_a_failure_of_the_store() -> None:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    fs.fail("sync_directory")
    with pytest.raises(StoreFailed):
        sync_directories(fs, ["/store"])


def test_a_tree_is_synced_with_all_of_its_names() -> None:
    fs = MemoryFileSystem()
    for path in ("/store/new/index/1", "/store/new/queue/T/0/0", "/store/new/queue/T/1/0"):
        write_file(fs, path, b"x")
    fs.calls.clear()
    sync_tree(fs, "/store/new")
    assert fs.calls["datasync"] == 3
    # new, index, queue, T, 0, 1, and the folder that has the name "new".
    assert fs.calls["sync_directory"] == 7
    assert fs.descriptor_count == 0
