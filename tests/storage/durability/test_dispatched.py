"""How far queues and index are durable; `test_slot_file` has the slots."""

import pytest

from tests.fakes.logs import read_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.durability.dispatched import (
    SLOTS,
    DispatchedFile,
    DispatchedMark,
    IndexEnd,
    lower_dispatched,
    lower_index_end,
    read_dispatched,
)
from wakelog.storage.durability.slot_file import SLOT_POSITIONS

PATH = "/store/wakelog.dispatched"
END = IndexEnd(20260102030405678, 17)
NO_INDEX = IndexEnd()


def opened(fs: MemoryFileSystem) -> DispatchedFile:
    fs.make_directories("/store")
    return DispatchedFile(fs, PATH)


def mark(sequence: int, physical_offset: int, end: IndexEnd = NO_INDEX) -> DispatchedMark:
    return DispatchedMark(end.entry_next, sequence, physical_offset, end.name)


def test_a_slot_as_documented() -> None:
    """docs/formats/dispatched.md gives these places."""
    slot = SLOTS.encode(mark(5, 6_000, END))
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
    assert read_dispatched(fs, PATH) == file.mark == mark(2, 200, END)
    file.close()
    again = DispatchedFile(fs, PATH)
    assert again.mark == mark(2, 200, END)
    again.close()
    assert fs.descriptor_count == 0


def test_the_same_again_is_not_written() -> None:
    fs = MemoryFileSystem()
    file = opened(fs)
    file.note(100, END)
    written = fs.calls["pwrite"]
    file.note(100, END)
    assert fs.calls["pwrite"] == written


@pytest.mark.parametrize("place", range(4))
def test_an_impossible_field_says_nothing(place: int) -> None:
    fields = [17, 1, 100, END.name]
    fields[place] = -1
    assert SLOTS.newest(SLOTS.encode(DispatchedMark(*fields))) == DispatchedMark()


def test_lowered() -> None:
    fs = MemoryFileSystem()
    lower_dispatched(fs, PATH, 50)
    assert not fs.exists(PATH)
    file = opened(fs)
    file.note(200, END)
    file.close()
    lower_dispatched(fs, PATH, 300)
    assert read_dispatched(fs, PATH) == mark(1, 200, END)
    lower_dispatched(fs, PATH, 50)
    assert read_dispatched(fs, PATH) == mark(2, 50, END)
    lower_dispatched(fs, PATH, 0)
    assert read_dispatched(fs, PATH) == mark(3, 0, IndexEnd())
    assert fs.descriptor_count == 0


def test_what_another_has_noted_since_is_lowered_too() -> None:
    fs = MemoryFileSystem()
    file = opened(fs)
    other = DispatchedFile(fs, PATH)
    other.note(200, END)
    other.close()
    file.lower(100)
    assert read_dispatched(fs, PATH) == mark(2, 100, END)
    file.close()


def test_the_index_end_is_lowered_while_another_writer_has_the_file_open() -> None:
    fs = MemoryFileSystem()
    file = opened(fs)
    file.note(100, IndexEnd())
    file.note(200, END)
    lower_index_end(fs, PATH, IndexEnd(END.name, 5))
    assert read_dispatched(fs, PATH) == mark(3, 200, IndexEnd(END.name, 5))
    # The slot with what was before goes next, not the one that has just been written.
    file.note(300, END)
    data = bytearray(read_file(fs, PATH))
    assert SLOTS.newest(bytes(data)) == mark(4, 300, END)
    data[SLOT_POSITIONS[0]] = 0
    assert SLOTS.newest(bytes(data)) == mark(3, 200, IndexEnd(END.name, 5))
    file.close()
    lower_index_end(fs, PATH, IndexEnd())
    assert read_dispatched(fs, PATH) == mark(5, 300, IndexEnd())
    assert fs.descriptor_count == 0
