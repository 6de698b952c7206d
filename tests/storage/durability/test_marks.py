"""The marks of a running broker and of a failed sync: durable where they must be, and heeded."""

import errno

import pytest

from tests.fakes.logs import read_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import NOW_MS, dispatch, open_store, put, store_config
from wakelog.storage.durability.dispatched import DispatchedFile, IndexEnd, read_dispatched
from wakelog.storage.durability.marks import AbortFile, FailedSyncMark
from wakelog.storage.errors import StoreFailed, StoreFull
from wakelog.storage.recovery.steps import recover, recover_derived


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


CONFIG = store_config()


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    store = open_store(fs, CONFIG)
    put(store, b"1", b"2", b"3")
    dispatch(store, fs, begin=0)
    assert store.close(dispatch_behind_bytes=0)
    return fs


def test_it_is_set_and_cleared(fs: MemoryFileSystem) -> None:
    mark = FailedSyncMark(fs, CONFIG.paths)
    assert not mark.is_set()
    mark.set()
    mark.set()
    assert mark.is_set()
    mark.clear()
    mark.clear()
    assert not mark.is_set()


def test_a_disk_that_refuses_is_a_failure_of_the_store(fs: MemoryFileSystem) -> None:
    mark = FailedSyncMark(fs, CONFIG.paths)
    fs.fail("open", number=errno.ENOSPC)
    fs.fail("rename")
    with pytest.raises(StoreFull):
        mark.set()
    assert not mark.is_set()
    mark.set()
    fs.fail("unlink")
    with pytest.raises(StoreFailed):
        mark.clear()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EMFILE])
def test_where_it_cannot_be_made_another_file_takes_its_name(
    fs: MemoryFileSystem, number: int
) -> None:
    file = DispatchedFile(fs, CONFIG.paths.dispatched)
    file.note(100, IndexEnd())
    file.close()
    mark = FailedSyncMark(fs, CONFIG.paths)
    fs.fail("open", number=number)
    mark.set()
    assert mark.is_set()
    assert read_dispatched(fs, CONFIG.paths.dispatched).physical_offset == 0


def test_a_clean_stop_after_a_failed_sync_counts_as_a_crash(fs: MemoryFileSystem) -> None:
    FailedSyncMark(fs, CONFIG.paths).set()
    report = recover(fs, CONFIG, NOW_MS).report
    assert not report.clean_exit and report.dispatch_from == 0


def test_opening_a_store_clears_it(fs: MemoryFileSystem) -> None:
    mark = FailedSyncMark(fs, CONFIG.paths)
    mark.set()
    store = open_store(fs, CONFIG)
    assert not mark.is_set() and not store.recovery.clean_exit
    store.close(dispatch_behind_bytes=0)


def test_derived_files_alone_are_cut_where_they_are_not_sound(fs: MemoryFileSystem) -> None:
    path = CONFIG.paths.consume_queue("TopicTest", 0) + f"/{0:020d}"
    fd = fs.open(path)
    fs.pwrite(fd, bytes(20), 20)
    forgotten_count = fs.calls["forget_cached"]
    assert recover_derived(fs, CONFIG) == 0
    assert fs.calls["forget_cached"] > forgotten_count
    assert fs.pread(fd, 20, 40) == bytes(20)
