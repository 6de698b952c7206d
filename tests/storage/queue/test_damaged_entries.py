"""Entries that the disk has damaged: the writer of their queue cuts or removes no other."""

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.storage.queue.test_consume_queue_writer import (
    DIRECTORY,
    FILE_BYTES,
    FILE_ENTRIES,
    SIZE,
    open_writer,
    put_column,
    put_range,
    stored,
)
from wakelog.storage.paths import offset_name
from wakelog.storage.queue.entries import ENTRY


def lie(fs: MemoryFileSystem, place: int, entry: bytes) -> None:
    """Spoil an entry."""
    path = f"{DIRECTORY}/{offset_name(place // FILE_ENTRIES * FILE_BYTES)}"
    data = bytearray(read_file(fs, path))
    at = place % FILE_ENTRIES * ENTRY.size
    data[at : at + ENTRY.size] = entry
    write_file(fs, path, bytes(data))


@pytest.mark.parametrize(
    "entry", [bytes(20), ENTRY.pack(1 << 40, SIZE, 0), ENTRY.pack(-1, SIZE, 0)]
)
@pytest.mark.parametrize("place", [0, 9, 10, 13])
def test_an_entry_that_lies_cuts_no_other(fs: MemoryFileSystem, place: int, entry: bytes) -> None:
    put_range(open_writer(fs), 0, 25)
    lie(fs, place, entry)
    writer = open_writer(fs)
    assert writer.max_queue_offset == 25
    assert not writer.truncate_physical(25 * SIZE)
    assert writer.truncate_physical(18 * SIZE)
    assert writer.max_queue_offset == 18
    entries = list(ENTRY.iter_unpack(stored(fs)))
    assert [one[2] for one in entries[:place]] == list(range(place))
    assert [one[2] for one in entries[place + 1 : 18]] == list(range(place + 1, 18))
    assert set(entries[18:]) == {(0, 0, 0)}


@pytest.mark.parametrize("entry", [bytes(20), ENTRY.pack(0, SIZE, 0), ENTRY.pack(1 << 40, SIZE, 0)])
def test_a_file_goes_by_all_its_last_entries(fs: MemoryFileSystem, entry: bytes) -> None:
    writer = open_writer(fs)
    put_range(writer, 0, 25)
    lie(fs, 9, entry)
    assert writer.remove_files_before(8 * SIZE) == 0
    assert writer.remove_files_before(9 * SIZE) == 1


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("claimed", [7, 8, 11])
def test_a_last_entry_that_lies_hides_no_later_record(
    fs: MemoryFileSystem, claimed: int, bulk: bool
) -> None:
    """Reput lags when it is killed; the entry says that it came further."""
    put_range(open_writer(fs), 0, 5)
    lie(fs, 4, ENTRY.pack(claimed * SIZE, SIZE, 0))
    writer = open_writer(fs)
    if bulk:
        put_column(writer, [(i, i) for i in range(5, 10)])
    else:
        put_range(writer, 5, 10)
    entries = list(ENTRY.iter_unpack(stored(fs)))
    assert [one[2] for one in entries[5:10]] == [5, 6, 7, 8, 9]
    assert (writer.max_queue_offset, writer.max_physical_offset) == (10, 10 * SIZE)


def test_an_entry_below_the_one_before_ends_a_queue_after_a_crash(fs: MemoryFileSystem) -> None:
    """A cut that was torn left its size."""
    put_range(open_writer(fs), 0, 5)
    lie(fs, 4, ENTRY.pack(0, SIZE, 0))
    assert open_writer(fs, after_crash=True).max_queue_offset == 4


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("begin", [0, 3, 11, 12])
def test_entries_that_come_again_are_counted(fs: MemoryFileSystem, bulk: bool, begin: int) -> None:
    """One by one or as a column; a queue offset below the end with a later record is one, too."""
    writer = open_writer(fs)
    for first, end in ((0, 12), (begin, 15)):
        if bulk:
            put_column(writer, [(place, place) for place in range(first, end)])
        else:
            put_range(writer, first, end)
    assert (writer.max_queue_offset, writer.repeated_count) == (15, 12 - begin)
    writer.put(99 * SIZE, SIZE, 0, 14)
    assert (writer.max_queue_offset, writer.repeated_count) == (15, 13 - begin)
