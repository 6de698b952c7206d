"""The mark of how far queues and index are durable: two slots, of which a crash leaves one."""

from __future__ import annotations

import pytest

from tests.fakes.logs import read_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.simulation.disk import Image, SimulatedDisk
from tests.simulation.faults import Failure, SyncFailure
from wakelog.storage.durability.dispatched import (
    SLOTS,
    DispatchedFile,
    DispatchedMark,
    IndexEnd,
    lower_dispatched,
    lower_index_end,
    read_dispatched,
)
from wakelog.storage.durability.slot_file import SLOT_FILE_BYTES, SLOT_POSITIONS
from wakelog.storage.errors import StoreFailed

PATH = "/store/wakelog.dispatched"
END = IndexEnd(20260102030405678, 17)


def opened(fs: MemoryFileSystem) -> DispatchedFile:
    fs.make_directories("/store")
    return DispatchedFile(fs, PATH)


def test_a_slot_as_documented() -> None:
    """docs/formats/dispatched.md gives these places."""
    slot = SLOTS.encode(DispatchedMark(5, 6_000, END))
    assert len(slot) == 36
    assert slot[:4] == b"WLDP"
    fields = [int.from_bytes(slot[a:b]) for a, b in [(4, 8), (8, 16), (16, 24), (24, 32)]]
    assert fields == [17, 5, 6_000, 20260102030405678]


def test_what_was_noted_is_read() -> None:
    fs = MemoryFileSystem()
    assert read_dispatched(fs, PATH) == DispatchedMark()
    file = opened(fs)
    file.note(100, IndexEnd())
    file.note(200, END)
    assert read_dispatched(fs, PATH) == file.mark == DispatchedMark(2, 200, END)
    file.close()
    assert len(read_file(fs, PATH)) == SLOT_FILE_BYTES
    again = DispatchedFile(fs, PATH)
    assert again.mark == DispatchedMark(2, 200, END)
    again.close()
    assert fs.descriptor_count == 0


def test_the_same_again_is_not_written() -> None:
    fs = MemoryFileSystem()
    file = opened(fs)
    file.note(100, END)
    written = fs.calls["pwrite"]
    file.note(100, END)
    assert fs.calls["pwrite"] == written


def test_a_torn_slot_leaves_the_one_before() -> None:
    fs = MemoryFileSystem()
    file = opened(fs)
    file.note(100, IndexEnd())
    file.note(200, END)
    data = bytearray(read_file(fs, PATH))
    data[SLOT_POSITIONS[0] + 20 : SLOT_POSITIONS[0] + 36] = bytes(16)
    assert SLOTS.newest(bytes(data)) == DispatchedMark(1, 100, IndexEnd())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(SLOT_FILE_BYTES),
        SLOTS.encode(DispatchedMark(1, 100, END)).replace(b"WLDP", b"WLWM"),
        SLOTS.encode(DispatchedMark(1, -100, END)),
    ],
)
def test_what_is_no_slot_says_nothing(data: bytes) -> None:
    assert SLOTS.newest(data) == DispatchedMark()


def test_lowered() -> None:
    fs = MemoryFileSystem()
    lower_dispatched(fs, PATH, 50)
    assert not fs.exists(PATH)
    file = opened(fs)
    file.note(200, END)
    file.close()
    lower_dispatched(fs, PATH, 300)
    assert read_dispatched(fs, PATH) == DispatchedMark(1, 200, END)
    lower_dispatched(fs, PATH, 50)
    assert read_dispatched(fs, PATH) == DispatchedMark(2, 50, END)
    lower_dispatched(fs, PATH, 0)
    assert read_dispatched(fs, PATH) == DispatchedMark(3, 0, IndexEnd())
    assert fs.descriptor_count == 0


def test_what_another_has_noted_since_is_lowered_too() -> None:
    fs = MemoryFileSystem()
    file = opened(fs)
    other = DispatchedFile(fs, PATH)
    other.note(200, END)
    other.close()
    file.lower(100)
    assert read_dispatched(fs, PATH) == DispatchedMark(2, 100, END)
    file.close()


