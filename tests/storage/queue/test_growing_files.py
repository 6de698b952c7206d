"""GrowingFiles: files are made as they are written across, and none is written twice elsewhere."""

import errno

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.errors import StoreFailed, StoreFull
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.queue.growing_files import GrowingFiles

FILE_BYTES = 8


class Harness:
    def __init__(self) -> None:
        self.fs = MemoryFileSystem()
        self.fs.make_directories("/queue")
        self.files = MappedFileQueue(self.fs, ["/queue"], FILE_BYTES)
        self.growing = GrowingFiles(self.fs, self.files, self.make)

    def make(self, path: str, size_bytes: int) -> None:
        fd = self.fs.open(path, create=True)
        self.fs.allocate(fd, size_bytes)
        self.fs.close(fd)

    def content(self) -> bytes:
        return b"".join(file.read(0, FILE_BYTES) for file in self.files.files)


def test_what_is_longer_than_a_file_goes_on_in_the_next() -> None:
    harness = Harness()
    assert harness.growing.write(0, b"abcdefghijklmnopqr") == 18
    assert harness.content() == b"abcdefghijklmnopqr".ljust(24, b"\0")
    paths = [file.path for file in harness.files.files]
    assert harness.growing.take_dirty() == paths
    assert harness.growing.take_dirty() == []
    assert harness.growing.write(18, b"st") == 20
    assert harness.growing.take_dirty() == paths[2:]


def test_a_failed_write_can_be_repeated() -> None:
    harness = Harness()
    harness.growing.write(0, b"abcd")
    harness.fs.fail("pwrite", number=errno.EIO)
    with pytest.raises(StoreFailed):
        harness.growing.write(4, b"efghij")
    assert harness.growing.write(4, b"efghij") == 10
    assert harness.content() == b"abcdefghij".ljust(16, b"\0")


def test_a_full_disk_is_met_before_a_write_of_each_file() -> None:
    harness = Harness()
    harness.fs.fail("reserve", nth=2, number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        harness.growing.write(0, b"abcdefghij")
    assert harness.fs.calls["pwrite"] == 1
    assert harness.growing.write(0, b"abcdefghij") == 10
    assert harness.content() == b"abcdefghij".ljust(16, b"\0")


def test_a_file_that_is_made_again_is_reserved_again() -> None:
    harness = Harness()
    harness.growing.write(0, b"abcd")
    harness.files.truncate(0)
    harness.growing.write(0, b"efgh")
    assert harness.fs.calls["reserve"] == 2


def test_what_is_written_at_once_has_its_place_in_the_last_file() -> None:
    harness = Harness()
    growing = harness.growing
    assert growing.write_reserved(0, b"a") is None
    growing.write(0, b"abcdefghij")
    growing.take_dirty()
    assert growing.write_reserved(6, b"k") is None  # the first file
    assert growing.write_reserved(14, b"klm") is None  # beyond the last one
    assert growing.take_dirty() == []
    assert growing.write_reserved(10, b"klm") == 13
    assert growing.take_dirty() == [harness.files.files[1].path]
    assert harness.content() == b"abcdefghijklm".ljust(16, b"\0")


def test_nothing_is_written_at_once_where_nothing_is_reserved() -> None:
    harness = Harness()
    harness.growing.write(0, b"abcd")
    later = GrowingFiles(harness.fs, harness.files, harness.make)
    assert later.write_reserved(4, b"e") is None
    assert later.write(4, b"e") == 5
    assert later.write_reserved(5, b"f") == 6
    harness.files.truncate(0)
    assert later.write_reserved(0, b"g") is None


def test_a_file_that_was_removed_counts_as_no_place() -> None:
    harness = Harness()
    harness.growing.write(0, b"abcdefghij")
    harness.files.truncate(8)
    assert harness.growing.write_reserved(6, b"klm") is None
    assert harness.growing.write(6, b"klm") == 9
    assert harness.content() == b"abcdefklm".ljust(16, b"\0")
