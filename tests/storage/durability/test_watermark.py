"""Two slots in turn: the newer one counts, and a torn one does not."""

from __future__ import annotations

import errno

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.simulation.disk import Image, SimulatedDisk
from tests.simulation.faults import Failure, SyncFailure
from wakelog.storage.durability.slot_file import SLOT_FILE_BYTES, SLOT_POSITIONS
from wakelog.storage.durability.watermark import (
    SLOTS,
    Mark,
    Seal,
    Watermark,
    checkpoint_digest,
    read_mark,
)
from wakelog.storage.errors import StoreFailed, StoreFull

PATH = "/store/wakelog.watermark"
SEAL = Seal(checkpoint_digest(bytes(4096)), 1 << 30, 1_700_000_000_000)


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    return fs


def test_a_new_file_claims_nothing_and_is_durable(fs: MemoryFileSystem) -> None:
    assert read_mark(fs, PATH) == Mark()
    assert Watermark(fs, PATH).mark == Mark()
    assert read_file(fs, PATH) == bytes(SLOT_FILE_BYTES)
    assert fs.calls["sync"] == fs.calls["sync_directory"] == 1


def test_each_note_is_one_write_and_one_sync_in_the_other_slot(fs: MemoryFileSystem) -> None:
    watermark = Watermark(fs, PATH)
    opened_with = fs.calls["datasync"]
    for number in (1, 2, 3):
        watermark.note(number * 100, number)
        assert fs.calls["pwrite"] == fs.calls["datasync"] - opened_with == number
        assert read_mark(fs, PATH) == Mark(number, number * 100, number)
    data = read_file(fs, PATH)
    assert data[SLOT_POSITIONS[0] :].startswith(SLOTS.encode(Mark(2, 200, 2)))
    assert data[SLOT_POSITIONS[1] :].startswith(SLOTS.encode(Mark(3, 300, 3)))


def test_the_next_writer_continues(fs: MemoryFileSystem) -> None:
    first = Watermark(fs, PATH)
    first.note(100, 7)
    first.close()
    second = Watermark(fs, PATH)
    second.note(150, 3, SEAL)
    # A checkpoint that was written once may still be there.
    assert read_mark(fs, PATH) == Mark(2, 150, 7, SEAL)
    second.lower(200)
    assert second.mark.physical_offset == 150
    second.lower(50)
    assert read_mark(fs, PATH) == Mark(3, 50, 7)


@pytest.mark.parametrize("length", range(68))
def test_of_a_torn_slot_the_other_one_counts(fs: MemoryFileSystem, length: int) -> None:
    watermark = Watermark(fs, PATH)
    watermark.note(100, 1)
    old = read_file(fs, PATH)
    watermark.note(200, 2)
    new = read_file(fs, PATH)
    torn = new[:length] + old[length:]
    assert SLOTS.newest(torn) == (Mark(2, 200, 2) if torn == new else Mark(1, 100, 1))


@pytest.mark.parametrize("bit", range(0, 68 * 8, 5))
def test_a_changed_bit_is_noticed(bit: int) -> None:
    data = bytearray(SLOTS.encode(Mark(1, 100, 1, SEAL)))
    assert SLOTS.newest(bytes(data)) == Mark(1, 100, 1, SEAL)
    data[bit // 8] ^= 1 << bit % 8
    assert SLOTS.newest(bytes(data)) == Mark()


def test_whatever_else_lies_there_claims_nothing(fs: MemoryFileSystem) -> None:
    for data in (b"", b"x", bytes(20_000), b"\xff" * 8192, SLOTS.encode(Mark(1, -5, 1))):
        write_file(fs, PATH, data)
        assert read_mark(fs, PATH) == Mark()


@pytest.mark.parametrize("sync_failure", [SyncFailure.CLEAN_NEW, SyncFailure.CLEAN_OLD])
def test_one_whose_sync_failed_is_not_lowered(sync_failure: SyncFailure) -> None:
    disk = SimulatedDisk(Image({}, frozenset({"/", "/store"})))
    fs = disk.process()
    first = Watermark(fs, PATH)
    first.note(200, 2)
    disk.faults.fail("datasync", Failure(sync_failure=sync_failure), nth=1)
    with pytest.raises(StoreFailed):
        first.lower(50)
    fs.kill()
    second = Watermark(disk.process(), PATH)
    second.lower(50)
    assert SLOTS.newest(disk.files[PATH].durable).physical_offset == 50


@pytest.mark.parametrize("operation", ["allocate", "open", "pread", "datasync"])
def test_opening_can_fail(fs: MemoryFileSystem, operation: str) -> None:
    fs.fail(operation, number=errno.ENOSPC if operation == "allocate" else errno.EIO)
    with pytest.raises(StoreFull if operation == "allocate" else StoreFailed):
        Watermark(fs, PATH)
    assert fs.descriptor_count == 0


@pytest.mark.parametrize("operation", ["pwrite", "datasync"])
def test_a_failed_write_is_an_error_and_another_may_follow(
    fs: MemoryFileSystem, operation: str
) -> None:
    watermark = Watermark(fs, PATH)
    watermark.note(100, 1)
    fs.fail(operation)
    with pytest.raises(StoreFailed):
        watermark.note(200, 2)
    assert watermark.mark == Mark(1, 100, 1)
    watermark.note(300, 3)
    assert read_mark(fs, PATH) == Mark(2, 300, 3)


def test_reading_can_fail(fs: MemoryFileSystem) -> None:
    write_file(fs, PATH, b"x")
    fs.fail("pread")
    with pytest.raises(StoreFailed):
        read_mark(fs, PATH)
