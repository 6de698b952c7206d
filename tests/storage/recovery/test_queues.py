"""Queues that are being recovered: cut at both ends of what can be trusted."""

from __future__ import annotations

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import open_queue_writer, store_config
from wakelog.storage.errors import StoreFailed
from wakelog.storage.recovery.queues import QueueRepair, list_queues

CONFIG = store_config()


@pytest.fixture
def fs() -> MemoryFileSystem:
    """Two queues: A/0 with 60 entries of records 100 bytes long, B/3 with 5 of them."""
    fs = MemoryFileSystem()
    for key, count in [(("A", 0), 60), (("B", 3), 5)]:
        writer = open_queue_writer(fs, CONFIG, key)
        for i in range(count):
            writer.put(100 * i, 100, 0, i)
        writer.write_pending()
        writer.close()
    return fs


def repaired(fs: MemoryFileSystem) -> QueueRepair:
    queues = QueueRepair(fs, CONFIG)
    queues.cut_unwritten(after_crash=True)
    return queues


def test_queues_are_directories_with_legal_names(fs: MemoryFileSystem) -> None:
    root = CONFIG.paths.consume_queue_root
    for strange in ("A/x", "A/01", "A/-1", "../A/0", "bad name/0", "Ü/0"):
        fs.make_directories(f"{root}/{strange}")
    write_file(fs, f"{root}/notes", b"")
    assert list(list_queues(fs, CONFIG.paths)) == [("A", 0), ("B", 3)]
    assert list(list_queues(MemoryFileSystem(), CONFIG.paths)) == []


def test_the_furthest_entry_says_how_far_dispatch_came(fs: MemoryFileSystem) -> None:
    queues = repaired(fs)
    assert queues.max_physical_offset == 6000
    assert queues.next_offsets({}) == {("A", 0): 60, ("B", 3): 5}
    assert QueueRepair(MemoryFileSystem(), CONFIG).max_physical_offset == -1


@pytest.mark.parametrize(("durable", "end"), [(0, 30), (3000, 30), (3200, 60), (6000, 60)])
def test_a_damaged_durable_entry_ends_no_queue(
    fs: MemoryFileSystem, durable: int, end: int
) -> None:
    path = f"{CONFIG.paths.consume_queue('A', 0)}/{0:020d}"
    data = bytearray(read_file(fs, path))
    data[600:620] = bytes(20)
    write_file(fs, path, bytes(data))
    queues = QueueRepair(fs, CONFIG)
    queues.cut_unwritten(after_crash=True, durable=durable)
    assert queues.next_offsets({})["A", 0] == end


def test_the_log_may_know_of_more_messages(fs: MemoryFileSystem) -> None:
    seen = {("A", 0): 62, ("B", 3): 4, ("C", 1): 1}
    assert repaired(fs).next_offsets(seen) == {("A", 0): 62, ("B", 3): 5, ("C", 1): 1}


@pytest.mark.parametrize("begin", [0, CONFIG.consume_queue_bytes])
def test_a_queue_without_entries_stays_if_the_log_has_its_records(
    fs: MemoryFileSystem, begin: int
) -> None:
    """Its entries are made again; until then its file says that they were lost."""
    path = f"{CONFIG.paths.consume_queue('C', 1)}/{begin:020d}"
    write_file(fs, path, bytes(CONFIG.consume_queue_bytes))
    queues = repaired(fs)
    assert queues.without_entries == {("C", 1): begin // 20}
    queues.resolve_unused({("C", 1)}, 100)
    assert read_file(fs, path) == bytes(CONFIG.consume_queue_bytes)


def test_the_entry_of_an_expired_queue_is_durable(fs: MemoryFileSystem) -> None:
    path = f"{CONFIG.paths.consume_queue('C', 1)}/{CONFIG.consume_queue_bytes:020d}"
    write_file(fs, path, bytes(CONFIG.consume_queue_bytes))
    queues = repaired(fs)
    fs.fail("datasync")
    with pytest.raises(StoreFailed):
        queues.resolve_unused((), 100)


def test_entries_above_the_logs_end_are_removed_for_good(fs: MemoryFileSystem) -> None:
    queues = repaired(fs)
    assert queues.cut_at(1000) == (("A", 0),)
    assert queues.next_offsets({}) == {("A", 0): 10, ("B", 3): 5}
    queues.close()
    again = repaired(fs)
    assert again.next_offsets({}) == {("A", 0): 10, ("B", 3): 5}
    assert again.cut_at(1000) == ()


def test_closing_lets_every_file_go(fs: MemoryFileSystem) -> None:
    queues = repaired(fs)
    assert fs.descriptor_count > 0
    queues.close()
    assert fs.descriptor_count == 0
