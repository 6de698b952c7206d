"""Loading segments: a short last one is completed, a gap is refused unless nothing lies behind."""

from __future__ import annotations

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import store_config
from wakelog.storage.errors import DamagedStore, StoreFailed
from wakelog.storage.recovery.segments import load_segments, sync_segments

BYTES = 4096
CONFIG = store_config(commit_log_file_bytes=BYTES)


def path(number: int) -> str:
    return f"/store/commitlog/{number * BYTES:020d}"


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


def test_no_directory_is_an_empty_log(fs: MemoryFileSystem) -> None:
    assert not load_segments(fs, CONFIG).files


@pytest.mark.parametrize("length", [0, 1, BYTES - 1])
def test_a_short_last_segment_gets_its_length(fs: MemoryFileSystem, length: int) -> None:
    write_file(fs, path(0), b"a" * BYTES)
    write_file(fs, path(1), b"b" * length)
    files = load_segments(fs, CONFIG)
    assert [file.start_offset for file in files.files] == [0, BYTES]
    assert read_file(fs, path(1)) == b"b" * length + bytes(BYTES - length)


def test_a_gap_before_messages_is_refused(fs: MemoryFileSystem) -> None:
    write_file(fs, path(0), b"a" * BYTES)
    write_file(fs, path(2), bytes(BYTES - 1) + b"c")
    write_file(fs, path(3), bytes(BYTES))
    with pytest.raises(DamagedStore, match="segment at 4096 before it is missing") as caught:
        load_segments(fs, CONFIG)
    assert caught.value.path == path(2)
    assert fs.exists(path(3)), "a store that is refused is left as it was"


def test_unused_segments_behind_a_gap_are_removed(fs: MemoryFileSystem) -> None:
    write_file(fs, path(0), b"a" * BYTES)
    for number in (2, 3):
        write_file(fs, path(number), bytes(BYTES))
    files = load_segments(fs, CONFIG)
    assert [file.start_offset for file in files.files] == [0]
    assert fs.list_directory("/store/commitlog") == [f"{0:020d}"]


def test_syncing_begins_with_the_segment_of_the_offset(fs: MemoryFileSystem) -> None:
    for number in range(3):
        write_file(fs, path(number), b"a" * BYTES)
    files = load_segments(fs, CONFIG)
    fs.fail("datasync", nth=2)
    sync_segments(files, 2 * BYTES)
    with pytest.raises(StoreFailed):
        sync_segments(files, 2 * BYTES)
    fs.fail("datasync", nth=3)
    sync_segments(files, BYTES)
    with pytest.raises(StoreFailed):
        sync_segments(files, BYTES)
