"""Pulls: every status with its next offset, and how much one answer holds."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import (
    MEMORY_BYTES,
    dispatch,
    open_store,
    place_of,
    put,
    remove_queue_files,
    scan_log,
    store_config,
    write_queues,
)
from tests.twins import twins, use_twin
from wakelog.protocol.record import decode_record
from wakelog.storage.config import BrokerRole, StoreConfig
from wakelog.storage.log.commit_log_reader import CommitLogReader, commit_log_files
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.message_store import MessageStore
from wakelog.storage.queue.consume_queue import ConsumeQueue
from wakelog.storage.queue.consume_queue_ext import ConsumeQueueExtWriter
from wakelog.storage.queue.entries import ENTRY
from wakelog.storage.read import reader
from wakelog.storage.read.readable import ReadableQueue, ReadableQueues
from wakelog.storage.read.reader import (
    GetRequest,
    GetResult,
    GetStatus,
    LogView,
    Reader,
)
from wakelog.storage.read.store_readers import StoreReaders

pytestmark = pytest.mark.usefixtures("twin")

TOPIC = "TopicTest"
SEGMENT_BYTES = 65_536
FILE_ENTRIES = 50


@pytest.fixture(params=twins())
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    use_twin(request.param, monkeypatch)


def config(**values: object) -> StoreConfig:
    return store_config(commit_log_file_bytes=SEGMENT_BYTES, **values)


def filled(
    fs: MemoryFileSystem, count: int, body_bytes: int = 100, **values: object
) -> MessageStore:
    """A store with `count` messages in one queue, all dispatched."""
    store = open_store(fs, config(**values))
    put(store, *[i.to_bytes(4, "big").ljust(body_bytes, b".") for i in range(count)])
    dispatch(store, fs)
    return store


def get(store: MessageStore, offset: int, count_max: int = 32, **options: object) -> GetResult:
    result = store.get_message(GetRequest(TOPIC, 0, offset, count_max, **options))  # type: ignore[arg-type]
    assert result is not None
    return result


def joined(result: GetResult | None) -> GetResult:
    """Return a result whose records are one piece."""
    assert result is not None
    return msgspec.structs.replace(result, frames=(b"".join(result.frames),))


def bodies(result: GetResult) -> list[int]:
    """The numbers of the messages in an answer, read from its joined frames."""
    data = b"".join(result.frames)
    assert len(data) == result.size_bytes
    found = []
    while data:
        record = decode_record(data)
        found.append(int.from_bytes(record.body[:4], "big"))
        data = data[record.size_bytes :]
    assert len(found) == result.count
    assert result.last_physical_offset == (record.physical_offset if found else -1)
    return found


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (0, GetStatus.FOUND, 32),
        (59, GetStatus.FOUND, 60),
        (60, GetStatus.OFFSET_OVERFLOW_ONE, 60),
        (61, GetStatus.OFFSET_OVERFLOW_BADLY, 0),
        (-1, GetStatus.OFFSET_TOO_SMALL, 0),
    ],
)
def test_each_place_of_a_queue_has_its_status(
    fs: MemoryFileSystem, offset: int, status: GetStatus, next_offset: int
) -> None:
    result = get(filled(fs, 60), offset)
    assert (result.status, result.next_begin_offset) == (status, next_offset)
    assert (result.min_offset, result.max_offset) == (0, 60)
    assert (result.fall_behind_bytes > 0) is (status is GetStatus.FOUND)


@pytest.mark.parametrize("offset", [0, 7])
def test_an_empty_queue_has_no_message(fs: MemoryFileSystem, offset: int) -> None:
    result = get(open_store(fs, config()), offset)
    assert (result.status, result.next_begin_offset) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0)
    assert result.fall_behind_bytes == 0 and not result.suggest_slave


def test_messages_come_in_order_and_stop_at_the_file(fs: MemoryFileSystem) -> None:
    store = filled(fs, 2 * FILE_ENTRIES + 10)
    seen, offset, counts = [], 0, []
    while (result := get(store, offset)).status is GetStatus.FOUND:
        seen += bodies(result)
        counts.append(result.count)
        assert result.next_begin_offset == offset + result.count
        offset = result.next_begin_offset
    assert seen == list(range(2 * FILE_ENTRIES + 10))
    assert counts == [32, 18, 32, 18, 10]


def test_an_entry_is_read_once_its_record_is_dispatched(fs: MemoryFileSystem) -> None:
    store = open_store(fs, config())
    results = put(store, *[b"....%d" % i for i in range(9)])
    write_queues(fs, store.config, scan_log(fs, store.config, 0, store.max_physical_offset))
    assert get(store, 0).status is GetStatus.NO_MESSAGE_IN_QUEUE
    for i, result in enumerate(results, 1):
        store.set_dispatched(result.physical_offset_end - 1)
        assert get(store, 0).max_offset == i - 1
        store.set_dispatched(result.physical_offset_end)
        assert get(store, 0).count == i
    store.set_dispatched(0)
    assert get(store, 0).count == 9


def test_a_slave_leaves_the_offset_as_it_was_asked_for(fs: MemoryFileSystem) -> None:
    filled(fs, 60).close(dispatch_behind_bytes=0)
    slave = config(broker_role=BrokerRole.SLAVE)
    for settings, next_offset in [
        (slave, 61),
        (msgspec.structs.replace(slave, offset_check_in_slave=True), 0),
    ]:
        store = open_store(fs, settings)
        result = get(store, 61)
        assert result.status is GetStatus.OFFSET_OVERFLOW_BADLY
        assert result.next_begin_offset == next_offset
        store.close(dispatch_behind_bytes=0)


def test_beyond_the_end_of_a_queue_that_lost_its_begin(fs: MemoryFileSystem) -> None:
    store = filled(fs, 200, body_bytes=1000)
    trim(store, 2 * SEGMENT_BYTES)
    # Until Reput has removed the first queue file, whose messages are all gone, it keeps its place.
    assert store.min_queue_offset(TOPIC, 0) == 0
    assert get(store, 0).status is GetStatus.MESSAGE_WAS_REMOVING
    remove_queue_files(fs, store.config, (TOPIC, 0), store.min_physical_offset)
    least = store.min_queue_offset(TOPIC, 0)
    assert place_of(store, TOPIC, 0, least) == 2 * SEGMENT_BYTES
    for offset, status, next_offset in [
        (0, GetStatus.OFFSET_TOO_SMALL, least),
        (least, GetStatus.FOUND, least + 32 if least % 50 <= 18 else least - least % 50 + 50),
        (1000, GetStatus.OFFSET_OVERFLOW_BADLY, 200),
    ]:
        result = get(store, offset)
        assert (result.status, result.next_begin_offset) == (status, next_offset)
        assert (result.min_offset, result.max_offset) == (least, 200)


def test_a_removed_segment_is_passed_over(fs: MemoryFileSystem) -> None:
    store = filled(fs, 100, body_bytes=2000)
    first_left = next(i for i in range(100) if place_of(store, TOPIC, 0, i) >= SEGMENT_BYTES)
    # The segment vanishes behind the store's back; entries of the queue still point to it.
    fs.unlink(store.log.files.files[0].path)
    result = get(store, 0)
    assert result.status is GetStatus.FOUND
    assert bodies(result) == list(range(first_left, FILE_ENTRIES))
    assert result.next_begin_offset == FILE_ENTRIES


def test_all_of_a_file_can_be_removed(fs: MemoryFileSystem) -> None:
    store = filled(fs, 60, body_bytes=1000)
    for file in store.log.files.files:
        fs.unlink(file.path)
    result = get(store, 0)
    assert (result.status, result.count) == (GetStatus.MESSAGE_WAS_REMOVING, 0)
    assert result.next_begin_offset == FILE_ENTRIES


class QueueThatLosesFiles(ConsumeQueue):
    """A queue whose files vanish between the look at their end and the read."""

    def entries(self, begin: int, count_max: int) -> bytes:
        return b""


def test_a_vanished_queue_file_sends_to_the_next(fs: MemoryFileSystem) -> None:
    store = filled(fs, 160)

    def open_queue(topic: str, queue_id: int) -> ReadableQueue:
        directory = store.config.paths.consume_queue(topic, queue_id)
        return ReadableQueue(
            QueueThatLosesFiles(fs, directory, file_bytes=1000, open_files=OpenFiles())
        )

    log = CommitLogReader(fs, store.config)
    reader = Reader(store.config, log, ReadableQueues(open_queue), memory_bytes=MEMORY_BYTES)
    end = store.max_physical_offset
    for offset, next_offset in [(0, 50), (49, 50), (50, 100)]:
        result = reader.get(GetRequest(TOPIC, 0, offset, 32), LogView(0, end, end))
        assert result is not None and result.status is GetStatus.OFFSET_FOUND_NULL
        assert (result.next_begin_offset, result.max_offset) == (next_offset, 160)


def test_damaged_records_are_passed_over(fs: MemoryFileSystem) -> None:
    store = filled(fs, 10)
    places = [place_of(store, TOPIC, 0, number) for number in range(10)]
    readers = StoreReaders(
        fs, store.config, physical_memory_bytes=MEMORY_BYTES, damaged=[range(places[3], places[5])]
    )
    with readers.lend() as one:
        view = LogView(0, store.max_physical_offset, store.dispatched)
        result = one.reader.get(GetRequest(TOPIC, 0, 0, 32), view)
    assert result is not None
    assert bodies(result) == [0, 1, 2, 5, 6, 7, 8, 9]
    assert result.next_begin_offset == 10


@pytest.mark.parametrize(
    "lied",
    [(0, value) for value in (1, 500, 1 << 40, (1 << 63) - 1, -1)]
    + [(8, value) for value in (1, 90, 150, -1, 0, 0x7FFFFFFF)],
)
@pytest.mark.parametrize("entry", range(10))
def test_an_entry_that_cannot_be_true_hides_itself_alone(
    fs: MemoryFileSystem, lied: tuple[int, int], entry: int
) -> None:
    store = filled(fs, 10)
    position, value = lied
    lie(fs, entry, position, value.to_bytes(4 if position else 8, "big", signed=True))
    found: list[int] = []
    offset = 0
    while offset < (end := store.max_queue_offset(TOPIC, 0)):
        result = get(store, offset)
        found += bodies(result)
        assert result.next_begin_offset > offset
        offset = result.next_begin_offset
    assert found == [number for number in range(10) if number != entry]
    assert end == 10 or entry == 9


@pytest.mark.parametrize("position", [0, 4, 28])
def test_a_record_that_is_not_its_entrys_is_passed_over(
    fs: MemoryFileSystem, position: int
) -> None:
    store = filled(fs, 10)
    place = place_of(store, TOPIC, 0, 5)
    path = f"/store/commitlog/{place - place % store.config.commit_log_file_bytes:020d}"
    data = bytearray(read_file(fs, path))
    data[place % store.config.commit_log_file_bytes + position] ^= 0x40
    write_file(fs, path, bytes(data))
    assert bodies(get(store, 0)) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    only = get(store, 5, 1)
    assert bodies(only) == [6] and only.next_begin_offset == 7


def lie(fs: MemoryFileSystem, entry: int, position: int, data: bytes) -> None:
    """Change a field of an entry of the queue."""
    path = f"/store/consumequeue/{TOPIC}/0/{0:020d}"
    content = bytearray(read_file(fs, path))
    at = entry * ENTRY.size + position
    content[at : at + len(data)] = data
    write_file(fs, path, bytes(content))


@pytest.mark.parametrize(
    ("count_max", "body_bytes", "count"),
    [
        (5, 10, 5),
        (32, 10, 32),
        (64, 10, 32),  # at most 32 in memory, whatever was asked for
        (0, 10, 1),  # the first one always passes
        (-3, 10, 1),
        (32, 20_000, 13),  # 13 records of 20 KB are below 256 KiB, 14 are not
        (32, 60_000, 4),
    ],
)
def test_how_much_one_answer_holds(
    fs: MemoryFileSystem, count_max: int, body_bytes: int, count: int
) -> None:
    assert get(filled(fs, 40, body_bytes), 0, count_max).count == count


@pytest.mark.parametrize(("body_bytes", "count"), [(10, 8), (20_000, 3), (60_000, 1)])
def test_records_far_below_the_end_count_as_on_disk(
    fs: MemoryFileSystem, body_bytes: int, count: int
) -> None:
    filled(fs, 40, body_bytes).close(dispatch_behind_bytes=0)
    store = open_store(fs, config(), physical_memory_bytes=100)
    far = get(store, 0)
    assert (far.count, far.suggest_slave) == (count, True)
    last = get(store, 39)
    assert (last.count, last.suggest_slave) == (1, True)
    assert last.fall_behind_bytes == last.size_bytes


def test_near_the_end_no_slave_is_suggested(fs: MemoryFileSystem) -> None:
    result = get(filled(fs, 40), 0)
    assert not result.suggest_slave
    assert result.fall_behind_bytes > 0


def test_a_filter_scans_to_the_end_of_the_file(fs: MemoryFileSystem) -> None:
    store = open_store(fs, config())
    for i in range(120):
        tag = "A" if i % 20 == 19 else "B"
        put(store, i.to_bytes(4, "big"), properties_text=f"TAGS\x01{tag}")
    dispatch(store, fs)
    wanted = frozenset({ord("A")})
    assert bodies(get(store, 0, codes=wanted)) == [19, 39]
    assert get(store, 0, codes=wanted).next_begin_offset == 50
    assert get(store, 40, codes=wanted).status is GetStatus.NO_MATCHED_MESSAGE
    assert get(store, 40, codes=wanted).next_begin_offset == 50
    assert get(store, 0, 1, codes=wanted).next_begin_offset == 20
    assert get(store, 100, codes=wanted).next_begin_offset == 120


def test_a_filter_reads_at_most_800_entries(fs: MemoryFileSystem) -> None:
    store = open_store(fs, config(consume_queue_file_bytes=20 * 5000))
    put(store, *[b"...."] * 2000)
    dispatch(store, fs)

    nothing = frozenset({-1})
    assert get(store, 0, 32, codes=nothing).next_begin_offset == 800
    assert get(store, 0, 1000, codes=nothing).next_begin_offset == 1000
    assert get(store, 0, 5000, codes=nothing).next_begin_offset == 2000


def test_a_long_scan_is_not_for_a_loop(fs: MemoryFileSystem) -> None:
    store = open_store(fs, config(consume_queue_file_bytes=20 * 10_000))
    put(store, *[b"...."] * 5000)
    dispatch(store, fs)
    assert store.get_message(GetRequest(TOPIC, 0, 0, 5000, blocking=False)) is None
    assert get(store, 0, 5000).count == 32
    assert get(store, 0, 32, blocking=False).count == 32


def test_what_is_cold_is_left_to_a_thread(fs: MemoryFileSystem) -> None:
    store = filled(fs, 10)
    fs.cold = True
    assert store.get_message(GetRequest(TOPIC, 0, 0, 32, blocking=False)) is None
    assert get(store, 0).count == 10
    assert get(store, 10, blocking=False).status is GetStatus.OFFSET_OVERFLOW_ONE
    fs.cold = False
    assert get(store, 0, blocking=False).count == 10
    assert store.statistics()["get_cold_count"] == 1


class ColdDisk(MemoryFileSystem):
    """A disk on which nothing is in the page cache, and where each wait for it is counted."""

    waits_count = 0

    def pread(self, fd: int, length: int, position: int) -> bytes:
        self.waits_count += 1
        return super().pread(fd, length, position)

    def pread_into_nowait(self, fd: int, buffer: bytearray | memoryview, position: int) -> bool:
        return False


@pytest.mark.parametrize("offset", [0, 7, 10, 11])
def test_no_get_of_a_loop_waits_for_the_disk_even_if_the_queue_is_new_to_it(offset: int) -> None:
    fs = ColdDisk()
    store = filled(fs, 10)
    fs.waits_count = 0
    assert store.get_message(GetRequest(TOPIC, 0, offset, 32, blocking=False)) is None
    assert fs.waits_count == 0
    assert fs.descriptor_count <= len(store.log.files.files) + 1, "a queue left open"
    get(store, offset)
    assert fs.waits_count > 0


def numbered(*wanted: int) -> Callable[[bytes], bool]:
    """A filter by contents: records with these numbers pass."""
    return lambda record: int.from_bytes(decode_record(record).body[:4], "big") in wanted


def test_a_record_can_decide_by_its_contents(fs: MemoryFileSystem) -> None:
    store = filled(fs, 10)
    for blocking in (True, False):
        result = get(store, 2, match_record=numbered(1, 3, 7), blocking=blocking)
        assert (bodies(result), result.next_begin_offset) == ([3, 7], 10)
        none = get(store, 2, match_record=numbered(), blocking=blocking)
        assert (none.status, none.next_begin_offset) == (GetStatus.NO_MATCHED_MESSAGE, 10)


def test_a_batch_is_full_by_what_matched(fs: MemoryFileSystem) -> None:
    store = filled(fs, 60, consume_queue_file_bytes=20 * 100)
    result = get(store, 0, 4, match_record=numbered(*range(1, 60, 10)))
    assert bodies(result) == [1, 11, 21, 31]
    assert result.next_begin_offset == 32, (
        "what the last one compared past is not compared at again"
    )


def test_a_record_is_judged_only_if_its_entry_passed(fs: MemoryFileSystem) -> None:
    store = filled(fs, 5)
    seen: list[bytes] = []

    def judged(record: bytes) -> bool:
        seen.append(record)
        return True

    get(store, 0, codes=frozenset({1}), match_record=judged)
    assert seen == []
    get(store, 0, codes=frozenset({0}), match_record=judged)
    assert b"".join(seen) == b"".join(get(store, 0).frames)


def test_what_is_long_to_filter_is_left_to_a_thread(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(fs, 10)
    monkeypatch.setattr(reader, "LOOP_MATCHED_COUNT_MAX", 3)
    last = numbered(9)
    request = GetRequest(TOPIC, 0, 0, 32, match_record=last, blocking=False)
    assert store.get_message(request) is None
    assert bodies(get(store, 0, match_record=last)) == [9]
    assert bodies(get(store, 7, match_record=last, blocking=False)) == [9]


def test_large_records_are_left_to_a_thread_sooner(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "LOOP_MATCHED_COUNT_MAX", 4)
    store = filled(fs, 4, body_bytes=1_024)
    request = GetRequest(TOPIC, 0, 0, 32, match_record=numbered(3), blocking=False)
    assert store.get_message(request) is None
    assert bodies(get(store, 2, match_record=numbered(3), blocking=False)) == [3]


def test_a_record_that_is_cold_is_judged_by_a_thread(fs: MemoryFileSystem) -> None:
    store = filled(fs, 3)
    get(store, 0)
    fs.cold = True
    anything = numbered(0, 1, 2)
    request = GetRequest(TOPIC, 0, 0, 32, match_record=anything, blocking=False)
    assert store.get_message(request) is None
    assert get(store, 0, match_record=anything).count == 3


def test_a_filter_that_reads_extension_units_is_left_to_a_thread(fs: MemoryFileSystem) -> None:
    store = filled(fs, 10, enable_consume_queue_extension=True)
    anything = frozenset({0})
    request = GetRequest(TOPIC, 0, 0, 32, codes=anything, blocking=False)
    assert store.get_message(request) is None
    assert store.get_message(GetRequest(TOPIC, 0, 0, 32, codes=anything)) is not None
    assert get(store, 0, blocking=False).count == 10


def with_units(fs: MemoryFileSystem, bitmaps: list[bytes | None]) -> MessageStore:
    """A store whose queue's entries have units of these bitmaps, written at 100, 101, ...

    None: an entry that points to a unit that is not there.
    """
    store = filled(fs, len(bitmaps))
    paths = store.config.paths
    extension = ConsumeQueueExtWriter(
        fs,
        paths.consume_queue_extension(TOPIC, 0),
        file_bytes=1024,
        open_files=OpenFiles(),
        make_file=lambda path, size_bytes: write_file(fs, path, bytes(size_bytes)),
    )
    extension.recover(None)
    path = f"{paths.consume_queue(TOPIC, 0)}/{0:020d}"
    entries = b""
    for i, (bitmap, entry) in enumerate(zip(bitmaps, entries_of(fs, path), strict=False)):
        address = extension.put(i, 100 + i, bitmap or b"")
        entries += ENTRY.pack(*entry[:2], -(1 << 62) if bitmap is None else address)
    extension.write_pending()
    write_file(fs, path, entries.ljust(20 * FILE_ENTRIES, b"\0"))
    store.close(dispatch_behind_bytes=0)
    units: dict[str, object] = {
        "enable_consume_queue_extension": True,
        "consume_queue_extension_file_bytes": 1024,
    }
    store = open_store(fs, config(**units))
    store.set_dispatched(store.max_physical_offset)
    return store


def entries_of(fs: MemoryFileSystem, path: str) -> list[tuple[int, int, int]]:
    return list(ENTRY.iter_unpack(read_file(fs, path)))


def test_a_unit_can_decide(fs: MemoryFileSystem) -> None:
    store = with_units(fs, [b"a", b"b", b"", None, b"a"])
    seen = []

    def wants_a(store_timestamp_ms: int, bitmap: bytes) -> bool:
        seen.append((store_timestamp_ms, bitmap))
        return bitmap == b"a"

    # Nothing is known of the message whose unit is lost: it passes.
    assert bodies(get(store, 0, match_unit=wants_a)) == [0, 3, 4]
    assert seen == [(100, b"a"), (101, b"b"), (102, b""), (104, b"a")]
    both = get(store, 0, codes=frozenset({1, 4}), match_unit=wants_a)
    assert bodies(both) == [3, 4]
    none = get(store, 1, 1, codes=frozenset({0}), match_record=numbered(4))
    assert (none.status, none.next_begin_offset) == (GetStatus.NO_MATCHED_MESSAGE, 5)
    request = GetRequest(TOPIC, 0, 0, 32, match_unit=wants_a, blocking=False)
    assert store.get_message(request) is None


def test_without_units_an_entry_that_points_to_one_passes(fs: MemoryFileSystem) -> None:
    with_units(fs, [b"a", b"b"]).close(dispatch_behind_bytes=0)
    store = open_store(fs, config())
    store.set_dispatched(store.max_physical_offset)
    assert bodies(get(store, 0, codes=frozenset({1}))) == [0, 1]
    assert bodies(get(store, 0, codes=frozenset({1}), match_record=numbered(1))) == [1]


@pytest.mark.parametrize(
    ("count_max", "body_bytes", "count"), [(200, 10, 200), (5_000, 10, 1_000), (200, 20_000, 13)]
)
def test_a_batch_may_be_ended_by_its_bytes_alone(
    fs: MemoryFileSystem, count_max: int, body_bytes: int, count: int
) -> None:
    messages_count = 1_200 if body_bytes < 100 else 20
    store = filled(fs, messages_count, body_bytes, consume_queue_file_bytes=20 * 2_000)
    result = get(store, 0, count_max, by_bytes=True)
    assert bodies(result) == list(range(count))
    assert result.next_begin_offset == count
    one_by_one = get(store, 0, count_max, by_bytes=True, match_unit=lambda *_: True)
    assert joined(one_by_one) == joined(result)


def trim(store: MessageStore, physical_offset: int) -> None:
    """Remove segments below an offset, as Retention does."""
    files = commit_log_files(store._parts.fs, store.config, read_only=True)
    files.refresh()
    files.remove_before(physical_offset)
    store.log.files.forget_before(physical_offset)


@given(
    sizes=st.lists(st.integers(4, 900), min_size=1, max_size=FILE_ENTRIES + 10),
    offset=st.integers(0, 20),
    count_max=st.integers(0, 40),
    limits=st.tuples(st.integers(1, 5_000), st.integers(1, 40), st.integers(1, 40)),
    physical_memory_bytes=st.sampled_from([10_000, 1 << 30]),
    by_bytes=st.booleans(),
)
def test_choosing_at_once_is_choosing_one_by_one(
    sizes: list[int],
    offset: int,
    count_max: int,
    limits: tuple[int, int, int],
    physical_memory_bytes: int,
    by_bytes: bool,
) -> None:
    fs = MemoryFileSystem()
    bytes_max, memory_count, disk_count = limits
    settings = config(
        transfer_bytes_in_memory_max=bytes_max,
        transfer_count_in_memory_max=memory_count,
        transfer_count_in_disk_max=disk_count,
    )
    store = open_store(fs, settings)
    put(store, *[i.to_bytes(4, "big").ljust(size, b".") for i, size in enumerate(sizes)])
    dispatch(store, fs)
    readers = StoreReaders(fs, settings, physical_memory_bytes=physical_memory_bytes)
    log = store.log
    view = LogView(log.files.min_offset, log.committed_offset, log.committed_offset)
    at_once = GetRequest(TOPIC, 0, offset, count_max, by_bytes=by_bytes)
    one_by_one = at_once._replace(match_unit=lambda *_: True)
    with readers.lend() as some:
        assert joined(some.reader.get(at_once, view)) == joined(some.reader.get(one_by_one, view))


def test_get_statuses_have_the_names_of_4_9_3_which_clients_see() -> None:
    assert {status.name: status.value for status in GetStatus} == {
        status.name: status.name for status in GetStatus
    }
