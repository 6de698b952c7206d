"""Messages that are written and not dispatched: pulls see them as they will see them later."""

from random import Random
from typing import Final

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import dispatch, open_store, scan_log, store_config
from wakelog.dispatchers.consume_queue import ConsumeQueueDispatcher
from wakelog.dispatchers.dispatcher import DispatchBatch
from wakelog.protocol.sys_flag import (
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from wakelog.storage.config import BrokerRole
from wakelog.storage.log.append import MessageDraft
from wakelog.storage.message_store import MessageStore
from wakelog.storage.read import recent
from wakelog.storage.read.reader import GetRequest, GetResult, GetStatus

SEGMENT_BYTES: Final = 16_384
TOPICS: Final = ("a", "b", "%LMQ%x")
NOW_MS: Final = 1_700_000_000_000


def store_of(fs: MemoryFileSystem, **values: object) -> MessageStore:
    return open_store(fs, store_config(commit_log_file_bytes=SEGMENT_BYTES, **values))


def put_one(store: MessageStore, topic: str = "a", queue_id: int = 0, **values: object) -> int:
    """Put and write a message; return the end of the log."""
    draft = MessageDraft(topic, queue_id, b"body", **values)  # type: ignore[arg-type]
    store.put_message(draft, NOW_MS)
    return store.write_pending()


def get(store: MessageStore, topic: str, queue_id: int, offset: int, count: int = 32) -> GetResult:
    result = store.get_message(
        GetRequest(topic, queue_id, offset, count, recent=store.recent.find(topic, queue_id))
    )
    assert result is not None
    return result


def put_some(store: MessageStore, random: Random, number: int) -> None:
    """Put a message of any kind: plain, long, of a transaction, or for several queues."""
    kind = random.randrange(6)
    properties = f"TAGS\x01t{number % 3}\x02"
    if kind == 0:
        properties += "INNER_MULTI_DISPATCH\x01%LMQ%x,%LMQ%y\x02"
    flag = random.choice((TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK))
    draft = MessageDraft(
        random.choice(TOPICS[:2]),
        random.randrange(2),
        b"x" * random.choice((1, 30, 700)),
        properties_text=properties,
        sys_flag=flag if kind == 1 else 0,
    )
    store.put_message(draft, NOW_MS + number)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_not_dispatched_is_seen_as_it_will_be(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(recent, "SCAN_BYTES_MAX", 16_384)
    random, fs = Random(seed), MemoryFileSystem()
    store = store_of(fs, enable_multi_dispatch=True, enable_lmq=True)
    dispatcher = ConsumeQueueDispatcher(fs, store.config)
    places = [(topic, queue_id) for topic in (*TOPICS, "%LMQ%y") for queue_id in range(2)]
    number = compared = 0
    for _ in range(40):
        for _ in range(random.randrange(1, 9)):
            number += 1
            put_some(store, random, number)
        end = store.write_pending()
        assert store.recent.shows_all(end)
        seen = {
            (*place, offset): get(store, *place, offset)
            for place in places
            for offset in range(-1, 90, random.randrange(1, 7))
        }
        if not random.randrange(3):
            continue  # Reput falls behind
        begin = store.dispatched
        dispatcher.dispatch(
            DispatchBatch(begin, end, NOW_MS, requests=scan_log(fs, store.config, begin, end))
        )
        store.set_dispatched(end)
        for place, result in seen.items():
            later = get(store, *place)
            assert result.status is later.status, place
            if result.max_offset == later.max_offset:
                assert result == later, place
                compared += result.status is GetStatus.FOUND
            else:  # it was read from the files, up to their end
                assert b"".join(later.frames).startswith(b"".join(result.frames)), place
    assert compared > 100


def test_only_what_is_readable_is_seen(fs: MemoryFileSystem) -> None:
    store = store_of(fs)
    first_end = put_one(store)
    put_one(store)
    assert store.recent.shows_all(first_end)
    assert get(store, "a", 0, 0).count == 1
    assert get(store, "a", 0, 1).status is GetStatus.OFFSET_OVERFLOW_ONE


def test_what_became_readable_arrives_once(fs: MemoryFileSystem) -> None:
    store = store_of(fs)
    found = store.recent.arrivals(put_one(store, "a", 1, properties_text="TAGS\x01t\x02"))
    assert found is not None
    [arrival] = found
    assert (arrival.topic, arrival.queue_id, arrival.next_queue_offset) == ("a", 1, 1)
    assert arrival.tags_code == ord("t")
    assert store.recent.arrivals(store.max_physical_offset) == []
    put_one(store, "b", 0)
    [arrival] = store.recent.arrivals(put_one(store, "a", 1))[1:]  # type: ignore[index]
    assert (arrival.topic, arrival.next_queue_offset) == ("a", 2)


def test_much_at_once_is_left_to_reput(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "SCAN_BYTES_MAX", 400)
    store = store_of(fs)
    for _ in range(5):
        end = put_one(store)
    assert store.recent.arrivals(end) is None and not store.recent.shows_all(end)
    assert get(store, "a", 0, 0).status is GetStatus.NO_MESSAGE_IN_QUEUE
    end = put_one(store)
    assert store.recent.arrivals(end) is None, "the five before are still missing"
    assert store.recent.find("a", 0) is None
    for offset in (0, 5):
        assert get(store, "a", 0, offset).next_begin_offset == 0
    dispatch(store, fs)
    assert store.recent.shows_all(put_one(store)) and get(store, "a", 0, 6).count == 1


def test_entries_have_a_limit(fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "ENTRIES_MAX", 4)
    store = store_of(fs)
    for _ in range(4):
        assert store.recent.shows_all(put_one(store))
    before = store.max_physical_offset
    assert not store.recent.shows_all(put_one(store)), (
        "the limit is reached, and Reput stands still"
    )
    assert store.recent.find("a", 0) is None
    dispatch(store, fs, begin=0)
    for _ in range(3):
        assert store.recent.shows_all(put_one(store))
    store.set_dispatched(before)
    assert get(store, "a", 0, 5).count == 3


def test_the_files_take_over_one_entry_after_the_other(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "ENTRIES_MAX", 4)
    store = store_of(fs)
    ends = [put_one(store) for _ in range(3)]
    assert store.recent.shows_all(ends[-1])
    dispatch(store, fs)
    store.dispatched = ends[1]  # as if Reput had come so far
    for _ in range(2):
        assert store.recent.shows_all(put_one(store)), "dropped are those that the files have"
    found = store.recent.find("a", 0)
    assert found is not None and found.end == 5


def test_a_removed_topic_takes_its_entries_along(fs: MemoryFileSystem) -> None:
    store = store_of(fs)
    first_end = put_one(store)
    assert store.recent.shows_all(first_end) and store.recent.find("a", 0) is not None
    store.set_dispatched(first_end)
    end = put_one(store)  # not scanned before the removal
    removal = store.begin_removal(["a"])
    assert removal is not None and store.recent.find("a", 0) is None
    assert not store.recent.shows_all(end) and store.recent.find("a", 0) is None
    store.end_removal(removal, removed=True)
    store.set_dispatched(end)
    assert store.recent.shows_all(put_one(store))
    found = store.recent.find("a", 0)
    assert found is not None and found.begin == 0


def test_a_slave_leaves_all_to_reput(fs: MemoryFileSystem) -> None:
    end = put_one(store_of(fs))
    data = store_of(MemoryFileSystem())
    put_one(data)
    slave = store_of(MemoryFileSystem(), broker_role=BrokerRole.SLAVE)
    stored = data.record_bytes(0)
    assert stored is not None
    slave.append_bytes(0, stored, stored_ms=NOW_MS, now_ms=NOW_MS)
    assert slave.write_pending() == end
    assert not slave.recent.shows_all(end) and slave.recent.arrivals(end) is None


@pytest.mark.parametrize(("body_bytes", "is_shown"), [(5_000, True), (70_000, False)])
def test_a_long_record_that_comes_alone_is_shown(
    fs: MemoryFileSystem, body_bytes: int, *, is_shown: bool
) -> None:
    store = open_store(fs, store_config(commit_log_file_bytes=1 << 20))
    store.put_message(MessageDraft("a", 0, bytes(body_bytes)), NOW_MS)
    assert store.recent.shows_all(store.write_pending()) is is_shown
    assert get(store, "a", 0, 0).count == is_shown
    if is_shown:
        store.put_message(MessageDraft("a", 0, bytes(body_bytes)), NOW_MS)
        store.put_message(MessageDraft("a", 0, b"another"), NOW_MS)
        assert not store.recent.shows_all(store.write_pending()), "it does not come alone"