def test_the_index_end_is_lowered_while_another_writer_has_the_file_open() -> None:
    fs = MemoryFileSystem()
    file = opened(fs)
    file.note(100, IndexEnd())
    file.note(200, END)
    lower_index_end(fs, PATH, IndexEnd(END.name, 5))
    assert read_dispatched(fs, PATH) == DispatchedMark(3, 200, IndexEnd(END.name, 5))
    # The slot with what was before goes next, not the one that has just been written.
    file.note(300, END)
    data = bytearray(read_file(fs, PATH))
    assert SLOTS.newest(bytes(data)) == DispatchedMark(4, 300, END)
    data[SLOT_POSITIONS[0]] = 0
    assert SLOTS.newest(bytes(data)) == DispatchedMark(3, 200, IndexEnd(END.name, 5))
    file.close()
    lower_index_end(fs, PATH, IndexEnd())
    assert read_dispatched(fs, PATH) == DispatchedMark(5, 300, IndexEnd())
    assert fs.descriptor_count == 0


def empty_disk() -> SimulatedDisk:
    return SimulatedDisk(Image({}, frozenset({"/", "/store"})))


@pytest.mark.parametrize("sync_failure", [SyncFailure.CLEAN_NEW, SyncFailure.CLEAN_OLD])
def test_a_mark_whose_sync_failed_is_not_lowered(sync_failure: SyncFailure) -> None:
    """The page cache shows it as a clean page: the next writer has to write it again."""
    disk = empty_disk()
    fs = disk.process()
    file = DispatchedFile(fs, PATH)
    file.note(100, END)
    file.note(200, END)
    disk.faults.fail("datasync", Failure(sync_failure=sync_failure), nth=1)
    with pytest.raises(StoreFailed):
        file.lower(50)
    fs.kill()
    lower_dispatched(disk.process(), PATH, 50)
    assert SLOTS.newest(disk.files[PATH].durable) == DispatchedMark(3, 50, END)


def test_after_a_failed_sync_the_only_valid_slot_stays() -> None:
    disk = empty_disk()
    file = DispatchedFile(disk.process(), PATH)
    file.note(200, END)
    file.lower(50)
    disk.faults.fail("datasync", Failure(), nth=1)
    with pytest.raises(StoreFailed):
        file.note(60, END)
    file.note(70, END)
    data = bytearray(disk.files[PATH].durable)
    assert SLOTS.newest(bytes(data)) == DispatchedMark(3, 70, END)
    data[SLOT_POSITIONS[1]] = 0
    assert SLOTS.newest(bytes(data)) == DispatchedMark(2, 50, END)


def test_a_mark_that_a_killed_process_left_unsynced_is_synced() -> None:
    disk = empty_disk()
    fs = disk.process()
    DispatchedFile(fs, PATH).note(200, END)
    fs.pwrite(fs.open(PATH), SLOTS.encode(DispatchedMark(2, 50, END)), SLOT_POSITIONS[0])
    fs.kill()
    lower_dispatched(disk.process(), PATH, 50)
    assert SLOTS.newest(disk.files[PATH].durable) == DispatchedMark(2, 50, END)


@pytest.mark.parametrize("call", ["open", "allocate", "pread", "datasync"])
def test_a_file_that_cannot_be_opened(call: str) -> None:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    fs.fail(call)
    with pytest.raises(StoreFailed):
        DispatchedFile(fs, PATH)
    assert fs.descriptor_count == 0


def test_what_cannot_be_written_or_read_is_said() -> None:
    fs = MemoryFileSystem()
    file = opened(fs)
    fs.fail("datasync")
    with pytest.raises(StoreFailed):
        file.note(100, END)
    assert file.mark == DispatchedMark()
    fs.fail("pread")
    with pytest.raises(StoreFailed):
        file.note(100, END)
    fs.fail("datasync")
    with pytest.raises(StoreFailed):
        lower_index_end(fs, PATH, IndexEnd())
    fs.fail("open")
    with pytest.raises(StoreFailed):
        read_dispatched(fs, PATH)
