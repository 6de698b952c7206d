"""Writing a queue: where an entry goes, what a restart finds, what a truncation leaves."""

import errno

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.errors import StoreFailed, StoreFull
from wakelog.storage.log.allocate import make_segment
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.paths import offset_name
from wakelog.storage.queue.consume_queue import ConsumeQueue
from wakelog.storage.queue.consume_queue_ext import ConsumeQueueExtWriter, ExtensionUnit
from wakelog.storage.queue.consume_queue_writer import GAP_ENTRIES_MAX, ConsumeQueueWriter
from wakelog.storage.queue.entries import ENTRY, PADDING_ENTRY

DIRECTORY = "/store/consumequeue/T/0"
FILE_ENTRIES = 10
FILE_BYTES = 20 * FILE_ENTRIES
SIZE = 100


def open_writer(
    fs: MemoryFileSystem, *, after_crash: bool = False, fill_gaps: bool = True
) -> ConsumeQueueWriter:
    def make_file(path: str, size_bytes: int) -> None:
        make_segment(fs, path, size_bytes, temporary_path=f"/store/{path.replace('/', '.')}")

    writer = ConsumeQueueWriter(
        fs,
        DIRECTORY,
        file_bytes=FILE_BYTES,
        open_files=OpenFiles(4),
        make_file=make_file,
        fill_gaps=fill_gaps,
    )
    writer.recover(after_crash=after_crash)
    return writer


def put(writer: ConsumeQueueWriter, *places: tuple[int, int]) -> None:
    """Put records of 100 bytes: (number of the record in the log, its queue offset)."""
    for number, queue_offset in places:
        writer.put(number * SIZE, SIZE, number, queue_offset)
    writer.write_pending()


def put_range(writer: ConsumeQueueWriter, begin: int, end: int) -> None:
    put(writer, *((i, i) for i in range(begin, end)))


def stored(fs: MemoryFileSystem) -> bytes:
    names = fs.list_directory(DIRECTORY) if fs.exists(DIRECTORY) else []
    return b"".join(read_file(fs, f"{DIRECTORY}/{name}") for name in names)


def numbers(fs: MemoryFileSystem) -> list[int | None]:
    """Return which record each written place names: its number, None for padding."""
    found: list[int | None] = []
    for physical_offset, size, tags_code in ENTRY.iter_unpack(stored(fs)):
        if size == SIZE:
            assert tags_code * SIZE == physical_offset
            found.append(tags_code)
        elif size:
            found.append(None)
    return found


# What is there before, what is put, what is there then; see the table in the module.
TABLE = {
    "first": ([], (5, 0), [5]),
    "first in the middle of a file": ([], (5, 3), [None, None, None, 5]),
    "first in a later file": ([], (5, 23), [None, None, None, 5]),
    "next": ([(0, 0), (1, 1)], (2, 2), [0, 1, 2]),
    "has an entry": ([(0, 0), (1, 1)], (1, 1), [0, 1]),
    "has an entry, whatever its queue offset": ([(0, 0), (1, 1)], (0, 7), [0, 1]),
    "queue offset 0": ([(0, 0), (1, 1)], (2, 0), [0, 1, 2]),
    "place is taken": ([(0, 0), (1, 1), (2, 2)], (3, 1), [0, 1, 2]),
    "gap": ([(0, 0), (1, 1)], (5, 4), [0, 1, 5, 5, 5]),
    "gap over a file's end": ([(i, i) for i in range(9)], (20, 11), [*range(9), 20, 20, 20]),
    "gap too long": ([(0, 0), (1, 1)], (5, 3 + GAP_ENTRIES_MAX), [0, 1, 5]),
    "negative": ([(0, 0)], (1, -1), [0]),
    "endless": ([], (1, 1 << 62), []),
}


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("bulk", [False, True])
def test_where_an_entry_goes(fs: MemoryFileSystem, name: str, bulk: bool) -> None:
    before, (number, queue_offset), after = TABLE[name]
    writer = open_writer(fs)
    put(writer, *before)
    if bulk:
        put_column(writer, [(number, queue_offset)])
    else:
        put(writer, (number, queue_offset))
    assert numbers(fs) == after
    reader = ConsumeQueue(fs, DIRECTORY, file_bytes=FILE_BYTES, open_files=OpenFiles(4))
    if after:
        assert reader.end_of_written() == writer.max_queue_offset


