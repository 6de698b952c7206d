"""Reading a queue that another process writes: ends, entries of one file, search by time."""

from collections.abc import Callable
from itertools import product

import pytest

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.errors import StoreFailed
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.paths import offset_name
from wakelog.storage.queue.consume_queue import ColdEntry, ConsumeQueue
from wakelog.storage.queue.entries import ENTRY, PADDING_ENTRY, QueueEntry

DIRECTORY = "/store/consumequeue/T/0"
FILE_ENTRIES = 10
FILE_BYTES = 20 * FILE_ENTRIES
SIZE = 100


def entries(begin: int, end: int) -> bytes:
    """Entries [begin, end) of a queue whose records of 100 bytes follow each other."""
    return b"".join(ENTRY.pack(i * SIZE, SIZE, i) for i in range(begin, end))


def write(
    fs: MemoryFileSystem, data: bytes, *, first_file: int = 0, modified_ms: tuple[int, ...] = ()
) -> None:
    count = max(-(-len(data) // FILE_BYTES), 1)
    for i in range(count):
        path = f"{DIRECTORY}/{offset_name((first_file + i) * FILE_BYTES)}"
        write_file(fs, path, data[i * FILE_BYTES :][:FILE_BYTES].ljust(FILE_BYTES, b"\0"))
        fs.set_modified_ms(path, modified_ms[i] if modified_ms else 0)


def open_queue(fs: MemoryFileSystem) -> ConsumeQueue:
    queue = ConsumeQueue(fs, DIRECTORY, file_bytes=FILE_BYTES, open_files=OpenFiles(4))
    queue.refresh()
    return queue


def test_a_queue_without_files(fs: MemoryFileSystem) -> None:
    queue = open_queue(fs)
    assert (queue.first_queue_offset, queue.files_end) == (0, 0)
    assert queue.entries(0, 10) == b""
    assert queue.entries_nowait(0, 10) == b""
    assert queue.entry(0) is None
    assert queue.end_of_written() == 0
    assert queue.end_of_readable(1000) == 0
    assert queue.min_queue_offset(0, 0, current=7) == 7
    assert by_time(queue, 5, end=0) == 0


def test_entries_stay_inside_one_file(fs: MemoryFileSystem) -> None:
    write(fs, entries(0, 15))
    queue = open_queue(fs)
    assert (queue.file_entries, queue.files_end) == (FILE_ENTRIES, 20)
    assert queue.entries(3, 100) == entries(3, 10)
    assert queue.entries(10, 3) == entries(10, 13)
    assert queue.entries(14, 3) == entries(14, 15) + bytes(40)
    assert queue.entries(20, 3) == b""
    assert queue.entry(14) == QueueEntry(1400, SIZE, 14)
    assert queue.entry(15) is None


def test_not_waiting_for_the_disk(fs: MemoryFileSystem) -> None:
    write(fs, entries(0, 5))
    queue = open_queue(fs)
    assert queue.entries_nowait(2, 2) == entries(2, 4)
    fs.cold = True
    assert queue.entries_nowait(2, 2) is None
    assert queue.entries(2, 2) == entries(2, 4)


def test_a_search_waits_for_the_disk_unless_it_must_not(fs: MemoryFileSystem) -> None:
    searches: dict[str, Callable[..., int]] = {
        "readable": lambda queue, **more: queue.end_of_readable(15 * SIZE, **more),
        "min": lambda queue, **more: queue.min_queue_offset(3 * SIZE, 15, **more),
    }
    write(fs, entries(0, 15))
    for search, expected in (("readable", 15), ("min", 3)):
        for is_cold, kept in product((False, True), ({}, {"blocking": True}, {"blocking": False})):
            queue, fs.cold = open_queue(fs), is_cold
            if is_cold and kept == {"blocking": False}:
                with pytest.raises(ColdEntry):
                    searches[search](queue, **kept)
            else:
                assert searches[search](queue, **kept) == expected
    assert fs.cold and open_queue(fs).end_of_written() == 15


@pytest.mark.parametrize("count", range(31))
def test_ends(fs: MemoryFileSystem, count: int) -> None:
    write(fs, entries(0, count))
    queue = open_queue(fs)
    for begin in range(count + 1):
        assert queue.end_of_written(begin) == count
        assert queue.end_of_readable(count * SIZE, begin) == count
    for readable in range(count):
        assert queue.end_of_readable(readable * SIZE + SIZE - 1) == readable


def test_follows_the_writer(fs: MemoryFileSystem) -> None:
    write(fs, entries(0, 10))
    queue = open_queue(fs)
    assert queue.end_of_written() == 10
    write(fs, entries(0, 12))
    assert queue.end_of_written(10) == 12
    assert queue.entries(11, 5) == entries(11, 12) + bytes(80)


def test_few_entries_are_read_to_find_an_end_again(fs: MemoryFileSystem) -> None:
    write(fs, entries(0, 10))
    queue = open_queue(fs)
    queue.end_of_written()
    fs.calls.clear()
    assert queue.end_of_written(9) == 10
    assert fs.calls["pread"] <= 2


def test_a_removed_file(fs: MemoryFileSystem) -> None:
    write(fs, entries(0, 25))
    queue = open_queue(fs)
    fs.unlink(f"{DIRECTORY}/{offset_name(0)}")
    assert queue.entries(3, 2) == b""
    assert queue.first_queue_offset == 10
    assert queue.end_of_written() == 25
    assert queue.end_of_readable(10_000) == 25
    assert queue.end_of_readable(500) == 10


def test_a_file_that_cannot_be_read(fs: MemoryFileSystem) -> None:
    write(fs, entries(0, 5))
    queue = open_queue(fs)
    fs.fail("pread")
    with pytest.raises(StoreFailed):
        queue.entries(0, 5)


def test_padding_counts_as_readable(fs: MemoryFileSystem) -> None:
    write(fs, PADDING_ENTRY * 4 + entries(4, 8))
    queue = open_queue(fs)
    assert queue.entry(0) == QueueEntry(0, 0x7FFFFFFF, 0)
    assert QueueEntry._make(ENTRY.unpack(PADDING_ENTRY)).is_padding
    assert queue.end_of_readable(600) == 6
    assert queue.end_of_readable(450) == 4
    assert queue.min_queue_offset(1, 8) == 4
    assert queue.min_queue_offset(0, 8) == 0  # as in 4.9.3: offset 0 is not below the log's begin


@pytest.mark.parametrize(
    ("min_physical_offset", "expected"),
    [(0, 10), (1000, 10), (1001, 11), (1300, 13), (1900, 19), (1901, 5), (9999, 5)],
)
def test_min_offset_reads_only_the_first_file(
    fs: MemoryFileSystem, min_physical_offset: int, expected: int
) -> None:
    write(fs, entries(10, 30), first_file=1)
    assert open_queue(fs).min_queue_offset(min_physical_offset, 30, current=5) == expected


def test_min_offset_of_a_file_that_is_being_filled(fs: MemoryFileSystem) -> None:
    write(fs, entries(0, 5))
    assert open_queue(fs).min_queue_offset(300, 5) == 3
    assert open_queue(fs).min_queue_offset(501, 5, current=2) == 2


def by_time(queue: ConsumeQueue, timestamp_ms: int, *, end: int, **values: int) -> int:
    """Search where entry i was stored at 10 * i."""
    return queue.offset_by_time(
        timestamp_ms,
        end=end,
        min_queue_offset=values.get("min_queue_offset", 0),
        min_physical_offset=values.get("min_physical_offset", 0),
        store_time=lambda physical_offset, size: physical_offset // 10,
    )


@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [
        (-5, 0),  # before the first: the first
        (0, 0),
        (30, 3),
        (34, 3),  # the nearer neighbour
        (35, 3),  # of equally near ones the left
        (36, 4),
        (70, 7),
        (9999, 7),  # after the last: the last entry, not the end
    ],
)
def test_by_time(fs: MemoryFileSystem, timestamp_ms: int, expected: int) -> None:
    write(fs, entries(0, 8))
    assert by_time(open_queue(fs), timestamp_ms, end=8) == expected


@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [
        (50, 5),  # the first file was written last at 99
        (99, 9),
        (100, 10),
        (150, 15),
        (500, 22),  # no file is younger: the last
    ],
)
def test_by_time_takes_the_file_by_its_modification_time(
    fs: MemoryFileSystem, timestamp_ms: int, expected: int
) -> None:
    write(fs, entries(0, 23), modified_ms=(99, 199, 299))
    assert by_time(open_queue(fs), timestamp_ms, end=23) == expected


def test_by_time_is_misled_by_modification_times_as_4_9_3_is(fs: MemoryFileSystem) -> None:
    write(fs, entries(0, 23), modified_ms=(1000, 1000, 1000))
    assert by_time(open_queue(fs), 150, end=23) == 9


def test_by_time_at_the_begin_of_the_log(fs: MemoryFileSystem) -> None:
    write(fs, entries(0, 8))
    queue = open_queue(fs)
    assert by_time(queue, 0, end=8, min_queue_offset=3, min_physical_offset=300) == 3
    # Entries of removed records are passed over to the right.
    assert by_time(queue, 0, end=8, min_physical_offset=300) == 3
    # None is left: 4.9.3 then answers with the place before the file.
    assert by_time(queue, 0, end=8, min_physical_offset=10_000) == 0


def test_by_time_with_an_unknown_store_time(fs: MemoryFileSystem) -> None:
    write(fs, entries(0, 8))
    found = open_queue(fs).offset_by_time(
        50, end=8, min_queue_offset=0, min_physical_offset=0, store_time=lambda *_: -1
    )
    assert found == 0
