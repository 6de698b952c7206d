"""An index file cut back after a kill or a crash, with and without what is known to be durable."""

from collections.abc import Iterable

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.file_system import Buffer, FileSystem
from wakelog.storage.index import index_repair
from wakelog.storage.index.index_append import IndexFileWriter
from wakelog.storage.index.index_file import HEADER, HEADER_BYTES, IndexHeader, IndexShape
from wakelog.storage.index.index_repair import (
    cut_index_file,
    first_entry_at,
    newest_by_slot,
    repair_index_file,
)
from wakelog.storage.log.record_check import SECTOR_BYTES

SHAPE = IndexShape(slot_count=7, entry_count=120)
PATH = "/store/index/20200101000000000"
COUNT = 20
CHAINED_COUNT = 100
NEVER = 1 << 40


def file_of(keys: Iterable[tuple[int, int, int]]) -> bytes:
    """Return a file of keys: hash, physical offset and store time."""
    fs = MemoryFileSystem()
    write_file(fs, PATH, bytes(SHAPE.file_bytes))
    writer = IndexFileWriter(fs, PATH, SHAPE)
    for key_hash, physical_offset, store_ms in keys:
        writer.put(key_hash, physical_offset, store_ms)
    writer.write_back()
    return read_file(fs, PATH)


def made(count: int = COUNT, *, hash_first: int = 1, keys_each: int = 1) -> bytes:
    """Return a file of `count` keys with hash 3 * i + 1 at 100 * i, stored at second i.

    keys_each: of how many of them each record is.
    """
    records = [i // keys_each for i in range(count)]
    return file_of(
        ((3 * i + hash_first) % 60, 100 * record, 1000 * (record + 1))
        for i, record in enumerate(records)
    )


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


@pytest.mark.parametrize(
    ("position", "piece"),
    [
        (HEADER_BYTES, bytes(4 * SHAPE.slot_count)),  # slots that were not written
        (HEADER_BYTES, b"\x7f" * 4 * SHAPE.slot_count),  # that point too far
        (entry_position(COUNT + 1), b"\x01" * 60),  # entries that the header does not count
    ],
)
def test_what_the_kept_entries_do_not_need_is_made_again(position: int, piece: bytes) -> None:
    assert repair(overwritten(made(), position, piece))[0] == made()


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
    assert header == IndexHeader(1000, 6000, 0, 500, 6, 7)


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


def chained(count: int = CHAINED_COUNT) -> bytes:
    """Return a file of `count` keys with hash 3 * i * i at 100 * i + 100, stored at second i."""
    return file_of((3 * i * i, 100 * i + 100, 1000 * (i + 1)) for i in range(count))


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


@pytest.mark.parametrize("kept", [*range(1, 30), CHAINED_COUNT])
def test_it_is_as_it_was(kept: int, counted: list[int]) -> None:
    data, header = cut(chained(), kept + 1)
    assert data == chained(kept)
    assert header.entry_next == kept + 1
    assert counted == []


@pytest.mark.parametrize("kept", [1, 12, 60])
def test_the_log_may_end_lower(kept: int, counted: list[int]) -> None:
    assert cut(chained(), 80, 100 * kept + 100)[0] == chained(kept)
    assert counted == []


def test_a_cut_is_done_again() -> None:
    once, _ = cut(chained(), 80, 100 * 12 + 100)
    assert cut(once, 13)[0] == chained(12)


@pytest.mark.parametrize("entry_next", [1, 2, 3, 50, 100, CHAINED_COUNT + 1])
def test_the_first_entry_at_an_offset(entry_next: int) -> None:
    fs = MemoryFileSystem()
    write_file(fs, PATH, chained())
    for physical_offset in (0, 100, 101, 200, 5_050, 10_000, 10_001):
        kept = [number for number in range(1, entry_next) if 100 * number < physical_offset]
        found = first_entry_at(fs, PATH, SHAPE, entry_next, physical_offset)
        assert found == len(kept) + 1
    assert fs.descriptor_count == 0


def test_a_cut_may_leave_nothing() -> None:
    data, header = cut(chained(), 50, 0)
    assert header.is_empty
    assert data[HEADER_BYTES:].strip(b"\0") == b""


@pytest.mark.parametrize("written", range(30, CHAINED_COUNT, 7))
def test_slots_of_any_time_since(written: int) -> None:
    """Slots reach the disk when the kernel likes, each by itself."""
    slots_end = HEADER_BYTES + 4 * SHAPE.slot_count
    for number in range(SHAPE.slot_count):
        position = HEADER_BYTES + 4 * number
        data = overwritten(chained(), position, chained(written)[position : position + 4])
        assert cut(data, 31)[0] == chained(30)
    later = overwritten(chained(), HEADER_BYTES, chained(written)[HEADER_BYTES:slots_end])
    assert cut(later, 31)[0] == chained(30)


@pytest.mark.parametrize("lost", range(31, CHAINED_COUNT, 5))
def test_sectors_that_never_came(lost: int) -> None:
    """What was durable in a sector that is lost stays: only its later bytes are missing."""
    data = chained()
    position = entry_position(lost)
    end = position - position % SECTOR_BYTES + SECTOR_BYTES
    begin = max(end - SECTOR_BYTES, entry_position(31))
    torn = overwritten(data, begin, bytes(min(end, len(data)) - begin))
    assert cut(torn, 31)[0] == chained(30)


def test_every_entry_is_read_where_a_lost_sector_may_hide_one(counted: list[int]) -> None:
    """The last field of an entry is in the next sector: zero there can be a number, or nothing."""
    number = next(
        n for n in range(40, CHAINED_COUNT) if (entry_position(n) + 16) % SECTOR_BYTES < 16
    )
    data = chained(number)
    torn = without_sector(data, entry_position(number) + 16)
    assert cut(torn, 31)[0] == chained(30)
    assert counted == [31]


@pytest.mark.parametrize("piece", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"])
def test_slots_that_point_nowhere(piece: bytes, counted: list[int]) -> None:
    assert cut(overwritten(chained(), HEADER_BYTES, piece), 31)[0] == chained(30)
    assert counted == [31]


@pytest.mark.parametrize("number", range(31, CHAINED_COUNT, 9))
def test_a_chain_that_goes_nowhere_is_not_followed(number: int, counted: list[int]) -> None:
    torn = overwritten(chained(), entry_position(number) + 16, b"\xff\xff\xff\xfe")
    assert cut(torn, 31)[0] == chained(30)
    assert counted == [31]


def test_a_short_file_is_cut_at_its_length() -> None:
    data, _ = cut(chained()[: entry_position(60)], 31)
    assert data == chained(30)


@pytest.mark.parametrize("missing_bytes", [0, 3, 11, 19])
def test_what_is_left_of_a_shortened_file_is_kept(missing_bytes: int) -> None:
    fs = MemoryFileSystem()
    write_file(fs, PATH, chained()[: entry_position(20) - missing_bytes])
    found = first_entry_at(fs, PATH, SHAPE, CHAINED_COUNT + 1, NEVER)
    assert found == (20 if missing_bytes <= 8 else 19)
