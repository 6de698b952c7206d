"""A file of the index appears whole, seeded and synced, or not at all."""

from __future__ import annotations

import errno

import pytest

from tests.fakes.logs import read_file, small_config, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.index.index_file import HEADER
from wakelog.storage.index.index_service import index_shape, make_index_file

CONFIG = small_config(index_slot_count=5, index_entry_count=6)
FILE_BYTES = index_shape(CONFIG).file_bytes
NAME = "20240101000000000"


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directories("/store/index")
    fs.calls.clear()
    return fs


def test_it_begins_where_the_one_before_ends(fs: MemoryFileSystem) -> None:
    path = make_index_file(fs, CONFIG, NAME, end_timestamp_ms=7, end_physical_offset=70)
    data = read_file(fs, path)
    assert HEADER.unpack_from(data) == (7, 7, 70, 70, 0, 0)
    assert data[HEADER.size :] == bytes(FILE_BYTES - HEADER.size)
    assert (fs.calls["sync"], fs.list_directory("/store")) == (1, ["index"])


def test_a_file_made_ahead_needs_only_its_name(fs: MemoryFileSystem) -> None:
    write_file(fs, "/store/wakelog.new.reput.index.ahead.0", bytes(FILE_BYTES))
    fs.calls.clear()
    unsynced: list[str] = []
    ahead = "/store/wakelog.new.reput.index.ahead.0"
    path = make_index_file(fs, CONFIG, NAME, made_ahead=ahead, unsynced=unsynced)
    assert read_file(fs, path) == bytes(FILE_BYTES)
    assert fs.calls["sync"] == fs.calls["sync_directory"] == 0
    assert unsynced[-1] == "/store/index"
    assert fs.list_directory("/store") == ["index"]


def test_one_that_cannot_be_made_whole_has_no_name(fs: MemoryFileSystem) -> None:
    fs.fail("sync", number=errno.EIO)
    with pytest.raises(OSError):
        make_index_file(fs, CONFIG, NAME)
    assert fs.list_directory("/store/index") == []
    assert make_index_file(fs, CONFIG, NAME).endswith(NAME)
