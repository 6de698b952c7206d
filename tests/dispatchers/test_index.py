"""The index dispatcher: keys come when a batch has come, and are written in time."""

import pytest

from tests.dispatchers.stores import batch_of, dispatch_config
from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import STORE_MS, LogBytes, properties
from wakelog.compiled.columns import ScanFunctions
from wakelog.dispatchers import index
from wakelog.dispatchers.index import IndexDispatcher
from wakelog.dispatchers.sync_files import sync_files
from wakelog.storage.durability.dispatched import DispatchedFile, IndexEnd, read_dispatched
from wakelog.storage.errors import StoreFailed, StoreFull
from wakelog.storage.index.index_service import IndexReader, index_names
from wakelog.storage.log.record_check import SECTOR_BYTES

CONFIG = dispatch_config()


def log_of_keys(count: int = 5) -> LogBytes:
    log = LogBytes()
    for i in range(count):
        log.add(properties(KEYS=f"k{i} all"))
    return log


def open_index(fs: MemoryFileSystem) -> IndexDispatcher:
    return IndexDispatcher(fs, CONFIG, lambda offset: STORE_MS)


def find(fs: MemoryFileSystem, word: str) -> list[int]:
    reader = IndexReader(fs, CONFIG)
    found = reader.query("T", word, 64, 0, 1 << 62).physical_offsets
    reader.close()
    return sorted(found)


def test_every_key_is_found(fs: MemoryFileSystem, functions: ScanFunctions | None) -> None:
    log = log_of_keys()
    dispatcher = open_index(fs)
    dispatcher.recover(log.end)
    dispatcher.dispatch(batch_of(log, functions))
    assert find(fs, "all") == log.offsets
    assert find(fs, "k3") == [log.offsets[3]]
    assert dispatcher.statistics() == {"keys_count": 10, "files_count": 1, "files_made_count": 1}