def test_without_filling_gaps_as_4_9_3(fs: MemoryFileSystem) -> None:
    writer = open_writer(fs, fill_gaps=False)
    put(writer, (0, 0), (1, 1), (5, 4))
    assert numbers(fs) == [0, 1, 5]
    assert writer.gaps_count == 1


def test_files_are_whole_and_follow_one_another(fs: MemoryFileSystem) -> None:
    writer = open_writer(fs)
    put_range(writer, 0, 25)
    assert fs.list_directory(DIRECTORY) == [offset_name(i * FILE_BYTES) for i in range(3)]
    assert len(stored(fs)) == 3 * FILE_BYTES
    assert (writer.max_queue_offset, writer.max_physical_offset) == (25, 2500)
    assert fs.list_directory("/store") == ["consumequeue"]


def test_one_write_a_file(fs: MemoryFileSystem) -> None:
    writer = open_writer(fs)
    put_range(writer, 0, 1)
    fs.calls.clear()
    put_range(writer, 1, 15)
    assert fs.calls["pwrite"] == 2


def run(
    writer: ConsumeQueueWriter, begin: int, end: int, queue_offset: int, data: bytes = b""
) -> bool:
    return writer.put_run(
        data or b"".join(ENTRY.pack(i * SIZE, SIZE, i) for i in range(begin, end)),
        queue_offset=queue_offset,
        physical_offset=begin * SIZE,
        physical_offset_end=end * SIZE,
    )


def put_column(writer: ConsumeQueueWriter, places: list[tuple[int, int]]) -> None:
    found = np.array(places, dtype=np.int64).reshape(-1, 2)
    data = b"".join(ENTRY.pack(number * SIZE, SIZE, number) for number, _ in places)
    unbroken = bool((np.diff(found[:, 1]) == 1).all())
    offers_run = bool(places) and unbroken
    if not offers_run or not run(writer, places[0][0], places[-1][0] + 1, places[0][1], data):
        writer.put_column(
            data,
            physical_offsets=found[:, 0] * SIZE,
            sizes=np.full(len(places), SIZE, dtype=np.int64),
            tags_codes=found[:, 0],
            queue_offsets=found[:, 1],
        )
    writer.write_pending()


@pytest.mark.parametrize(
    ("begin", "taken"),
    [((2, 2), True), ((1, 1), False), ((1, 2), False), ((3, 3), False), ((2, 0), False)],
)
def test_a_run_is_taken_only_if_it_follows(
    fs: MemoryFileSystem, begin: tuple[int, int], taken: bool
) -> None:
    writer = open_writer(fs)
    put_range(writer, 0, 2)
    assert taken is run(writer, begin[0], begin[0] + 3, begin[1])
    writer.write_pending()
    assert numbers(fs) == ([0, 1, 2, 3, 4] if taken else [0, 1])


def test_a_run_in_reserved_place_is_written_at_once(fs: MemoryFileSystem) -> None:
    writer = open_writer(fs)
    put_range(writer, 0, 2)
    writer.dirty_paths()
    assert run(writer, 2, 4, 2) and numbers(fs) == [0, 1, 2, 3]
    [path] = writer.dirty_paths()
    assert path.startswith(DIRECTORY)
    fs.calls.clear()
    writer.write_pending()
    assert not fs.calls["pwrite"]
    # It reaches into a file that is not there, and then it comes behind that one.
    assert run(writer, 4, 12, 4) and run(writer, 12, 14, 12) and numbers(fs) == [0, 1, 2, 3]
    writer.write_pending()
    assert numbers(fs) == list(range(14))


