"""An index file after a kill or a crash: what is sound stays, the rest is made again."""

from __future__ import annotations

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.file_system import Buffer, FileSystem
from wakelog.storage.index.index_append import IndexFileWriter
from wakelog.storage.index.index_file import HEADER, IndexHeader, IndexShape
from wakelog.storage.index.index_repair import cut_index_file, repair_index_file

SHAPE = IndexShape(slot_count=5, entry_count=40)
PATH = "/store/index/20200101000000000"
COUNT = 20


def made(count: int = COUNT, *, hash_first: int = 1, keys_each: int = 1) -> bytes:
    """Return a file of `count` keys with hash 3 * i + 1 at 100 * i, stored at second i.

    keys_each: of how many of them each record is.
    """
    fs = MemoryFileSystem()
    write_file(fs, PATH, bytes(SHAPE.file_bytes))
    writer = IndexFileWriter(fs, PATH, SHAPE)
    for i in range(count):
        record = i // keys_each
        writer.put((3 * i + hash_first) % 60, 100 * record, 1000 * (record + 1))
    writer.write_back()
    return read_file(fs, PATH)


def repair(
    data: bytes, physical_offset: int = 1 << 40, *, knows: bool = True
) -> tuple[bytes, IndexHeader]:
    fs = MemoryFileSystem()
    write_file(fs, PATH, data)
    header = repair_index_file(
        fs,
        PATH,
        SHAPE,
        physical_offset=physical_offset,
        store_time=lambda offset: 10 * offset + 1000 if knows else -1,
    )
    assert fs.descriptor_count == 0
    return read_file(fs, PATH), header


def overwritten(data: bytes, position: int, piece: bytes) -> bytes:
    return data[:position] + piece + data[position + len(piece) :]


def entry_position(number: int) -> int:
    return SHAPE.entries_position + 20 * number


@pytest.mark.parametrize("data", [made(), made(hash_first=57), made(keys_each=2)])
def test_a_sound_file_stays(data: bytes) -> None:
    """A hash may be 0, and a record have several keys."""
    assert repair(data)[0] == data


@pytest.mark.parametrize("kept", range(1, COUNT + 1))
def test_cut(kept: int) -> None:
    data, header = repair(made(), 100 * kept)
    assert data == made(kept)
    assert header.entry_next == kept + 1


@pytest.mark.parametrize("kept", [1, 3])
def test_keys_that_were_never_written_are_no_keys_of_the_first_record(kept: int) -> None:
    data = overwritten(made(), entry_position(kept + 1), bytes(20 * (COUNT - kept)))
    assert repair(data)[0] == made(kept)


def test_nothing_left() -> None:
    data, header = repair(made(), 0)
    assert header.is_empty
    assert data[40:].strip(b"\0") == b""


def test_slots_that_were_not_written() -> None:
    data = overwritten(made(), 40, bytes(4 * SHAPE.slot_count))
    assert repair(data)[0] == made()


def test_slots_that_point_too_far() -> None:
    data = overwritten(made(), 40, b"\x7f" * 4 * SHAPE.slot_count)
    assert repair(data)[0] == made()


def test_entries_that_the_header_does_not_count() -> None:
    data = overwritten(made(), entry_position(COUNT + 1), b"\x01" * 60)
    assert repair(data)[0] == made()


@pytest.mark.parametrize("number", [1, 7, COUNT])
@pytest.mark.parametrize(
    ("at", "piece"),
    [
        (0, b"\xff"),  # a hash below zero
        (0, bytes(20)),  # a page that was lost
        (4, b"\x01"),  # an offset above its successors', and above the log
        (12, b"\xff"),  # seconds below zero
        (16, b"\x00\x00\x00\x63"),  # a chain that goes elsewhere
    ],
)
def test_entries_from_the_first_wrong_one_on_go(number: int, at: int, piece: bytes) -> None:
    data = overwritten(made(), entry_position(number) + at, piece)
    repaired, header = repair(data, 100 * COUNT)
    assert header.entry_next == number
    if number > 1:
        assert repaired == made(number - 1)


def test_a_header_that_was_lost() -> None:
    _, header = repair(overwritten(made(), 0, bytes(40)))
    assert header.is_empty


def test_the_end_comes_from_the_entry_where_the_log_has_no_record() -> None:
    _, header = repair(made(), 100 * 6, knows=False)
    assert header == IndexHeader(1000, 6000, 0, 500, 5, 7)


def test_a_short_file_gets_its_length() -> None:
    data, header = repair(made()[: entry_position(5)])
    assert len(data) == SHAPE.file_bytes
    assert header.entry_next == 5
    assert data == made(4)


def test_a_header_that_counts_too_many() -> None:
    broken = overwritten(made(), 36, (1 << 30).to_bytes(4, "big"))
    assert HEADER.unpack_from(broken)[5] == 1 << 30
    repaired, header = repair(broken, 100 * COUNT)
    assert header.entry_next <= SHAPE.entry_count
    assert repaired[40 : entry_position(COUNT + 1)] == made()[40 : entry_position(COUNT + 1)]


class NotingFileSystem(MemoryFileSystem):
    """Notes where it writes and when it syncs."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[int | str] = []

    def pwrite(self, fd: int, data: Buffer, position: int) -> None:
        super().pwrite(fd, data, position)
        self.noted.append(position)

    def datasync(self, fd: int) -> None:
        super().datasync(fd)
        self.noted.append("sync")


def test_nothing_is_zeroed_that_a_header_on_the_disk_still_counts() -> None:
    fs = NotingFileSystem()
    write_file(fs, PATH, made())
    fs.noted.clear()
    repair_index_file(fs, PATH, SHAPE, physical_offset=700, store_time=lambda offset: offset)
    *_, before, zeros, last = fs.noted
    assert fs.noted[0] == 0
    assert (before, last) == ("sync", "sync")
    assert isinstance(zeros, int) and zeros >= SHAPE.entries_position


class Killed(Exception):
    """The process ends here."""


class DyingFileSystem(MemoryFileSystem):
    """Lets a process die in front of one of its writes."""

    def __init__(self, data: bytes, writes_count: int) -> None:
        super().__init__()
        self._writes_left_count = writes_count + 1
        write_file(self, PATH, data)

    def pwrite(self, fd: int, data: Buffer, position: int) -> None:
        if self._writes_left_count == 0:
            raise Killed
        self._writes_left_count -= 1
        super().pwrite(fd, data, position)


@pytest.mark.parametrize("writes_count", [0, 1, 2])
@pytest.mark.parametrize("is_known", [False, True])
def test_what_a_killed_cut_leaves_is_cut_to_the_same(writes_count: int, is_known: bool) -> None:
    """Zeros that a header still counts would be a key of the record at 0."""

    def cut(fs: FileSystem) -> None:
        if is_known:
            cut_index_file(fs, PATH, SHAPE, entry_next=2, store_time=lambda offset: 1000)
        else:
            repair_index_file(fs, PATH, SHAPE, physical_offset=100, store_time=lambda offset: 1000)

    dying = DyingFileSystem(made(hash_first=1), writes_count)
    with pytest.raises(Killed):
        cut(dying)
    fs = MemoryFileSystem()
    write_file(fs, PATH, read_file(dying, PATH))
    repair_index_file(fs, PATH, SHAPE, physical_offset=100, store_time=lambda offset: 1000)
    assert read_file(fs, PATH) == made(1, hash_first=1)
