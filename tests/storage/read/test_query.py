"""Messages found by place, by key and by time."""

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import NOW_MS, dispatch, open_store, place_of, put, store_config
from wakelog.protocol.record import BODY_SIZE_OFFSET_V4, decode_record
from wakelog.storage.message_store import MessageStore

TOPIC = "TopicTest"
LONG_AFTER_MS = NOW_MS + 10**9


@pytest.fixture
def store(fs: MemoryFileSystem) -> MessageStore:
    """Twelve messages one second apart: one with key k0, two with k1, ..."""
    store = open_store(fs, store_config())
    for i in range(12):
        keys = f"KEYS\x01k{i // 3} all"
        put(store, b"%d" % i, properties_text=keys, now_ms=NOW_MS + 1000 * i)
    dispatch(store, fs)
    return store


def places(store: MessageStore) -> list[int]:
    return [place_of(store, TOPIC, 0, i) for i in range(12)]


def test_a_record_is_found_by_its_place(store: MessageStore) -> None:
    for i, place in enumerate(places(store)):
        record = store.message_at(place)
        assert record is not None and record.body == b"%d" % i
        raw = store.record_bytes(place, record.size_bytes)
        assert raw is not None and decode_record(raw) == record


def test_without_waiting_a_record_is_found_that_is_short(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config(commit_log_file_bytes=1 << 20))
    shorts = put(store, *(b"x" * size for size in (1, 3_900, 4_000, 4_096, 15_000)))
    (long,) = put(store, b"x" * 17_000)
    for short in shorts:
        found = store.message_at_nowait(short.physical_offset)
        assert found is not None and found == store.message_at(short.physical_offset)
    assert store.message_at_nowait(long.physical_offset) is None
    for place in (-1, short.physical_offset + 1, store.max_physical_offset, 1 << 62):
        assert store.message_at_nowait(place) is None
    fs.cold = True
    assert store.message_at_nowait(short.physical_offset) is None


def test_a_held_record_is_seen_if_that_is_asked(store: MessageStore) -> None:
    place = places(store)[-1]
    store.held_end = place
    for read in (store.message_at, store.message_at_nowait):
        assert read(place) is None
        record = read(place, sees_held=True)
        assert record is not None and record.body == b"11"


def test_a_made_up_place_gives_nothing(store: MessageStore) -> None:
    first, second = places(store)[:2]
    for place in (-1, first + 1, second - 4, store.max_physical_offset, 1 << 62):
        assert store.message_at(place) is None
        assert store.record_bytes(place) is None
    assert store.record_bytes(first, 4) is None


def test_a_record_of_many_pages_is_found(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config(commit_log_file_bytes=1 << 20))
    (result,) = put(store, b"x" * 100_000)
    record = store.message_at(result.physical_offset)
    assert record is not None and len(record.body) == 100_000


def test_a_changed_body_is_not_handed_out(fs: MemoryFileSystem, store: MessageStore) -> None:
    place = places(store)[3]
    file = store.log.files.files[0]
    file.write(place + BODY_SIZE_OFFSET_V4 + 4, b"?")
    assert store.record_bytes(place) is None
    assert store.store_time_at(TOPIC, 0, 3) == NOW_MS + 3000
    assert store.message_at_nowait(place) is None


def test_keys_are_found_in_the_order_of_the_log(store: MessageStore) -> None:
    every = places(store)
    for i in range(4):
        found = store.query_message(TOPIC, f"k{i}", 32, 0, LONG_AFTER_MS)
        assert list(found.physical_offsets) == every[3 * i : 3 * i + 3]
        bodies = [decode_record(frame).body for frame in found.frames]
        assert bodies == [b"%d" % n for n in range(3 * i, 3 * i + 3)]
    assert found.index_last_update_timestamp_ms == NOW_MS + 11_000
    assert found.index_last_update_physical_offset == every[11]


def test_a_query_gets_the_newest_up_to_its_count(store: MessageStore) -> None:
    found = store.query_message(TOPIC, "all", 5, 0, LONG_AFTER_MS)
    assert list(found.physical_offsets) == places(store)[7:]


def test_a_query_is_bounded_in_time(store: MessageStore) -> None:
    found = store.query_message(TOPIC, "all", 32, NOW_MS + 2000, NOW_MS + 4000)
    assert list(found.physical_offsets) == places(store)[2:5]


def test_an_unknown_key_gives_nothing(store: MessageStore) -> None:
    found = store.query_message(TOPIC, "nobody", 32, 0, LONG_AFTER_MS)
    assert found == ((), (), 0, 0)


def test_what_the_log_has_no_more_is_left_out(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    for i in range(12):
        put(store, b"x" * 1000, properties_text="KEYS\x01k", now_ms=NOW_MS + 1000 * i)
    dispatch(store, fs)
    every = places(store)
    fs.unlink(store.log.files.files[0].path)
    store.log.files.forget_before(4096)
    found = store.query_message(TOPIC, "k", 32, 0, LONG_AFTER_MS)
    assert list(found.physical_offsets) == [place for place in every if place >= 4096]


@pytest.mark.parametrize(
    ("after_ms", "queue_offset"),
    [
        (-5000, 0),  # before the first: the first
        (0, 0),
        (1400, 1),  # the nearer neighbour
        (1600, 2),
        (1500, 1),  # of equal ones the left
        (11_000, 11),
    ],
)
def test_a_time_gives_the_nearest_message(
    fs: MemoryFileSystem, store: MessageStore, after_ms: int, queue_offset: int
) -> None:
    path = f"{store.config.paths.consume_queue(TOPIC, 0)}/{0:020d}"
    fs.set_modified_ms(path, NOW_MS + 20_000)
    assert store.offset_by_time(TOPIC, 0, NOW_MS + after_ms) == queue_offset


def test_times_of_messages_and_queues(store: MessageStore) -> None:
    assert store.store_time_at(TOPIC, 0, 5) == NOW_MS + 5000
    assert store.store_time_at(TOPIC, 0, 12) == store.store_time_at(TOPIC, 0, -1) == -1
    assert store.store_time_at("Nobody", 0, 0) == -1
    assert store.earliest_store_time(TOPIC, 0) == NOW_MS
    assert store.earliest_store_time("Nobody", 0) == -1
    assert store.offset_by_time("Nobody", 0, NOW_MS) == 0


def test_a_query_goes_further_back_when_the_newest_are_damaged(
    fs: MemoryFileSystem, store: MessageStore
) -> None:
    every = places(store)
    for place in every[6:]:
        file = store.log.files.find(place)
        assert file is not None
        file.write(place - file.start_offset + BODY_SIZE_OFFSET_V4 + 4, b"?")
    found = store.query_message(TOPIC, "all", 6, 0, LONG_AFTER_MS)
    assert list(found.physical_offsets) == every[1:6]