def test_a_run_that_could_not_be_written_is_not_put(fs: MemoryFileSystem) -> None:
    writer = open_writer(fs)
    put_range(writer, 0, 2)
    fs.fail("pwrite", number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        run(writer, 2, 4, 2)
    assert (writer.max_queue_offset, writer.max_physical_offset) == (2, 2 * SIZE)
    assert run(writer, 2, 4, 2) and numbers(fs) == [0, 1, 2, 3]


columns = st.lists(st.integers(0, 3), max_size=12).map(
    lambda steps: list(np.cumsum(np.array(steps, dtype=np.int64)) - (steps[0] if steps else 0))
)


@given(
    first=st.integers(0, 12),
    offsets=st.lists(columns, max_size=4),
    back=st.integers(0, 5),
)
def test_a_column_is_the_same_as_one_by_one(
    first: int, offsets: list[list[int]], back: int
) -> None:
    disks = []
    for bulk in (False, True):
        fs = MemoryFileSystem()
        fs.make_directories("/store")
        writer = open_writer(fs)
        begin, number = first, 0
        for steps in offsets:
            places = [(number + i, begin + int(step)) for i, step in enumerate(steps)]
            if bulk:
                put_column(writer, places)
            else:
                put(writer, *places)
            if places:
                # The next column begins with records that were put already.
                repeat = min(back, len(places) - 1)
                begin, number = places[-1][1] + 1 - repeat, places[-1][0] + 1 - repeat
        disks.append((stored(fs), writer.max_queue_offset, writer.max_physical_offset))
    assert disks[0] == disks[1]


def test_a_failed_write_is_repeated(fs: MemoryFileSystem) -> None:
    writer = open_writer(fs)
    put_range(writer, 0, 3)
    fs.fail("pwrite", number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        put_range(writer, 3, 5)
    assert numbers(fs) == [0, 1, 2]
    writer.write_pending()
    assert numbers(fs) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("after_crash", [False, True])
@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 20, 45])
def test_recover_finds_the_end(fs: MemoryFileSystem, count: int, after_crash: bool) -> None:
    put_range(open_writer(fs), 0, count)
    writer = open_writer(fs, after_crash=after_crash)
    assert writer.max_queue_offset == count
    assert writer.max_physical_offset == (count * SIZE if count else -1)
    put_range(writer, count, count + 3)
    assert numbers(fs) == list(range(count + 3))


def test_recover_zeroes_what_follows_the_end(fs: MemoryFileSystem) -> None:
    put_range(open_writer(fs), 0, 15)
    path = f"{DIRECTORY}/{offset_name(FILE_BYTES)}"
    data = bytearray(read_file(fs, path))
    data[20:40] = bytes(20)  # a page that a crash lost: entries behind it are stale
    write_file(fs, path, bytes(data))
    writer = open_writer(fs, after_crash=True)
    assert writer.max_queue_offset == 11
    assert numbers(fs) == list(range(11))
    assert read_file(fs, path)[20:] == bytes(FILE_BYTES - 20)


def test_careful_recovery_begins_at_the_third_last_file(fs: MemoryFileSystem) -> None:
    put_range(open_writer(fs), 0, 45)
    first = f"{DIRECTORY}/{offset_name(0)}"
    write_file(fs, first, bytes(FILE_BYTES))
    assert open_writer(fs, after_crash=True).max_queue_offset == 45
    third_last = f"{DIRECTORY}/{offset_name(2 * FILE_BYTES)}"
    data = read_file(fs, third_last)
    write_file(fs, third_last, data[:40].ljust(FILE_BYTES, b"\0"))
    assert open_writer(fs, after_crash=True).max_queue_offset == 22
    assert len(fs.list_directory(DIRECTORY)) == 3


def test_recover_gives_a_short_file_its_length(fs: MemoryFileSystem) -> None:
    put_range(open_writer(fs), 0, 13)
    path = f"{DIRECTORY}/{offset_name(FILE_BYTES)}"
    write_file(fs, path, read_file(fs, path)[:60])
    assert open_writer(fs).max_queue_offset == 13
    assert len(read_file(fs, path)) == FILE_BYTES


def test_a_file_that_was_made_and_not_written(fs: MemoryFileSystem) -> None:
    # 4.9.3 would put the entry at the file's first place.
    write_file(fs, f"{DIRECTORY}/{offset_name(0)}", bytes(FILE_BYTES))
    put(open_writer(fs), (7, 4))
    assert numbers(fs) == [None, None, None, None, 7]


def test_an_empty_file_elsewhere_gives_way(fs: MemoryFileSystem) -> None:
    write_file(fs, f"{DIRECTORY}/{offset_name(0)}", bytes(FILE_BYTES))
    put(open_writer(fs), (7, 34))
    assert fs.list_directory(DIRECTORY) == [offset_name(3 * FILE_BYTES)]


