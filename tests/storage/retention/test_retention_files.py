"""Looking at a store for Retention, and removing what it chose."""

import errno
from pathlib import Path

import pytest

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import store_config
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import DiskUsage, FileSystem
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.retention.retention import Segment
from wakelog.storage.retention.retention_files import (
    FREED_BYTES_MAX,
    read_retention_input,
    remove_segment,
)

BYTES = 4096
CONFIG = store_config()


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    for i in range(3):
        write_file(fs, path(i), bytes(BYTES))
        fs.set_modified_ms(path(i), 1000 + i)
    return fs


def path(number: int) -> str:
    return f"/store/commitlog/{number * BYTES:020d}"


def test_the_input_lists_segments_and_disks(fs: MemoryFileSystem) -> None:
    files = commit_log_files(fs, CONFIG, read_only=True)
    given = read_retention_input(fs, CONFIG, files, hour=4, appended=9000, dispatched=8000)
    assert given.segments == [Segment(i * BYTES, (i + 1) * BYTES, 1000 + i) for i in range(3)]
    assert given.log_usages == [fs.usage]
    assert (given.hour, given.appended, given.dispatched) == (
        4,
        9000,
        8000,
    )
    write_file(fs, path(3), bytes(BYTES))
    again = read_retention_input(fs, CONFIG, files, hour=4, appended=9000, dispatched=8000)
    assert len(again.segments) == 4


class SilentDisk(MemoryFileSystem):
    """A disk whose usage cannot be asked."""

    def disk_usage(self, path: str) -> DiskUsage:
        raise OSError(errno.EIO, "no answer", path)


def test_a_disk_that_does_not_answer_is_unknown() -> None:
    fs = SilentDisk()
    files = commit_log_files(fs, CONFIG, read_only=True)
    given = read_retention_input(fs, CONFIG, files, hour=4, appended=0, dispatched=0)
    assert (given.segments, given.log_usages, given.queue_usage) == (
        [],
        [None],
        None,
    )


def test_only_the_oldest_segment_is_removed(fs: MemoryFileSystem) -> None:
    files = commit_log_files(fs, CONFIG, read_only=True)
    files.refresh()
    assert remove_segment(fs, files, BYTES) is None
    assert remove_segment(fs, files, 0) == path(0)
    assert remove_segment(fs, files, 0) is None
    assert not fs.exists(path(0)) and fs.exists(path(1))


def test_a_refused_removal_is_an_error(fs: MemoryFileSystem) -> None:
    files = commit_log_files(fs, CONFIG, read_only=True)
    files.refresh()
    fs.fail("unlink", number=errno.EACCES)
    with pytest.raises(StoreFailed):
        remove_segment(fs, files, 0)


def test_a_removed_segment_is_free_while_others_still_have_it_open(fs: MemoryFileSystem) -> None:
    files = commit_log_files(fs, CONFIG, read_only=True)
    files.refresh()
    of_the_loop = fs.open(path(0))
    remove_segment(fs, files, 0)
    assert fs.size(of_the_loop) == 0  # its close frees nothing and takes no time


def test_a_segment_with_another_name_stays_whole(tmp_path: Path) -> None:
    real = FileSystem()
    config = store_config(store_path_root=str(tmp_path))
    for number in range(2):
        write_file(real, f"{tmp_path}/commitlog/{number * BYTES:020d}", b"x" * BYTES)
    backup = tmp_path / "backup"
    backup.hardlink_to(tmp_path / "commitlog" / f"{0:020d}")
    files = commit_log_files(real, config, read_only=True)
    files.refresh()
    assert remove_segment(real, files, 0) is not None
    assert backup.read_bytes() == b"x" * BYTES


class LargeDisk(MemoryFileSystem):
    """A disk that says its files are larger than they are, and keeps how they are cut."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[int] = []

    def size(self, fd: int) -> int:
        return 2 * FREED_BYTES_MAX + 4096

    def truncate(self, fd: int, length: int) -> None:
        self.lengths.append(length)


def test_a_large_segment_is_cut_a_piece_at_a_time() -> None:
    fs = LargeDisk()
    size_bytes = fs.size(0)
    for number in range(2):
        write_file(fs, f"/store/commitlog/{number * size_bytes:020d}", b"")
    files = commit_log_files(fs, store_config(commit_log_file_bytes=size_bytes), read_only=True)
    files.refresh()
    fs.lengths.clear()
    remove_segment(fs, files, 0)
    assert fs.lengths == [FREED_BYTES_MAX + 4096, 4096, 0]


def test_a_segment_that_cannot_be_cut_is_removed_all_the_same(fs: MemoryFileSystem) -> None:
    files = commit_log_files(fs, CONFIG, read_only=True)
    files.refresh()
    fs.fail("truncate")
    assert remove_segment(fs, files, 0) == path(0)
    assert not fs.exists(path(0))
