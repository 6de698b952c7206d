"""Two folders of index files: which keys differ, and whether a query would find them."""

from __future__ import annotations

from posixpath import join

import pytest

from tests.fakes.logs import read_file, small_config, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import LogBytes, properties
from tests.fakes.stores import scan_log
from wakelog.audit.index_compare import IndexDifference, compare_index
from wakelog.audit.queue_compare import Span
from wakelog.storage.config import StoreConfig
from wakelog.storage.index.index_service import index_names, index_shape
from wakelog.storage.index.index_writer import IndexWriter

NOW_MS = 1_700_000_000_000
LOG_BYTES = 4096
LOG = Span(0, LOG_BYTES)


def config(root: str) -> StoreConfig:
    return small_config(
        store_path_root=root,
        commit_log_file_bytes=LOG_BYTES,
        index_slot_count=20,
        index_entry_count=10,
    )


def index_of(fs: MemoryFileSystem, root: str, count: int) -> StoreConfig:
    settled = config(root)
    log = LogBytes(LOG_BYTES)
    for i in range(count):
        log.add(properties(KEYS=f"k{i}"))
    log.write(fs, settled)
    writer = IndexWriter(fs, settled)
    writer.load()
    for request in scan_log(fs, settled, 0, log.end):
        writer.put(request, NOW_MS)
    writer.write_back()
    writer.close()
    return settled


def compare(fs: MemoryFileSystem, *, log: Span = LOG) -> list[IndexDifference]:
    folders = [config(root).paths.index_directory for root in ("/found", "/expected")]
    shape = index_shape(config("/found"))
    results = compare_index(fs, folders[0], folders[1], shape, log)
    return [result for result in results if not isinstance(result, int)]


def test_equal_over_several_files() -> None:
    fs = MemoryFileSystem()
    found = index_of(fs, "/found", 25)
    index_of(fs, "/expected", 25)
    assert len(index_names(fs, found.paths.index_directory)) > 1
    assert compare(fs) == []


def test_keys_that_one_side_lacks() -> None:
    fs = MemoryFileSystem()
    index_of(fs, "/found", 5)
    index_of(fs, "/expected", 8)
    [missing] = compare(fs)
    assert (missing.affected_count, missing.reason) == (3, "keys of records are missing")

    other = MemoryFileSystem()
    index_of(other, "/found", 8)
    index_of(other, "/expected", 5)
    [extra] = compare(other)
    assert (extra.affected_count, extra.reason) == (3, "keys of no record")


def test_keys_of_a_log_that_was_deleted_are_left_alone() -> None:
    fs = MemoryFileSystem()
    index_of(fs, "/found", 5)
    fs.make_directories("/expected/index")
    assert compare(fs, log=Span(LOG_BYTES, 2 * LOG_BYTES)) == []


def test_a_file_of_another_length_has_no_keys() -> None:
    fs = MemoryFileSystem()
    directory = index_of(fs, "/found", 5).paths.index_directory
    index_of(fs, "/expected", 5)
    [name] = index_names(fs, directory)
    write_file(fs, join(directory, name), read_file(fs, join(directory, name))[:-1])
    [missing] = compare(fs)
    assert (missing.affected_count, missing.reason) == (5, "keys of records are missing")


def test_slots_that_lead_nowhere() -> None:
    fs = MemoryFileSystem()
    found = index_of(fs, "/found", 5)
    index_of(fs, "/expected", 5)
    directory = found.paths.index_directory
    [name] = index_names(fs, directory)
    data = bytearray(read_file(fs, join(directory, name)))
    data[40 : 40 + 80] = bytes(80)
    write_file(fs, join(directory, name), bytes(data))
    [wrong] = compare(fs)
    assert (wrong.name, wrong.reason) == (name, "slots that do not lead to the newest entry")


def test_entries_out_of_order() -> None:
    fs = MemoryFileSystem()
    found = index_of(fs, "/found", 5)
    index_of(fs, "/expected", 5)
    directory = found.paths.index_directory
    [name] = index_names(fs, directory)
    data = bytearray(read_file(fs, join(directory, name)))
    third = index_shape(found).entries_position + 3 * 20
    data[third + 16 : third + 20] = (9).to_bytes(4)
    write_file(fs, join(directory, name), bytes(data))
    [wrong] = compare(fs)
    assert (wrong.affected_count, wrong.reason) == (3, "entries out of order")


@pytest.mark.parametrize(
    ("position", "change"), [(0, 10**6), (0, -(10**6)), (8, -(10**6)), (24, -100), (24, 100)]
)
def test_a_header_that_hides_its_keys(position: int, change: int) -> None:
    fs = MemoryFileSystem()
    found = index_of(fs, "/found", 5)
    index_of(fs, "/expected", 5)
    directory = found.paths.index_directory
    [name] = index_names(fs, directory)
    data = bytearray(read_file(fs, join(directory, name)))
    value = int.from_bytes(data[position : position + 8]) + change
    data[position : position + 8] = value.to_bytes(8)
    write_file(fs, join(directory, name), bytes(data))
    [wrong] = compare(fs)
    assert (wrong.affected_count, wrong.reason) == (5, "a header that is not of its keys")


def test_a_file_that_begins_where_a_removed_one_ended() -> None:
    fs = MemoryFileSystem()
    found = index_of(fs, "/found", 5)
    index_of(fs, "/expected", 5)
    directory = found.paths.index_directory
    [name] = index_names(fs, directory)
    data = bytearray(read_file(fs, join(directory, name)))
    data[:8] = (int.from_bytes(data[:8]) - 5000).to_bytes(8)
    for number in range(1, 6):
        at = index_shape(found).entries_position + 20 * number + 12
        data[at : at + 4] = (int.from_bytes(data[at : at + 4]) + 5).to_bytes(4)
    write_file(fs, join(directory, name), bytes(data))
    assert compare(fs) == []


def test_an_error_says_which_file_it_is_of() -> None:
    fs = MemoryFileSystem()
    folder = index_of(fs, "/found", 3).paths.index_directory
    index_of(fs, "/expected", 5)
    for nth in (1, 2, 3):
        fs.fail("pread", nth=nth)
        with pytest.raises(OSError, match="/index/") as raised:
            compare(fs)
        assert join(folder, "") in raised.value.filename or "/expected" in raised.value.filename
