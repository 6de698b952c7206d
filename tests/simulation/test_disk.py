"""What the simulated disk does beyond the contract that `test_file_system.py` checks."""

import errno

import pytest

from tests.simulation.disk import SimulatedDisk, SimulatedFileSystem
from tests.simulation.faults import Failure, SyncFailure
from tests.simulation.journal import LostPages, Synced


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    fs = disk.process()
    fd = fs.open("/file", create=True)
    fs.pwrite(fd, b"a" * 1000, 0)
    fs.sync(fd)
    fs.close(fd)
    return disk


def read(fs: SimulatedFileSystem) -> bytes:
    fd = fs.open("/file", read_only=True)
    try:
        return fs.pread(fd, 2000, 0)
    finally:
        fs.close(fd)


def test_the_nth_call_fails_by_name_or_of_any(disk: SimulatedDisk) -> None:
    fs = disk.process()
    disk.faults.fail("open", Failure(errno.EMFILE), nth=2)
    fs.open("/file")
    with pytest.raises(OSError, match="Too many open files"):
        fs.open("/file")
    disk.faults.fail("any", Failure(errno.EIO), nth=1)
    with pytest.raises(OSError, match="Input/output error"):
        fs.list_directory("/")
    assert fs.list_directory("/") == ["file"]


def test_a_short_write_leaves_its_first_half(disk: SimulatedDisk) -> None:
    fs = disk.process()
    fd = fs.open("/file")
    disk.faults.fail("pwrite", Failure(errno.ENOSPC, is_short=True), nth=1)
    with pytest.raises(OSError, match="No space left"):
        fs.pwrite(fd, b"b" * 100, 0)
    assert read(fs) == b"b" * 50 + b"a" * 950


@pytest.mark.parametrize("model", SyncFailure)
def test_a_failed_sync_is_reported_once_and_its_pages_are_clean(
    disk: SimulatedDisk, model: SyncFailure
) -> None:
    fs = disk.process()
    fd = fs.open("/file")
    fs.pwrite(fd, b"b" * 1000, 0)
    disk.faults.fail("datasync", Failure(sync_failure=model), nth=1)
    if model is SyncFailure.LATE:
        fs.datasync(fd)
    with pytest.raises(OSError, match="Input/output error"):
        fs.datasync(fd)
    fs.datasync(fd)  # succeeds, and proves nothing
    on_disk = disk.files["/file"].durable
    assert on_disk != b"b" * 1000
    assert read(fs) == (on_disk if model is SyncFailure.CLEAN_OLD else b"b" * 1000)
    fs.forget_cached(fd)
    assert read(fs) == on_disk


def test_every_open_description_gets_the_error_of_a_lost_page(disk: SimulatedDisk) -> None:
    fs = disk.process()
    writer, other = fs.open("/file"), fs.open("/file")
    duplicate = fs.duplicate(writer)
    fs.pwrite(writer, b"b" * 1000, 0)
    disk.lose_pages(disk.files["/file"], SyncFailure.CLEAN_NEW)
    for fd in (duplicate, other):
        with pytest.raises(OSError, match="Input/output error"):
            fs.datasync(fd)
    fs.datasync(writer)  # shares its description with the duplicate, which has heard
    fs.datasync(fs.open("/file"))  # opened after another description got the error
    assert [type(entry) for entry in disk.journal[-3:]] == [LostPages, Synced, Synced]


def test_a_lost_page_without_a_report_is_reported_to_the_next_open(disk: SimulatedDisk) -> None:
    fs = disk.process()
    disk.lose_pages(disk.files["/file"], SyncFailure.CLEAN_NEW)
    fd = fs.open("/file")
    with pytest.raises(OSError, match="Input/output error"):
        fs.datasync(fd)


def test_a_killed_process_leaves_its_writes_and_frees_its_locks(disk: SimulatedDisk) -> None:
    fs, other = disk.process(), disk.process()
    fd = fs.open("/file")
    assert fs.lock_byte(fd, 0)
    assert not other.lock_byte(other.open("/file"), 0)
    fs.pwrite(fd, b"b", 0)
    fs.kill()
    fs.close(fd)
    assert other.lock_byte(other.open("/file"), 0)
    assert read(other)[:2] == b"ba"
    with pytest.raises(AssertionError, match="a dead process"):
        fs.pread(fd, 1, 0)


def test_flipped_misdirected_and_lost_writes_change_what_is_read(disk: SimulatedDisk) -> None:
    fs = disk.process()
    fd = fs.open("/file")
    disk.flip("/file", 8 * 10)  # the first bit of byte 10
    assert read(fs)[9:12] == b"a\xe1a"
    disk.faults.misdirect(nth=1, by=512)
    fs.pwrite(fd, b"m", 0)
    assert (read(fs)[0:1], read(fs)[512:513]) == (b"a", b"m")
    disk.faults.misdirect(nth=1, by=None)
    fs.pwrite(fd, b"lost", 100)
    assert b"lost" not in read(fs)
