"""Putting keys into one file: the bytes, when they are written, and the bulk form."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.columns import scanned
from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import STORE_MS, LogBytes, properties
from wakelog.compiled.columns import ScanFunctions
from wakelog.storage.index import index_append
from wakelog.storage.index.index_append import IndexFileWriter
from wakelog.storage.index.index_file import (
    ENTRY,
    HEADER,
    SLOT,
    IndexFileReader,
    IndexHeader,
    IndexShape,
    index_key_hash,
)

SHAPE = IndexShape(slot_count=7, entry_count=12)
PATH = "/store/index/20200101000000000"


def open_new(
    *, seed_ms: int = 0, seed: int = 0, shape: IndexShape = SHAPE
) -> tuple[MemoryFileSystem, IndexFileWriter]:
    fs = MemoryFileSystem()
    header = HEADER.pack(seed_ms, seed_ms, seed, seed, 0, 0)
    write_file(fs, PATH, header.ljust(shape.file_bytes, b"\0"))
    return fs, IndexFileWriter(fs, PATH, shape)


def parts(fs: MemoryFileSystem) -> tuple[IndexHeader, list[int], list[tuple[int, ...]]]:
    """Return header, slots and the entries that the header counts."""
    data = read_file(fs, PATH)
    header = IndexHeader(*HEADER.unpack_from(data))
    slots = [slot for (slot,) in SLOT.iter_unpack(data[40 : SHAPE.entries_position])]
    entries = [
        ENTRY.unpack_from(data, SHAPE.entries_position + 20 * i)
        for i in range(1, header.entry_next)
    ]
    return header, slots, entries


def test_a_file_that_ends_within_its_slots_is_opened() -> None:
    fs = MemoryFileSystem()
    write_file(fs, PATH, HEADER.pack(0, 0, 0, 0, 1, 2) + b"\0\0\0\1\0")
    writer = IndexFileWriter(fs, PATH, SHAPE)
    writer.put(8, 100, 10_000)
    writer.write_back()
    assert IndexHeader(*HEADER.unpack_from(read_file(fs, PATH))).entry_next == 3


def test_a_slot_that_a_crash_kept_without_its_entry_leads_nowhere() -> None:
    """Its number is that of the first entry to come, which would follow itself."""
    fs = MemoryFileSystem()
    slots = SLOT.pack(0) + SLOT.pack(1)
    write_file(fs, PATH, (HEADER.pack(0, 0, 0, 0, 0, 0) + slots).ljust(SHAPE.file_bytes, b"\0"))
    writer = IndexFileWriter(fs, PATH, SHAPE)
    writer.put(8, 100, 10_000)
    writer.write_back()
    header, found, entries = parts(fs)
    assert (header.slot_used_count, found[1], entries) == (1, 1, [(8, 100, 0, 0)])


def test_the_bytes() -> None:
    fs, writer = open_new()
    writer.put(8, 100, 10_000)
    writer.put(1, 200, 13_999)
    writer.put(3, 200, 13_999)
    assert writer.write_back()
    header, slots, entries = parts(fs)
    assert header == IndexHeader(10_000, 13_999, 100, 200, 2, 4)
    assert slots == [0, 2, 0, 3, 0, 0, 0]
    assert entries == [(8, 100, 0, 0), (1, 200, 3, 1), (3, 200, 3, 0)]


def test_the_first_entry_counts_from_the_file_before() -> None:
    fs, writer = open_new(seed_ms=10_000, seed=50)
    assert writer.header == IndexHeader(10_000, 10_000, 50, 50, 0, 1)
    writer.put(1, 100, 15_000)
    writer.put(2, 200, 16_000)
    writer.write_back()
    header, _, entries = parts(fs)
    assert header == IndexHeader(15_000, 16_000, 100, 200, 2, 3)
    assert [entry[2] for entry in entries] == [5, 1]


@pytest.mark.parametrize(
    ("begin_ms", "store_ms", "seconds"),
    [
        (0, 10**15, 0),
        (-5, 10**15, 0),
        (10_000, 9_000, 0),
        (10_000, 11_999, 1),
        (1, 10**15, (1 << 31) - 1),
        (10_000, -(1 << 63), (1 << 31) - 1),  # a Java long wraps
    ],
)
def test_seconds_are_cut_and_clamped(begin_ms: int, store_ms: int, seconds: int) -> None:
    fs, writer = open_new(seed_ms=begin_ms)
    writer.put(1, 100, store_ms)
    writer.write_back()
    assert parts(fs)[2][0][2] == seconds


def test_nothing_is_written_before_write_back_and_once() -> None:
    fs, writer = open_new()
    before = read_file(fs, PATH)
    assert not writer.write_back()
    writer.put(1, 100, 1)
    assert read_file(fs, PATH) == before
    assert writer.write_back()
    fs.calls.clear()
    assert not writer.write_back()
    assert fs.calls["pwrite"] == 0


def test_entries_then_header_then_slots() -> None:
    for failing, expected in ((1, (0, 0)), (2, (0, 0)), (3, (2, 0))):
        fs, writer = open_new()
        writer.put(1, 100, 1)
        fs.fail("pwrite", nth=failing)
        with pytest.raises(OSError):
            writer.write_back()
        header, slots, _ = parts(fs)
        assert (header.entry_next, slots[1]) == expected
        reader = IndexFileReader(fs, PATH, SHAPE)
        found: list[int] = []
        reader.select(reader.header(), 1, count_max=9, begin_ms=0, end_ms=9, found=found)
        assert found == []


def test_goes_on_where_the_file_ends() -> None:
    fs, writer = open_new()
    writer.put(1, 100, 1)
    writer.write_back()
    writer.close()
    again = IndexFileWriter(fs, PATH, SHAPE)
    assert again.header == writer.header
    again.put(1, 200, 2)
    again.write_back()
    assert parts(fs)[2] == [(1, 100, 0, 0), (1, 200, 0, 1)]
    again.close()
    assert fs.descriptor_count == 0


def test_full() -> None:
    _, writer = open_new()
    for i in range(SHAPE.entry_count - 1):
        assert not writer.is_full
        writer.put(i, i, i)
    assert writer.is_full


def test_many_slots_go_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_append, "SINGLE_SLOTS_MAX", 100)
    shape = IndexShape(slot_count=5000, entry_count=300)
    fs, writer = open_new(shape=shape)
    numbers = [slot * 16 for slot in range(200)]
    for number in numbers:
        writer.put(number, number, 1)
    fs.calls.clear()
    writer.write_back()
    assert fs.calls["pwrite"] == 3  # entries, header, and four pages in a row
    data = read_file(fs, PATH)
    slots = [slot for (slot,) in SLOT.iter_unpack(data[40 : shape.entries_position])]
    assert {slot: number for slot, number in enumerate(slots) if number} == {
        number: i + 1 for i, number in enumerate(numbers)
    }


words = st.lists(st.sampled_from(["a", "b", "c", "Aa", "BB"]), max_size=3)
shifts = st.integers(-2000, 5000) | st.sampled_from([-(1 << 63) - STORE_MS, 1 << 30, 1 << 45])
messages = st.lists(st.tuples(words, shifts), max_size=8)


@pytest.mark.parametrize("singles_max", [0, 3, 4096])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=messages, bulk=messages, seed_ms=st.sampled_from([0, STORE_MS - 10_000]))
def test_columns_are_the_same_as_one_by_one(
    functions: ScanFunctions,
    monkeypatch: pytest.MonkeyPatch,
    singles_max: int,
    before: list[tuple[list[str], int]],
    bulk: list[tuple[list[str], int]],
    seed_ms: int,
) -> None:
    monkeypatch.setattr(index_append, "SINGLE_SLOTS_MAX", singles_max)
    log = LogBytes(segment_bytes=1 << 14)
    puts = []
    for i, (found, shift_ms) in enumerate(before + bulk):
        store_ms = STORE_MS + shift_ms
        offset = log.add(properties(KEYS=" ".join(found)), store_timestamp_ms=store_ms)
        puts += [(i, index_key_hash("T", word), offset, store_ms) for word in found]
    plain_fs, plain = open_new(seed_ms=seed_ms)
    bulk_fs, writer = open_new(seed_ms=seed_ms)
    for i, key_hash, offset, store_ms in puts:
        if not plain.is_full:
            plain.put(key_hash, offset, store_ms)
        if i < len(before) and not writer.is_full:
            writer.put(key_hash, offset, store_ms)
    columns = scanned(functions, log, log.offsets[len(before)] if bulk else log.end)
    stop = writer.put_columns(columns, 0, columns.key_count)
    room = SHAPE.entry_count - 1 - sum(1 for put in puts if put[0] < len(before))
    assert stop == min(columns.key_count, max(room, 0))
    plain.write_back()
    writer.write_back()
    assert read_file(bulk_fs, PATH) == read_file(plain_fs, PATH)


int32s = st.integers(-2, SHAPE.entry_count + 2) | st.integers(-(1 << 31), (1 << 31) - 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    slots=st.lists(int32s, min_size=SHAPE.slot_count, max_size=SHAPE.slot_count),
    entry_next=st.integers(2, SHAPE.entry_count),
    begin_ms=st.sampled_from([0, -1, STORE_MS, 1 << 62]),
    bulk=messages,
)
def test_over_damaged_slots_columns_are_the_same_as_one_by_one(
    functions: ScanFunctions,
    slots: list[int],
    entry_next: int,
    begin_ms: int,
    bulk: list[tuple[list[str], int]],
) -> None:
    header = HEADER.pack(begin_ms, begin_ms, 0, 0, 0, entry_next)
    data = (header + b"".join(map(SLOT.pack, slots))).ljust(SHAPE.file_bytes, b"\0")
    log = LogBytes(segment_bytes=1 << 14)
    for found, shift_ms in bulk:
        log.add(properties(KEYS=" ".join(found)), store_timestamp_ms=STORE_MS + shift_ms)
    columns = scanned(functions, log)
    files = []
    for one_by_one in (True, False):
        fs = MemoryFileSystem()
        write_file(fs, PATH, data)
        writer = IndexFileWriter(fs, PATH, SHAPE)
        if one_by_one:
            for (found, shift_ms), offset in zip(bulk, log.offsets, strict=True):
                for word in found:
                    if not writer.is_full:
                        writer.put(index_key_hash("T", word), offset, STORE_MS + shift_ms)
        else:
            writer.put_columns(columns, 0, columns.key_count)
        writer.write_back()
        files.append(read_file(fs, PATH))
    assert files[0] == files[1]
