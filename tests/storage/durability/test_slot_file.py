"""Two slots written in turn: a valid one counts, and the newer of two."""

import errno
import struct
from typing import NamedTuple

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.simulation.disk import Image, SimulatedDisk
from tests.simulation.faults import Failure, SyncFailure
from wakelog.storage.durability.slot_file import (
    SLOT_FILE_BYTES,
    SLOT_POSITIONS,
    SlotFile,
    SlotFormat,
    read_slot,
)
from wakelog.storage.errors import StoreFailed, StoreFull

PATH = "/store/slots"


class Level(NamedTuple):
    """What the file of these tests keeps."""

    sequence: int = 0
    value: int = 0

    @property
    def is_possible(self) -> bool:
        return self.value >= 0


SLOTS = SlotFormat(b"TEST", struct.Struct(">4sqq"), Level)
SLOT_BYTES = len(SLOTS.encode(Level()))


def opened(fs: MemoryFileSystem, *values: int) -> SlotFile[Level]:
    """Return the file with these values written one after the other."""
    file = SlotFile(fs, PATH, SLOTS)
    for value in values:
        file.write(Level(file.mark.sequence + 1, value))
    return file


def test_a_new_file_claims_nothing_and_is_durable(fs: MemoryFileSystem) -> None:
    assert read_slot(fs, PATH, SLOTS) == opened(fs).mark == Level()
    assert read_file(fs, PATH) == bytes(SLOT_FILE_BYTES)
    assert fs.calls["sync"] == fs.calls["sync_directory"] == 1


def test_each_write_is_one_write_and_one_sync_in_the_other_slot(fs: MemoryFileSystem) -> None:
    file = opened(fs)
    opened_with = fs.calls["datasync"]
    for number in (1, 2, 3):
        file.write(Level(number, number * 10))
        assert fs.calls["pwrite"] == fs.calls["datasync"] - opened_with == number
        assert read_slot(fs, PATH, SLOTS) == file.mark == Level(number, number * 10)
    data = read_file(fs, PATH)
    for number in (2, 3):
        at = SLOT_POSITIONS[number % 2]
        assert data[at:].startswith(SLOTS.encode(Level(number, number * 10)))
    file.close()
    assert fs.descriptor_count == 0


def test_a_sequence_that_does_not_follow_is_not_written(fs: MemoryFileSystem) -> None:
    file = opened(fs)
    with pytest.raises(AssertionError):
        file.write(Level(2, 10))
    assert read_file(fs, PATH) == bytes(SLOT_FILE_BYTES)


def test_what_another_writer_said_is_taken_in(fs: MemoryFileSystem) -> None:
    first = opened(fs)
    opened(fs, 10)
    assert first.mark == Level()
    assert first.reread() == first.mark == Level(1, 10)


@pytest.mark.parametrize("length", range(SLOT_BYTES + 1))
def test_of_a_torn_slot_the_other_one_counts(fs: MemoryFileSystem, length: int) -> None:
    file = opened(fs, 10)
    old = read_file(fs, PATH)
    file.write(Level(2, 20))
    new = read_file(fs, PATH)
    torn = new[:length] + old[length:]
    assert SLOTS.newest(torn) == (Level(2, 20) if torn == new else Level(1, 10))


@pytest.mark.parametrize("bit", range(SLOT_BYTES * 8))
def test_a_changed_bit_is_noticed(bit: int) -> None:
    data = bytearray(SLOTS.encode(Level(1, 100)))
    data[bit // 8] ^= 1 << bit % 8
    assert SLOTS.newest(bytes(data)) == Level()


def test_a_slot_that_cannot_be_true_leaves_the_other(fs: MemoryFileSystem) -> None:
    opened(fs, 10, -1)
    assert read_slot(fs, PATH, SLOTS) == Level(1, 10)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(20_000),
        SLOTS.encode(Level(1, 10))[:-1],
        SLOTS.encode(Level(1, 10)).replace(b"TEST", b"WLWM"),
        struct.pack(">4sqqI", b"TEST", 1, 10, 0),
        b"\xff" * SLOT_FILE_BYTES,
        SLOTS.encode(Level((1 << 63) - 1, 10)),
    ],
    ids=["empty", "zeros", "short", "of another file", "another sum", "ones", "the last of all"],
)
def test_what_is_not_whole_says_nothing(fs: MemoryFileSystem, data: bytes) -> None:
    write_file(fs, PATH, data)
    assert read_slot(fs, PATH, SLOTS) == Level()