def test_padding_alone_is_an_empty_queue(fs: MemoryFileSystem) -> None:
    # 4.9.3 would take the padding's size for a maximum of 2 GiB and refuse everything below.
    write_file(fs, f"{DIRECTORY}/{offset_name(0)}", (PADDING_ENTRY * 4).ljust(FILE_BYTES, b"\0"))
    writer = open_writer(fs)
    assert writer.max_physical_offset == -1
    put(writer, (7, 4))
    assert numbers(fs) == [None, None, None, None, 7]


@pytest.mark.parametrize("kept", range(26))
def test_truncate(fs: MemoryFileSystem, kept: int) -> None:
    writer = open_writer(fs)
    put_range(writer, 0, 25)
    assert writer.truncate_physical(kept * SIZE) is (kept < 25)
    assert numbers(fs) == list(range(kept))
    assert stored(fs)[20 * kept :].strip(b"\0") == b""
    assert writer.max_queue_offset == kept
    put_range(writer, kept, 25)
    assert numbers(fs) == list(range(25))


def test_truncate_cuts_a_record_that_reaches_over_the_end(fs: MemoryFileSystem) -> None:
    writer = open_writer(fs)
    put_range(writer, 0, 3)
    assert not writer.truncate_physical(250)
    assert writer.truncate_physical(200)


def test_truncate_leaves_no_padding_alone(fs: MemoryFileSystem) -> None:
    writer = open_writer(fs)
    put(writer, (5, 3), (6, 4))
    assert writer.truncate_physical(500)
    assert stored(fs) == b""
    put(writer, (5, 23))
    assert fs.list_directory(DIRECTORY) == [offset_name(2 * FILE_BYTES)]


def test_a_torn_entry_is_mended(fs: MemoryFileSystem) -> None:
    put_range(open_writer(fs), 0, 5)
    path = f"{DIRECTORY}/{offset_name(0)}"
    whole = read_file(fs, path)
    for bulk in (False, True):
        torn = bytearray(whole)
        torn[92:100] = bytes(8)  # the tags code of entry 4
        write_file(fs, path, bytes(torn))
        writer = open_writer(fs)
        if bulk:
            put_column(writer, [(i, i) for i in range(5)])
        else:
            put_range(writer, 0, 5)
        assert (writer.mended_count, writer.dirty_paths()) == (1, [path])
        assert read_file(fs, path)[:100] == whole[:100]
        writer.truncate_physical(500)


def test_entries_of_another_record_are_not_mended(fs: MemoryFileSystem) -> None:
    # Queues of 4.9.3 can have places that differ from queue offsets.
    writer = open_writer(fs, fill_gaps=False)
    put(writer, (0, 0), (1, 1), (3, 3))
    before = stored(fs)
    again = open_writer(fs, fill_gaps=False)
    put(again, (0, 0), (1, 1), (3, 3))
    put_column(again, [(0, 0), (1, 1), (3, 3)])
    assert stored(fs) == before
    assert again.mended_count == 0


@pytest.mark.parametrize(
    ("min_physical_offset", "left"), [(0, 3), (900, 3), (901, 2), (1900, 2), (1901, 1), (9999, 1)]
)
def test_remove_files_before(fs: MemoryFileSystem, min_physical_offset: int, left: int) -> None:
    writer = open_writer(fs)
    put_range(writer, 0, 25)
    assert writer.remove_files_before(min_physical_offset) == 3 - left
    assert len(fs.list_directory(DIRECTORY)) == left
    put_range(writer, 25, 26)
    assert numbers(fs)[-1] == 25


def test_dirty_paths_are_returned_once(fs: MemoryFileSystem) -> None:
    writer = open_writer(fs)
    put_range(writer, 0, 12)
    assert writer.dirty_paths() == [f"{DIRECTORY}/{offset_name(i * FILE_BYTES)}" for i in (0, 1)]
    assert writer.dirty_paths() == []
    put_range(writer, 12, 13)
    assert writer.dirty_paths() == [f"{DIRECTORY}/{offset_name(FILE_BYTES)}"]


