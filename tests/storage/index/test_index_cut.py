"""An index file cut back to what is known to be durable, whatever a crash left after it."""

from __future__ import annotations

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.index import index_repair
from wakelog.storage.index.index_append import IndexFileWriter
from wakelog.storage.index.index_file import HEADER_BYTES, IndexHeader, IndexShape
from wakelog.storage.index.index_repair import (
    SECTOR_BYTES,
    cut_index_file,
    first_entry_at,
    newest_by_slot,
)

SHAPE = IndexShape(slot_count=7, entry_count=120)
PATH = "/store/index/20200101000000000"
COUNT = 100
NEVER = 1 << 40


def made(count: int = COUNT) -> bytes:
    """Return a file of `count` keys with hash 3 * i * i at 100 * i + 100, stored at second i."""
    fs = MemoryFileSystem()
    write_file(fs, PATH, bytes(SHAPE.file_bytes))
    writer = IndexFileWriter(fs, PATH, SHAPE)
    for i in range(count):
        writer.put(3 * i * i, 100 * i + 100, 1000 * (i + 1))
    writer.write_back()
    return read_file(fs, PATH)


def cut(data: bytes, durable_next: int, physical_offset: int = NEVER) -> tuple[bytes, IndexHeader]:
    fs = MemoryFileSystem()
    write_file(fs, PATH, data)
    entry_next = first_entry_at(fs, PATH, SHAPE, durable_next, physical_offset)
    assert read_file(fs, PATH) == data
    header = cut_index_file(
        fs, PATH, SHAPE, entry_next=entry_next, store_time=lambda offset: 10 * offset
    )
    assert fs.descriptor_count == 0
    return read_file(fs, PATH), header


def entry_position(number: int) -> int:
    return SHAPE.entries_position + 20 * number


def overwritten(data: bytes, position: int, piece: bytes) -> bytes:
    return data[:position] + piece + data[position + len(piece) :]


def without_sector(data: bytes, position: int) -> bytes:
    """Return data whose sector of a position never came to the disk."""
    return overwritten(data, position - position % SECTOR_BYTES, bytes(SECTOR_BYTES))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often all entries had to be read."""
    calls: list[int] = []

    def newest(entries: index_repair.Array, slot_count: int) -> index_repair.Array:
        calls.append(len(entries))
        return newest_by_slot(entries, slot_count)

    monkeypatch.setattr(index_repair, "newest_by_slot", newest)
    return calls


@pytest.mark.parametrize("kept", [*range(1, 30), COUNT])
def test_it_is_as_it_was(kept: int, counted: list[int]) -> None:
    data, header = cut(made(), kept + 1)
    assert data == made(kept)
    assert header.entry_next == kept + 1
    assert counted == []


@pytest.mark.parametrize("kept", [1, 12, 60])
def test_the_log_may_end_lower(kept: int, counted: list[int]) -> None:
    assert cut(made(), 80, 100 * kept + 100)[0] == made(kept)
    assert counted == []


def test_a_cut_is_done_again() -> None:
    once, _ = cut(made(), 80, 100 * 12 + 100)
    assert cut(once, 13)[0] == made(12)


@pytest.mark.parametrize("entry_next", [1, 2, 3, 50, 100, COUNT + 1])
def test_the_first_entry_at_an_offset(entry_next: int) -> None:
    fs = MemoryFileSystem()
    write_file(fs, PATH, made())
    for physical_offset in (0, 100, 101, 200, 5_050, 10_000, 10_001):
        kept = [number for number in range(1, entry_next) if 100 * number < physical_offset]
        found = first_entry_at(fs, PATH, SHAPE, entry_next, physical_offset)
        assert found == len(kept) + 1
    assert fs.descriptor_count == 0


def test_nothing_left() -> None:
    data, header = cut(made(), 50, 0)
    assert header.is_empty
    assert data[HEADER_BYTES:].strip(b"\0") == b""


@pytest.mark.parametrize("written", range(30, COUNT, 7))
def test_slots_of_any_time_since(written: int) -> None:
    """Slots reach the disk when the kernel likes, each by itself."""
    slots_end = HEADER_BYTES + 4 * SHAPE.slot_count
    for number in range(SHAPE.slot_count):
        position = HEADER_BYTES + 4 * number
        data = overwritten(made(), position, made(written)[position : position + 4])
        assert cut(data, 31)[0] == made(30)
    later = overwritten(made(), HEADER_BYTES, made(written)[HEADER_BYTES:slots_end])
    assert cut(later, 31)[0] == made(30)


@pytest.mark.parametrize("lost", range(31, COUNT, 5))
def test_sectors_that_never_came(lost: int) -> None:
    """What was durable in a sector that is lost stays: only its later bytes are missing."""
    data = made()
    position = entry_position(lost)
    end = position - position % SECTOR_BYTES + SECTOR_BYTES
    begin = max(end - SECTOR_BYTES, entry_position(31))
    torn = overwritten(data, begin, bytes(min(end, len(data)) - begin))
    assert cut(torn, 31)[0] == made(30)


def test_every_entry_is_read_where_a_lost_sector_may_hide_one(counted: list[int]) -> None:
    """The last field of an entry is in the next sector: zero there can be a number, or nothing."""
    number = next(n for n in range(40, COUNT) if (entry_position(n) + 16) % SECTOR_BYTES < 16)
    data = made(number)
    torn = without_sector(data, entry_position(number) + 16)
    assert cut(torn, 31)[0] == made(30)
    assert counted == [31]


@pytest.mark.parametrize("piece", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"])
def test_slots_that_point_nowhere(piece: bytes, counted: list[int]) -> None:
    assert cut(overwritten(made(), HEADER_BYTES, piece), 31)[0] == made(30)
    assert counted == [31]


@pytest.mark.parametrize("number", range(31, COUNT, 9))
def test_a_chain_that_goes_nowhere_is_not_followed(number: int, counted: list[int]) -> None:
    torn = overwritten(made(), entry_position(number) + 16, b"\xff\xff\xff\xfe")
    assert cut(torn, 31)[0] == made(30)
    assert counted == [31]


def test_a_short_file_gets_its_length() -> None:
    data, _ = cut(made()[: entry_position(60)], 31)
    assert data == made(30)


@pytest.mark.parametrize("missing_bytes", [0, 3, 11, 19])
def test_what_is_left_of_a_shortened_file_is_kept(missing_bytes: int) -> None:
    fs = MemoryFileSystem()
    write_file(fs, PATH, made()[: entry_position(20) - missing_bytes])
    found = first_entry_at(fs, PATH, SHAPE, COUNT + 1, NEVER)
    assert found == (20 if missing_bytes <= 8 else 19)