def test_while_catching_up_it_waits_with_writing(
    fs: MemoryFileSystem, compiled: ScanFunctions, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of_keys()
    dispatcher = open_index(fs)
    dispatcher.recover(log.end)
    dispatcher.dispatch(batch_of(log, compiled, caught_up=False))
    assert find(fs, "all") == []
    dispatcher.dispatch(batch_of(LogBytes()))
    assert find(fs, "all") == log.offsets

    monkeypatch.setattr(index, "WRITE_BACK_KEYS_MAX", 1)
    log.add(properties(KEYS="all"))
    dispatcher.dispatch(batch_of(log, compiled, begin=log.offsets[-1], caught_up=False))
    assert find(fs, "all") == log.offsets


def test_flush_writes_back_and_syncs(fs: MemoryFileSystem, compiled: ScanFunctions) -> None:
    log = log_of_keys()
    dispatcher = open_index(fs)
    dispatcher.recover(log.end)
    dispatcher.dispatch(batch_of(log, compiled, caught_up=False))
    fs.calls.clear()
    sync_files(fs, dispatcher.prepare_flush().paths)
    assert find(fs, "all") == log.offsets
    assert fs.calls["datasync"] == 1
    part = dispatcher.prepare_flush()
    assert (part.paths, part.index_timestamp_ms) == ([], STORE_MS)


def test_a_first_message_waits_for_no_sync_where_the_file_was_made_ahead(
    fs: MemoryFileSystem,
) -> None:
    log = log_of_keys()
    dispatcher = open_index(fs)
    dispatcher.recover(0)
    dispatcher.make_ahead()
    fs.calls.clear()
    dispatcher.dispatch(batch_of(log))
    assert (fs.calls["sync"], fs.calls["sync_directory"]) == (0, 0)
    assert find(fs, "all") == log.offsets
    dispatcher.make_ahead()
    assert fs.list_directory("/store") == ["index"]


def test_an_unused_file_made_ahead_is_removed(fs: MemoryFileSystem) -> None:
    dispatcher = open_index(fs)
    dispatcher.make_ahead()
    assert len(fs.list_directory("/store")) == 1
    dispatcher.close()
    assert fs.list_directory("/store") == []


def test_recover_says_where_the_index_ends(fs: MemoryFileSystem) -> None:
    log = log_of_keys()
    dispatcher = open_index(fs)
    assert dispatcher.recover(log.end) == 0
    dispatcher.dispatch(batch_of(log))
    dispatcher.close()
    again = open_index(fs)
    assert again.recover(log.end) == log.offsets[-1]
    again.dispatch(batch_of(log, begin=log.offsets[-1]))
    assert find(fs, "all") == log.offsets


def test_recover_forgets_what_the_log_no_longer_has(fs: MemoryFileSystem) -> None:
    log = log_of_keys()
    dispatcher = open_index(fs)
    dispatcher.recover(log.end)
    dispatcher.dispatch(batch_of(log))
    dispatcher.close()
    assert open_index(fs).recover(log.offsets[3]) == log.offsets[2]
    assert find(fs, "all") == log.offsets[:3]
    assert open_index(fs).recover(0) == 0
    assert find(fs, "all") == []


def test_what_a_kill_lost_is_found_by_truncate(
    fs: MemoryFileSystem, compiled: ScanFunctions
) -> None:
    log = log_of_keys()
    dispatcher = open_index(fs)
    dispatcher.recover(log.end)
    dispatcher.dispatch(batch_of(log))
    log.add(properties(KEYS="all"))
    dispatcher.dispatch(batch_of(log, compiled, begin=log.offsets[-1], caught_up=False))
    # Killed here: the entry is on disk, the header does not count it.
    killed = open_index(fs)
    killed.recover(log.end)
    assert killed.truncate(log.end) == log.offsets[4]
    killed.dispatch(batch_of(log, compiled, begin=log.offsets[4]))
    assert find(fs, "all") == log.offsets


def noted(fs: MemoryFileSystem, physical_offset: int, index_end: IndexEnd) -> None:
    file = DispatchedFile(fs, CONFIG.paths.dispatched)
    file.note(physical_offset, index_end)
    file.close()


def test_records_without_keys_need_not_come_again(fs: MemoryFileSystem) -> None:
    log = log_of_keys()
    for _ in range(5):
        log.add()
    dispatcher = open_index(fs)
    dispatcher.recover(log.end)
    dispatcher.dispatch(batch_of(log))
    noted(fs, log.offsets[8], dispatcher.prepare_flush().index_end)
    dispatcher.close()
    assert open_index(fs).recover(log.end) == log.offsets[8]
    assert open_index(fs).recover(log.offsets[6]) == log.offsets[6]
    assert open_index(fs).truncate(log.end) == log.offsets[8]
    assert open_index(fs).truncate(log.offsets[6]) == log.offsets[6]
    assert find(fs, "all") == log.offsets[:5]


def test_an_index_that_grew_elsewhere_says_itself_where_it_ends(fs: MemoryFileSystem) -> None:
    log = log_of_keys()
    dispatcher = open_index(fs)
    dispatcher.recover(log.end)
    noted(fs, log.end, IndexEnd())
    # It was switched off up to here, and begins with the first message.
    assert open_index(fs).recover(log.end) == open_index(fs).truncate(log.end) == 0
    dispatcher.dispatch(batch_of(log))
    noted(fs, log.end + 1, IndexEnd(20200101000000000, 3))
    assert open_index(fs).recover(log.end + 1) == log.offsets[4]


def test_only_what_is_durable_is_kept_where_that_is_known(fs: MemoryFileSystem) -> None:
    log = log_of_keys(3)
    dispatcher = open_index(fs)
    dispatcher.recover(log.end)
    dispatcher.dispatch(batch_of(log))
    noted(fs, log.end, dispatcher.prepare_flush().index_end)
    durable_end = log.end
    for i in range(2):
        log.add(properties(KEYS=f"new{i} all"))
    dispatcher.dispatch(batch_of(log, begin=log.offsets[3]))
    killed = open_index(fs)
    killed.recover(log.end)
    assert killed.truncate(log.end) == durable_end
    assert find(fs, "all") == log.offsets[:3]
    killed.dispatch(batch_of(log, begin=log.offsets[3]))
    assert find(fs, "all") == log.offsets


def test_a_cut_that_a_crash_left_half_done_is_done_again(fs: MemoryFileSystem) -> None:
    # A sector ends within the sixth entry, after its physical offset.
    config = dispatch_config(index_slot_count=85)
    log = log_of_keys()
    dispatcher = IndexDispatcher(fs, config, lambda offset: STORE_MS)
    dispatcher.recover(log.end)
    dispatcher.dispatch(batch_of(log))
    durable = dispatcher.prepare_flush().index_end
    path = f"{config.paths.index_directory}/{durable.name}"
    # The log lost what the index had already, and its end was lowered.
    noted(fs, log.offsets[2], durable)
    before = read_file(fs, path)
    assert dispatcher.truncate(log.end) == log.offsets[2]
    assert read_dispatched(fs, config.paths.dispatched).index_end == IndexEnd(durable.name, 5)
    after = read_file(fs, path)
    for old, new in [(before, after), (after, before)]:
        write_file(fs, path, old[:SECTOR_BYTES] + new[SECTOR_BYTES:])
        assert dispatcher.truncate(log.end) == log.offsets[2]
        assert read_file(fs, path) == after


def test_nothing_is_cut_before_it_was_said(fs: MemoryFileSystem) -> None:
    log = log_of_keys()
    dispatcher = open_index(fs)
    dispatcher.recover(log.end)
    dispatcher.dispatch(batch_of(log))
    durable = dispatcher.prepare_flush().index_end
    path = f"{CONFIG.paths.index_directory}/{durable.name}"
    noted(fs, log.offsets[2], durable)
    before = read_file(fs, path)
    fs.fail("datasync")
    with pytest.raises(StoreFailed, match="dispatched"):
        open_index(fs).truncate(log.end)
    assert read_file(fs, path) == before
    assert open_index(fs).truncate(log.end) == log.offsets[2]
    assert find(fs, "all") == log.offsets[:2]


def test_what_a_killed_writer_left_is_synced_from_the_durable_end_on(
    fs: MemoryFileSystem,
) -> None:
    """It may have gone on to another file since the sync that is known of."""
    config = dispatch_config(index_entry_count=4)
    log = log_of_keys(8)
    dispatcher = IndexDispatcher(fs, config, lambda offset: STORE_MS)
    dispatcher.recover(log.end)
    dispatcher.dispatch(batch_of(log))
    names = index_names(fs, config.paths.index_directory)
    paths = [f"{config.paths.index_directory}/{name}" for name in names]
    assert len(paths) > 3
    for number, name in enumerate([0, *map(int, names)]):
        noted(fs, log.end, IndexEnd(name, 1 if name else 0))
        follower = IndexDispatcher(fs, config, lambda offset: STORE_MS)
        follower.recover(log.end)
        part = follower.prepare_flush()
        assert part.paths == paths[max(number - 1, 0) :]
        assert part.directories == [config.paths.index_directory]
        follower.close()


def test_failures_name_the_index(fs: MemoryFileSystem) -> None:
    dispatcher = open_index(fs)
    dispatcher.recover(0)
    fs.fail("truncate", number=28)
    with pytest.raises(StoreFull, match="index"):
        dispatcher.dispatch(batch_of(log_of_keys()))
    fs.fail("list_directory")
    with pytest.raises(StoreFailed, match="index"):
        dispatcher.recover(0)