def test_files_after_a_gap_are_removed(fs: MemoryFileSystem) -> None:
    put_range(open_writer(fs), 0, 25)
    fs.unlink(f"{DIRECTORY}/{offset_name(FILE_BYTES)}")
    writer = open_writer(fs)
    assert writer.max_queue_offset == 10
    assert fs.list_directory(DIRECTORY) == [offset_name(0)]
    put_range(writer, 10, 25)
    assert numbers(fs) == list(range(25))


def test_a_directory_that_cannot_be_removed(fs: MemoryFileSystem) -> None:
    writer = open_writer(fs)
    put_range(writer, 0, 2)
    write_file(fs, f"{DIRECTORY}/notes.txt", b"")
    with pytest.raises(StoreFailed):
        writer.delete()


def test_delete(fs: MemoryFileSystem) -> None:
    writer = open_writer(fs)
    put_range(writer, 0, 12)
    writer.delete()
    assert not fs.exists(DIRECTORY)
    put(writer, (20, 0))
    assert numbers(fs) == [20]


EXTENSION = "/store/consumequeue_ext/T/0"
EXTENSION_BYTES = 64


def open_with_units(fs: MemoryFileSystem) -> tuple[ConsumeQueueWriter, ConsumeQueueExtWriter]:
    def make_file(path: str, size_bytes: int) -> None:
        make_segment(fs, path, size_bytes, temporary_path=f"/store/{path.replace('/', '.')}")

    files = OpenFiles(4)
    extension = ConsumeQueueExtWriter(
        fs, EXTENSION, file_bytes=EXTENSION_BYTES, open_files=files, make_file=make_file
    )
    writer = ConsumeQueueWriter(
        fs,
        DIRECTORY,
        file_bytes=FILE_BYTES,
        open_files=files,
        make_file=make_file,
        extension=extension,
    )
    writer.recover()
    return writer, extension


def put_units(writer: ConsumeQueueWriter, begin: int, end: int) -> None:
    for i in range(begin, end):
        writer.put(i * SIZE, SIZE, i, i, unit=(1000 + i, bytes([i])))
    writer.write_pending()


def units(writer: ConsumeQueueWriter, extension: ConsumeQueueExtWriter) -> list[int]:
    """Return the tags codes of the units that the queue's entries point to."""
    found = []
    for i in range(writer.first_queue_offset, writer.max_queue_offset):
        entry = writer.entry(i)
        assert entry is not None
        unit = extension.unit(entry.tags_code)
        assert unit is not None and unit.size_bytes == 20 + len(unit.bitmap)
        found.append(unit.tags_code)
    return found


def all_files(fs: MemoryFileSystem) -> dict[str, bytes]:
    directories = (DIRECTORY, EXTENSION)
    paths = [f"{folder}/{name}" for folder in directories for name in fs.list_directory(folder)]
    return {path: read_file(fs, path) for path in paths}


def test_each_entry_points_to_its_unit(fs: MemoryFileSystem) -> None:
    writer, extension = open_with_units(fs)
    put_units(writer, 0, 25)
    assert units(writer, extension) == list(range(25))
    assert {path.split("/")[2] for path in writer.dirty_paths()} == {
        "consumequeue",
        "consumequeue_ext",
    }
    writer.close()
    assert fs.descriptor_count == 0


def test_what_is_dispatched_again_gets_no_second_unit(fs: MemoryFileSystem) -> None:
    writer, _ = open_with_units(fs)
    put_units(writer, 0, 12)
    before = all_files(fs)
    put_units(writer, 3, 9)
    again, extension = open_with_units(fs)
    put_units(again, 0, 12)
    assert all_files(fs) == before
    assert units(again, extension) == list(range(12))


def test_a_gap_shares_the_unit_of_the_record_that_fills_it(fs: MemoryFileSystem) -> None:
    writer, extension = open_with_units(fs)
    put_units(writer, 0, 2)
    writer.put(5 * SIZE, SIZE, 5, 4, unit=(1, b""))
    writer.write_pending()
    assert units(writer, extension) == [0, 1, 5, 5, 5]


def test_without_a_place_for_its_unit_an_entry_has_its_tags_code(fs: MemoryFileSystem) -> None:
    writer, extension = open_with_units(fs)
    writer.put(0, SIZE, 7, 0, unit=(1, bytes(EXTENSION_BYTES)))
    writer.put(SIZE, SIZE, 8, 1)
    writer.write_pending()
    assert numbers_of(writer) == [7, 8]
    assert extension.end == 0


