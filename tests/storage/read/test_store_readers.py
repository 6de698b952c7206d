"""No two callers share a set of readers."""

from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import dispatch, open_store, put, store_config
from wakelog.storage.read.reader import GetRequest, LogView
from wakelog.storage.read.store_readers import StoreReaders

MEMORY_BYTES = 1000


def new_readers(fs: MemoryFileSystem) -> StoreReaders:
    return StoreReaders(fs, store_config(), physical_memory_bytes=MEMORY_BYTES)


def test_two_callers_at_once_get_two_sets() -> None:
    readers = new_readers(MemoryFileSystem())
    with readers.lend() as first, readers.lend() as second:
        assert first is not second


def test_a_single_caller_gets_the_same_set_again() -> None:
    readers = new_readers(MemoryFileSystem())
    with readers.lend() as first:
        pass
    with readers.lend() as again:
        assert again is first
        with readers.lend() as second:
            pass
    with readers.lend() as last:
        assert last is again is not second


def test_forgetting_ends_every_set_after_its_present_use() -> None:
    fs = MemoryFileSystem()
    store = open_store(fs, store_config())
    put(store, b"one", b"two")
    dispatch(store, fs)
    readers = new_readers(fs)
    view = LogView(0, store.max_physical_offset, store.dispatched)
    store.close(dispatch_behind_bytes=0)
    assert fs.descriptor_count == 0
    with readers.lend() as first:
        readers.forget()
        result = first.reader.get(GetRequest("TopicTest", 0, 0, 32), view)
        assert result is not None and result.count == 2
        assert fs.descriptor_count > 0
    with readers.lend() as second:
        assert second is not first
        assert fs.descriptor_count == 0


def test_a_set_that_is_lent_while_all_are_closed_is_closed_when_it_comes_back() -> None:
    fs = MemoryFileSystem()
    store = open_store(fs, store_config())
    put(store, b"one")
    store.close(dispatch_behind_bytes=0)
    readers = new_readers(fs)
    with readers.lend() as lent:
        assert lent.log.read(0, 10)
        readers.close()
        assert fs.descriptor_count > 0
    assert fs.descriptor_count == 0


def test_memory_is_a_part_of_the_machines() -> None:
    assert new_readers(MemoryFileSystem()).memory_bytes == 400


def test_closing_closes_every_free_set() -> None:
    fs = MemoryFileSystem()
    store = open_store(fs, store_config())
    put(store, b"one")
    dispatch(store, fs)
    assert store.get_message(GetRequest("TopicTest", 0, 0, 32)) is not None
    before = fs.descriptor_count
    store._readers.close()
    assert fs.descriptor_count < before