@pytest.mark.parametrize("operation", ["allocate", "open", "pread", "datasync"])
def test_opening_can_fail(fs: MemoryFileSystem, operation: str) -> None:
    fs.fail(operation, number=errno.ENOSPC if operation == "allocate" else errno.EIO)
    with pytest.raises(StoreFull if operation == "allocate" else StoreFailed):
        opened(fs)
    assert fs.descriptor_count == 0


@pytest.mark.parametrize("operation", ["pwrite", "datasync"])
def test_a_failed_write_is_an_error_and_another_may_follow(
    fs: MemoryFileSystem, operation: str
) -> None:
    file = opened(fs, 100)
    fs.fail(operation)
    with pytest.raises(StoreFailed):
        file.write(Level(2, 200))
    assert file.mark == Level(1, 100)
    file.write(Level(2, 300))
    assert read_slot(fs, PATH, SLOTS) == Level(2, 300)


def test_reading_can_fail(fs: MemoryFileSystem) -> None:
    file = opened(fs)
    for read in (file.reread, lambda: read_slot(fs, PATH, SLOTS)):
        fs.fail("pread")
        with pytest.raises(StoreFailed):
            read()


def empty_disk() -> SimulatedDisk:
    return SimulatedDisk(Image({}, frozenset({"/", "/store"})))


@pytest.mark.parametrize("sync_failure", [SyncFailure.CLEAN_NEW, SyncFailure.CLEAN_OLD])
def test_a_slot_whose_sync_failed_is_written_again(sync_failure: SyncFailure) -> None:
    """The page cache shows it as a clean page, which the next writer does not trust."""
    disk = empty_disk()
    fs = disk.process()
    file = SlotFile(fs, PATH, SLOTS)
    file.write(Level(1, 100))
    file.write(Level(2, 200))
    disk.faults.fail("datasync", Failure(sync_failure=sync_failure), nth=1)
    with pytest.raises(StoreFailed):
        file.write(Level(3, 50))
    fs.kill()
    assert SlotFile(disk.process(), PATH, SLOTS).mark == Level(2, 200)


def test_after_a_failed_sync_the_only_valid_slot_stays() -> None:
    disk = empty_disk()
    file = SlotFile(disk.process(), PATH, SLOTS)
    file.write(Level(1, 200))
    file.write(Level(2, 50))
    disk.faults.fail("datasync", Failure(), nth=1)
    with pytest.raises(StoreFailed):
        file.write(Level(3, 60))
    file.write(Level(file.reread().sequence + 1, 70))
    data = bytearray(disk.files[PATH].durable)
    assert SLOTS.newest(bytes(data)) == Level(3, 70)
    data[SLOT_POSITIONS[1]] = 0
    assert SLOTS.newest(bytes(data)) == Level(2, 50)


def test_a_slot_that_a_killed_process_left_unsynced_is_synced() -> None:
    disk = empty_disk()
    fs = disk.process()
    SlotFile(fs, PATH, SLOTS).write(Level(1, 200))
    fs.pwrite(fs.open(PATH), SLOTS.encode(Level(2, 50)), SLOT_POSITIONS[0])
    fs.kill()
    assert SlotFile(disk.process(), PATH, SLOTS).mark == Level(2, 50)
    assert SLOTS.newest(disk.files[PATH].durable) == Level(2, 50)
