"""How far a queue may be read, by the files and one watermark alone."""

import inspect

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import open_queue_writer, remove_queue_files, store_config
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import IllegalName
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.message_store import MessageStore
from wakelog.storage.queue.consume_queue import ConsumeQueue
from wakelog.storage.read.readable import ReadableQueue, ReadableQueues
from wakelog.storage.read.reader import GetRequest

KEY = ("TopicTest", 0)
RECORD_BYTES = 100


@pytest.fixture
def config() -> StoreConfig:
    return store_config()


def readable(fs: MemoryFileSystem, config: StoreConfig) -> ReadableQueue:
    return ReadableQueue(
        ConsumeQueue(fs, config.paths.consume_queue(*KEY), file_bytes=1000, open_files=OpenFiles())
    )


def append(fs: MemoryFileSystem, config: StoreConfig, begin: int, end: int) -> None:
    """Write entries [begin, end); entry i is of the record [100 i, 100 i + 100)."""
    writer = open_queue_writer(fs, config, KEY)
    for i in range(begin, end):
        writer.put(i * RECORD_BYTES, RECORD_BYTES, i, i)
    writer.write_pending()
    writer.close()


def test_every_watermark_shows_exactly_what_ends_below_it(
    fs: MemoryFileSystem, config: StoreConfig
) -> None:
    append(fs, config, 0, 130)
    for dispatched in range(0, 13_200, 37):
        fresh = readable(fs, config)
        assert fresh.end(dispatched) == min(dispatched // RECORD_BYTES, 130)


def test_the_end_moves_up_with_the_watermark(fs: MemoryFileSystem, config: StoreConfig) -> None:
    queue = readable(fs, config)
    assert queue.end(0) == 0
    for entries in (1, 2, 49, 50, 51, 120, 121, 400):
        append(fs, config, 0, entries)
        assert queue.end(entries * RECORD_BYTES - 1) == entries - 1
        assert queue.end(entries * RECORD_BYTES) == entries
    assert queue.end(0) == 400


def test_entries_may_be_missing_below_the_watermark(
    fs: MemoryFileSystem, config: StoreConfig
) -> None:
    """On a slave or after Reput was started again the word can be ahead of this queue's files."""
    queue = readable(fs, config)
    append(fs, config, 0, 60)
    assert queue.end(1 << 40) == 60
    append(fs, config, 60, 70)
    assert queue.end(1 << 40) == 60  # nothing new was dispatched, so nothing is compared for
    assert queue.end((1 << 40) + 1) == 70


def test_a_queue_can_begin_in_the_middle_of_a_file(
    fs: MemoryFileSystem, config: StoreConfig
) -> None:
    append(fs, config, 70, 75)
    queue = readable(fs, config)
    assert queue.end(70 * RECORD_BYTES + RECORD_BYTES) == 71
    assert queue.end(1 << 40) == 75
    assert queue.begin(7000, 1 << 40) == 70


def test_the_begin_follows_the_log_and_the_removed_files(
    fs: MemoryFileSystem, config: StoreConfig
) -> None:
    append(fs, config, 0, 200)
    queue = readable(fs, config)
    assert queue.begin(0, 1 << 40) == 0
    assert queue.begin(4_000, 1 << 40) == 40
    # No entry of the first file is left in the log: the place stays until the file is removed.
    assert queue.begin(12_000, 1 << 40) == 40
    assert remove_queue_files(fs, config, KEY, 12_000) == 2
    assert queue.begin(12_000, 1 << 40) == 120


def test_only_queues_with_entries_are_remembered(fs: MemoryFileSystem, config: StoreConfig) -> None:
    append(fs, config, 0, 3)

    opened: list[tuple[str, int]] = []

    def open_queue(topic: str, queue_id: int) -> ReadableQueue:
        directory = config.paths.consume_queue(topic, queue_id)
        opened.append((topic, queue_id))
        return ReadableQueue(ConsumeQueue(fs, directory, file_bytes=1000, open_files=OpenFiles()))

    queues = ReadableQueues(open_queue)
    for key in [("Nobody", 0), ("TopicTest", 1)] * 2:
        assert queues.find(*key, 1 << 40) is None
    assert len(opened) == 4  # a queue without files is not remembered
    first = queues.find(*KEY, 1 << 40)
    assert first is not None and first is queues.find(*KEY, 1 << 40)
    with pytest.raises(IllegalName):
        queues.find("../etc", 0, 0)
    assert fs.descriptor_count > 0
    queues.close()
    assert fs.descriptor_count == 0
    assert queues.find(*KEY, 1 << 40) is not first


@pytest.mark.parametrize("seen", [50, 51])
def test_a_file_that_was_removed_and_made_again_is_read_by_its_name(
    fs: MemoryFileSystem, config: StoreConfig, seen: int
) -> None:
    """A restarted Reput removes a file in which it has to make every entry again."""
    append(fs, config, 0, 52)
    queue = readable(fs, config)
    assert queue.end(seen * RECORD_BYTES) == seen  # has compared into the second file
    writer = open_queue_writer(fs, config, KEY)
    assert writer.truncate_physical(50 * RECORD_BYTES)
    writer.close()
    assert queue.end(52 * RECORD_BYTES) >= seen
    append(fs, config, 0, 60)
    assert queue.end(60 * RECORD_BYTES) == 60
    assert queue.entries(50, 10, blocking=True) == queue.queue.entries(50, 10) != bytes(200)


READERS = (CommitLogReader, ConsumeQueue, GetRequest, MessageStore, ReadableQueue, ReadableQueues)


def test_a_reader_waits_for_the_disk_unless_it_may_not() -> None:
    """Services call without `blocking`, and would take what is not in the page cache for an end."""
    defaults = {
        f"{reader.__name__}.{name}": given.default
        for reader in READERS
        for name, member in inspect.getmembers(reader, inspect.isfunction)
        if (given := inspect.signature(member).parameters.get("blocking")) is not None
        and given.default is not inspect.Parameter.empty
    }
    assert {"ReadableQueue.begin", "GetRequest.__new__"} <= defaults.keys()
    assert set(defaults.values()) == {True}, defaults
