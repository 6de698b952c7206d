"""Reput's side of the index: which keys, into which file, once only; plain and bulk alike."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.columns import scanned
from tests.fakes.logs import read_file, small_config, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import STORE_MS, LogBytes, properties
from wakelog.compiled.columns import ScanFunctions
from wakelog.storage.durability.dispatched import IndexEnd
from wakelog.storage.index.index_file import HEADER, IndexHeader
from wakelog.storage.index.index_service import IndexReader, index_names, index_shape
from wakelog.storage.index.index_writer import IndexWriter
from wakelog.storage.log.scan import scan_plain

CONFIG = small_config(index_slot_count=5, index_entry_count=6)
DIRECTORY = "/store/index"
NOW_MS = 1_700_000_000_000
SEGMENT_BYTES = 1 << 15


def log_of(*messages: bytes | tuple[bytes, dict[str, Any]]) -> LogBytes:
    log = LogBytes(segment_bytes=SEGMENT_BYTES)
    for i, message in enumerate(messages):
        text, values = message if isinstance(message, tuple) else (message, {})
        log.add(text, store_timestamp_ms=STORE_MS + 1000 * i, **values)
    return log


def keys(text: str) -> bytes:
    return properties(KEYS=text)


def put(
    fs: MemoryFileSystem, log: LogBytes, functions: ScanFunctions | None = None, *, begin: int = 0
) -> IndexWriter:
    """Index the records of a log from number `begin` on, with a new writer."""
    writer = IndexWriter(fs, CONFIG)
    writer.load()
    at = log.offsets[begin] if begin < len(log.offsets) else log.end
    if functions is None:
        data = bytes(log.data[at : log.end])
        for request in scan_plain(data, at, SEGMENT_BYTES, ()).requests:
            writer.put(request, NOW_MS)
    else:
        writer.put_columns(scanned(functions, log, at), NOW_MS)
    writer.write_back()
    writer.close()
    return writer


def files(fs: MemoryFileSystem) -> list[bytes]:
    return [read_file(fs, f"{DIRECTORY}/{name}") for name in index_names(fs, DIRECTORY)]


def headers(fs: MemoryFileSystem) -> list[IndexHeader]:
    return [IndexHeader(*HEADER.unpack_from(data)) for data in files(fs)]


def find(fs: MemoryFileSystem, word: str) -> list[int]:
    reader = IndexReader(fs, CONFIG)
    found = reader.query("T", word, 64, 0, 1 << 62).physical_offsets
    reader.close()
    return sorted(found)


def test_unique_key_then_each_word(fs: MemoryFileSystem) -> None:
    log = log_of(properties(KEYS="a  b", UNIQ_KEY="u"))
    writer = put(fs, log)
    assert writer.keys_count == 3
    assert [find(fs, word) for word in ("u", "a", "b", "")] == [[0], [0], [0], []]
    assert headers(fs)[0].entry_next == 4


@pytest.mark.parametrize(("sys_flag", "indexed"), [(0, True), (4, True), (8, True), (12, False)])
def test_rolled_back_messages_are_left_out(
    fs: MemoryFileSystem, sys_flag: int, indexed: bool
) -> None:
    put(fs, log_of((keys("a"), {"sys_flag": sys_flag})))
    assert find(fs, "a") == ([0] if indexed else [])


def test_a_full_file_gets_a_successor_with_its_end(fs: MemoryFileSystem) -> None:
    log = log_of(*(keys(f"w{i}") for i in range(7)))
    writer = put(fs, log)
    first, second = headers(fs)
    assert (first.entry_next, first.end_physical_offset) == (6, log.offsets[4])
    assert (second.entry_next, second.begin_physical_offset) == (3, log.offsets[5])
    assert second.begin_timestamp_ms == STORE_MS + 5000
    assert writer.files_made_count == writer.files_count == 2
    assert [find(fs, f"w{i}") for i in range(7)] == [[offset] for offset in log.offsets]


def test_keys_of_one_record_can_lie_in_two_files(fs: MemoryFileSystem) -> None:
    put(fs, log_of(keys("a b c d"), keys("e f")))
    assert [header.entry_next for header in headers(fs)] == [6, 2]


def test_a_successor_comes_with_the_next_record_whether_or_not_it_has_keys(
    fs: MemoryFileSystem,
) -> None:
    put(fs, log_of(b"", keys("a b c d e")))
    assert len(headers(fs)) == 1
    log = log_of(b"", keys("a b c d e"), b"")
    put(fs, log)
    end_ms, end = STORE_MS + 1000, log.offsets[1]
    assert headers(fs)[1] == IndexHeader(end_ms, end_ms, end, end, 0, 0)


def test_names_go_up_even_when_the_clock_does_not(fs: MemoryFileSystem) -> None:
    put(fs, log_of(keys("a b c d e f g h i j k")))
    names = index_names(fs, DIRECTORY)
    assert len(set(names)) == 3
    assert int(names[1]) == int(names[0]) + 1
    write_file(fs, f"{DIRECTORY}/{'9' * 16}0", b"")
    writer = IndexWriter(fs, CONFIG)
    writer.load()
    assert writer.files_count == 4


@pytest.mark.parametrize("removed", [0, 1, 2, 3])
def test_files_below_the_log_go_but_never_the_newest(fs: MemoryFileSystem, removed: int) -> None:
    log = log_of(*(keys(f"w{i}") for i in range(20)))
    put(fs, log)
    names = index_names(fs, DIRECTORY)
    assert len(names) == 4
    writer = IndexWriter(fs, CONFIG)
    writer.load()
    last = log.offsets[5 * removed - 1] if removed else 0
    for expected in (removed, 0):
        assert writer.remove_before(last + 1) == expected
        assert index_names(fs, DIRECTORY) == names[removed:]
        assert writer.files_count == 4 - removed
    assert writer.remove_before(log.end) == 3 - removed
    assert (index_names(fs, DIRECTORY), writer.files_count) == (names[3:], 1)
    writer.close()


def test_the_last_record_is_not_indexed_twice(fs: MemoryFileSystem) -> None:
    log = log_of(keys("a"), keys("b c"))
    put(fs, log)
    for begin in (1, 0):
        put(fs, log, begin=begin)
        assert [find(fs, word) for word in "abc"] == [[0], [log.offsets[1]], [log.offsets[1]]]


def test_a_record_that_was_half_indexed_is_completed(fs: MemoryFileSystem) -> None:
    writer = put(fs, log_of(keys("a"), keys("b c")))
    assert writer.keys_count == 3
    writer = put(fs, log_of(keys("a"), keys("b c d")))
    assert writer.keys_count == 1
    assert len(find(fs, "d")) == len(find(fs, "b")) == 1


@pytest.mark.parametrize("call", ["sync", "rename"])
def test_a_file_that_cannot_be_made_whole_has_no_name(fs: MemoryFileSystem, call: str) -> None:
    fs.fail(call)
    log = log_of(keys("a"))
    with pytest.raises(OSError):
        put(fs, log)
    assert index_names(fs, DIRECTORY) == []
    put(fs, log)
    assert find(fs, "a") == [0]
    assert fs.list_directory("/store") == ["index"]


def test_a_file_made_ahead_needs_only_its_name(fs: MemoryFileSystem) -> None:
    writer = IndexWriter(fs, CONFIG)
    writer.load()
    writer.make_ahead()
    fs.calls.clear()
    (request,) = scan_plain(bytes(log_of(keys("a")).data), 0, SEGMENT_BYTES, ()).requests
    writer.put(request, NOW_MS)
    assert files(fs) == [bytes(index_shape(CONFIG).file_bytes)]
    assert fs.calls["sync"] == fs.calls["sync_directory"] == 0
    assert writer.take_unsynced_directories()[-1] == DIRECTORY
    assert fs.list_directory("/store") == ["index"]
    writer.close()


def test_dirty_paths_are_returned_once(fs: MemoryFileSystem) -> None:
    writer = put(fs, log_of(*(keys(f"w{i}") for i in range(7))))
    assert len(writer.dirty_paths()) == 2
    assert writer.dirty_paths() == []


def test_names_wait_for_a_sync(fs: MemoryFileSystem) -> None:
    writer = put(fs, log_of(keys("a")))
    assert fs.calls["sync_directory"] == 0
    assert writer.take_unsynced_directories() == ["/", "/store", DIRECTORY]
    assert writer.take_unsynced_directories() == []
    writer.load()
    assert writer.take_unsynced_directories() == []
    writer.mark_unsynced(IndexEnd())
    assert writer.take_unsynced_directories() == [DIRECTORY]


def test_a_later_file_waits_for_the_names_before_it(fs: MemoryFileSystem) -> None:
    put(fs, log_of(*(keys(f"w{i}") for i in range(7))))
    assert len(index_names(fs, DIRECTORY)) == 2
    assert fs.calls["sync_directory"] == 2


def cut(
    fs: MemoryFileSystem, log: LogBytes, durable: IndexEnd, physical_offset: int
) -> tuple[bool, list[IndexEnd]]:
    """Cut an index; return whether it could be, and the ends that were said before."""
    before = files(fs)
    lowered: list[IndexEnd] = []

    def lower(index_end: IndexEnd) -> None:
        assert files(fs) == before[: len(files(fs))]
        lowered.append(index_end)

    writer = IndexWriter(fs, CONFIG)
    times = {offset: STORE_MS + 1000 * i for i, offset in enumerate(log.offsets)}
    done = writer.cut(durable, physical_offset, times.__getitem__, lower)
    assert writer.end == (lowered[-1] if lowered else durable) or not done
    writer.close()
    return done, lowered


def end_of(fs: MemoryFileSystem, log: LogBytes) -> IndexEnd:
    writer = put(fs, log)
    writer.load()
    end = writer.end
    writer.close()
    return end


@pytest.mark.parametrize("kept", range(13))
@pytest.mark.parametrize("durable_count", [3, 5, 6, 12])
def test_a_cut_is_said_first_and_leaves_what_was(
    fs: MemoryFileSystem, durable_count: int, kept: int
) -> None:
    messages = [keys(f"w{i}") for i in range(13)]
    durable = end_of(fs, log_of(*messages[:durable_count]))
    log = log_of(*messages)
    put(fs, log, begin=durable_count)
    done, lowered = cut(fs, log, durable, log.offsets[kept])
    assert done
    assert len(lowered) == (kept < durable_count)
    shorter = MemoryFileSystem()
    put(shorter, log_of(*messages[: min(kept, durable_count)]))
    assert files(fs) == files(shorter)


def test_a_file_is_gone_for_good_before_the_one_in_front_of_it_goes(fs: MemoryFileSystem) -> None:
    messages = [keys(f"w{i}") for i in range(12)]
    durable = end_of(fs, log_of(*messages[:3]))
    log = log_of(*messages)
    put(fs, log, begin=3)
    names = index_names(fs, DIRECTORY)
    assert len(names) == 3
    fs.fail("sync_directory")
    with pytest.raises(OSError, match="Input/output"):
        cut(fs, log, durable, log.end)
    assert index_names(fs, DIRECTORY) == names[:2]


def test_an_index_whose_durable_end_is_gone_is_not_cut_by_it(fs: MemoryFileSystem) -> None:
    log = log_of(*(keys(f"w{i}") for i in range(12)))
    put(fs, log)
    first, second, _ = index_names(fs, DIRECTORY)
    fs.unlink(f"{DIRECTORY}/{second}")
    assert cut(fs, log, IndexEnd(int(second), 3), log.end) == (False, [])
    # What came behind may be torn, and nobody would look at it: only the newest is repaired.
    assert index_names(fs, DIRECTORY) == [first]


@pytest.mark.parametrize("kept", range(8))
def test_repair_keeps_what_lies_below(fs: MemoryFileSystem, kept: int) -> None:
    log = log_of(*(keys(f"w{i} x") for i in range(8)))
    put(fs, log)
    whole = files(fs)
    end = log.offsets[kept]
    writer = IndexWriter(fs, CONFIG)
    writer.repair(end, lambda offset: STORE_MS + 1000 * log.offsets.index(offset))
    assert writer.end_physical_offset == (log.offsets[kept - 1] if kept else 0)
    writer.close()
    assert find(fs, "x") == log.offsets[:kept]
    put(fs, log, begin=max(kept - 1, 0))
    assert files(fs) == whole


texts = st.lists(st.sampled_from(["a", "b", "ä", "Aa", "BB", "KEYS"]), max_size=4).map(" ".join)
streams = st.lists(st.tuples(texts, st.sampled_from([0, 4, 8, 12])), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=streams, cuts=st.lists(st.integers(0, 12), max_size=3))
def test_bulk_is_the_same_as_plain(
    functions: ScanFunctions, found: list[tuple[str, int]], cuts: list[int]
) -> None:
    """Index a log in several parts, each by a new writer, with overlaps."""
    messages = [(keys(text), {"sys_flag": flag}) for text, flag in found]
    disks, counts = [], []
    for way in (None, functions):
        fs = MemoryFileSystem()
        fs.make_directories("/store")
        for cut in [*sorted(cuts), len(messages)]:
            part = log_of(*messages[:cut])
            if part.offsets:
                counts.append(put(fs, part, way, begin=max(0, cut - 4)).keys_count)
        disks.append(files(fs))
    assert disks[0] == disks[1]
    assert counts[: len(counts) // 2] == counts[len(counts) // 2 :]


@pytest.mark.parametrize("last", ["", "k", "k l"])
def test_bulk_fills_files_as_plain_does(functions: ScanFunctions, last: str) -> None:
    """Whether the last key fills a file, or the first one after it."""
    for count in range(12):
        log = log_of(*[keys("k")] * count, keys(last))
        disks = [MemoryFileSystem(), MemoryFileSystem()]
        plain, bulk = put(disks[0], log), put(disks[1], log, functions)
        assert files(disks[0]) == files(disks[1])
        assert plain.files_made_count == bulk.files_made_count
