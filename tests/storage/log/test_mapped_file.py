"""One file of fixed length: positions, descriptors, refusals of the system."""

import errno
import sys
from collections.abc import Callable

import pytest

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.errors import StoreFailed, StoreFull
from wakelog.storage.log.mapped_file import MappedFile, OpenFiles, open_files_allowed


@pytest.fixture
def file(fs: MemoryFileSystem) -> MappedFile:
    write_file(fs, "/q/00000000000000000200", bytes(100))
    return MappedFile(fs, "/q/00000000000000000200", start_offset=200, size_bytes=100)


def test_it_covers_its_offsets(file: MappedFile) -> None:
    assert file.end_offset == 300
    assert (file.position_of(200), file.position_of(250), file.position_of(300)) == (0, 50, 100)
    with pytest.raises(AssertionError):
        file.position_of(199)


def test_reads_are_cut_at_the_end(file: MappedFile) -> None:
    file.write(90, b"0123456789")
    assert file.read(95, 50) == b"56789"
    assert file.read(100, 50) == b""
    assert file.read_nowait(90, 10) == b"0123456789"
    buffer = bytearray(20)
    assert file.read_into(buffer, 92) == 8
    assert buffer[:8] == b"23456789"


def test_a_cold_page_is_not_waited_for(fs: MemoryFileSystem, file: MappedFile) -> None:
    fs.cold = True
    assert file.read_nowait(0, 10) is None


def test_gathered_writes_follow_each_other(file: MappedFile) -> None:
    file.write_all(10, [b"one", b"two", b"three"])
    assert file.read(10, 11) == b"onetwothree"
    file.datasync()


def test_nothing_is_written_outside(file: MappedFile) -> None:
    with pytest.raises(AssertionError):
        file.write(95, b"0123456")
    with pytest.raises(AssertionError):
        file.write_all(95, [b"0123", b"45"])


def test_the_descriptor_is_opened_on_use_and_let_go(fs: MemoryFileSystem, file: MappedFile) -> None:
    assert fs.descriptor_count == 0
    file.read(0, 1)
    file.read(0, 1)
    assert fs.descriptor_count == 1
    file.release()
    file.release()
    assert fs.descriptor_count == 0
    assert file.read(0, 1) == b"\0"


@pytest.mark.parametrize(
    ("operation", "number", "kind", "call"),
    [
        ("pwrite", errno.ENOSPC, StoreFull, lambda file: file.write(0, b"x")),
        ("pwritev", errno.EIO, StoreFailed, lambda file: file.write_all(0, [b"x"])),
        ("pread", errno.EIO, StoreFailed, lambda file: file.read(0, 1)),
        ("pread_into_nowait", errno.EIO, StoreFailed, lambda file: file.read_nowait(0, 1)),
        ("pread_into", errno.EIO, StoreFailed, lambda file: file.read_into(bytearray(1), 0)),
        ("datasync", errno.EIO, StoreFailed, lambda file: file.datasync()),
        ("open", errno.EMFILE, StoreFailed, lambda file: file.fd),
    ],
)
def test_refusals_become_store_errors(
    fs: MemoryFileSystem,
    file: MappedFile,
    operation: str,
    number: int,
    kind: type[StoreFailed],
    call: Callable[[MappedFile], object],
) -> None:
    fs.fail(operation, number=number)
    with pytest.raises(kind) as caught:
        call(file)
    assert caught.value.path == file.path


def test_the_modification_time_is_the_files(fs: MemoryFileSystem, file: MappedFile) -> None:
    fs.set_modified_ms(file.path, 123_456)
    assert file.modified_ms() == 123_456
    fs.unlink(file.path)
    with pytest.raises(StoreFailed):
        file.modified_ms()


def test_the_descriptor_shows_that_a_file_was_removed(
    fs: MemoryFileSystem, file: MappedFile
) -> None:
    assert not file.is_removed()
    file.read(0, 1)
    assert not file.is_removed()
    fs.unlink(file.path)
    assert file.is_removed()
    fs.fail("name_count")
    with pytest.raises(StoreFailed):
        file.is_removed()
    file.release()
    assert not file.is_removed()


def test_files_that_are_used_all_the_time_stay_open(fs: MemoryFileSystem) -> None:
    open_files, files = OpenFiles(3), []
    for i in range(9):
        path = f"/q{i}/file"
        write_file(fs, path, bytes(10))
        files.append(MappedFile(fs, path, start_offset=0, size_bytes=10, open_files=open_files))
    opened = fs.calls["open"]
    for file in files:  # the first two after each of the others, which come once
        for each in (file, files[0], files[1]):
            each.read(0, 1)
        assert fs.descriptor_count <= 3
    assert fs.calls["open"] == opened + len(files)
    for _ in range(2):  # all three were used, and still one of them goes
        files[-1].read(0, 1)
        files[2].read(0, 1)
    assert fs.calls["open"] == opened + len(files) + 1


def test_a_descriptor_that_was_not_used_for_long_is_closed(fs: MemoryFileSystem) -> None:
    open_files = OpenFiles(2)
    files = []
    for i in range(3):
        write_file(fs, f"/q{i}/file", bytes(10))
        path = f"/q{i}/file"
        files.append(MappedFile(fs, path, start_offset=0, size_bytes=10, open_files=open_files))
    files[0].write(0, b"0")
    files[1].write(0, b"1")
    files[0].read(0, 1)
    opened = fs.calls["open"]
    files[2].write(0, b"2")  # closes files[1]
    assert fs.descriptor_count == 2
    assert files[0].read(0, 1) == b"0"
    assert fs.calls["open"] == opened + 1
    assert files[1].read(0, 1) == b"1"
    assert fs.calls["open"] == opened + 2
    for file in files:
        file.release()
    assert fs.descriptor_count == 0


@pytest.mark.parametrize(
    ("count_max", "descriptors_max", "allowed"),
    [
        (256, sys.maxsize, 256),
        (256, 2048, 256),
        (256, 1024, 128),
        (256, 256, 32),
        (64, 256, 8),
        (256, 10, 8),  # less than this does not help
        (2, 256, 2),
        (16_384, sys.maxsize, 16_384),
        (16_384, 20_000, 2_500),
        (16_384, 256, 32),
    ],
)
def test_few_descriptors_leave_few_to_files(
    count_max: int, descriptors_max: int, allowed: int
) -> None:
    assert open_files_allowed(count_max, descriptors_max) == allowed


def test_a_process_with_few_descriptors_keeps_fewer_files_open(fs: MemoryFileSystem) -> None:
    open_files = OpenFiles(descriptors_max=256)
    for i in range(40):
        write_file(fs, f"/q{i}/file", bytes(10))
        path = f"/q{i}/file"
        MappedFile(fs, path, start_offset=0, size_bytes=10, open_files=open_files).read(0, 1)
    assert fs.descriptor_count == 32