def numbers_of(writer: ConsumeQueueWriter) -> list[int]:
    entries = [writer.entry(i) for i in range(writer.max_queue_offset)]
    return [entry.tags_code for entry in entries if entry is not None]


@given(st.integers(0, 25), st.booleans())
def test_a_cut_takes_the_units_along(kept: int, reopened: bool) -> None:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    writer, extension = open_with_units(fs)
    put_units(writer, 0, 25)
    expected = all_files(fs)
    writer.truncate_physical(kept * SIZE)
    if reopened:
        writer.close()
        writer, extension = open_with_units(fs)
    assert units(writer, extension) == list(range(kept))
    put_units(writer, kept, 25)
    assert all_files(fs) == expected


def test_units_of_entries_that_were_lost_go_at_the_next_start(fs: MemoryFileSystem) -> None:
    writer, _ = open_with_units(fs)
    put_units(writer, 0, 10)
    expected = all_files(fs)
    put_units(writer, 10, 25)
    plain = open_writer(fs)  # recovery cuts entries and leaves units alone
    plain.truncate_physical(10 * SIZE)
    again, extension = open_with_units(fs)
    assert units(again, extension) == list(range(10))
    assert all_files(fs) == expected


def test_a_unit_is_found_before_files_of_entries_without_one(fs: MemoryFileSystem) -> None:
    writer, _ = open_with_units(fs)
    put_units(writer, 0, 3)
    put_range(writer, 3, 60)
    again, extension = open_with_units(fs)
    put_units(again, 60, 61)
    entry = again.entry(60)
    assert entry is not None
    assert entry.tags_code == -(1 << 63) + EXTENSION_BYTES + 21
    assert extension.end == EXTENSION_BYTES + 42


def test_retention_takes_the_units_along(fs: MemoryFileSystem) -> None:
    writer, extension = open_with_units(fs)
    put_units(writer, 0, 25)  # units of 21 bytes, two in a file
    assert writer.remove_files_before(15 * SIZE) == 1 + 7
    entry = writer.entry(15)
    assert entry is not None
    assert extension.unit(entry.tags_code) == ExtensionUnit(21, 15, 1015, b"\x0f")
    assert fs.list_directory(EXTENSION)[0] == offset_name(7 * EXTENSION_BYTES)
    writer.delete()
    assert fs.descriptor_count == 0


def test_a_failed_write_of_units_leaves_the_entries_unwritten(fs: MemoryFileSystem) -> None:
    writer, _ = open_with_units(fs)
    put_units(writer, 0, 1)
    fs.fail("pwrite", number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        put_units(writer, 1, 2)
    reader = ConsumeQueue(fs, DIRECTORY, file_bytes=FILE_BYTES, open_files=OpenFiles(4))
    assert reader.end_of_written() == 1
    writer.write_pending()
    assert reader.end_of_written() == 2


def test_units_are_written_before_the_entries_that_point_to_them(fs: MemoryFileSystem) -> None:
    writer, _ = open_with_units(fs)
    put_units(writer, 0, 1)
    fs.fail("pwrite", nth=2)
    with pytest.raises(StoreFailed):
        put_units(writer, 1, 2)
    reader = ConsumeQueue(fs, DIRECTORY, file_bytes=FILE_BYTES, open_files=OpenFiles(4))
    assert reader.end_of_written() == 1
    units = read_file(fs, f"{EXTENSION}/{offset_name(0)}")
    assert len(units.rstrip(b"\0")) == 2 * 21  # of 21 bytes, whose last one is no zero


@pytest.mark.parametrize(
    ("number", "unsynced"),
    [
        (0, [0, 10, 20, 30]),
        (10, [0, 10, 20, 30]),
        (11, [10, 20, 30]),
        (25, [20, 30]),
        (34, [30]),
        (99, [30]),
    ],
)
def test_what_a_killed_writer_may_not_have_synced(
    fs: MemoryFileSystem, number: int, unsynced: list[int]
) -> None:
    put_range(open_writer(fs), 0, 35)
    again = open_writer(fs)
    again.mark_unsynced(number * SIZE)
    assert again.dirty_paths() == [f"{DIRECTORY}/{offset_name(20 * first)}" for first in unsynced]
    assert again.dirty_paths() == []
