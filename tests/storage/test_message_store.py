"""MessageStore: when it can be written, how far readers see, and several starts."""

import pytest

from tests.fakes.logs import batch_of, draft, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import (
    NOW_MS,
    dispatch,
    open_store,
    place_of,
    put,
    remove_queue_files,
    store_config,
)
from wakelog.protocol.sys_flag import TRANSACTION_PREPARED
from wakelog.storage.config import BrokerRole
from wakelog.storage.durability.deleted_topics import QueueRemoval
from wakelog.storage.errors import IllegalName, NotWriteable
from wakelog.storage.log.append import PutStatus
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.read.reader import GetRequest, GetStatus

TOPIC = "TopicTest"


def test_what_was_put_is_pulled_after_each_restart(fs: MemoryFileSystem) -> None:
    for start in range(4):
        store = open_store(fs, store_config())
        assert store.max_queue_offset(TOPIC, 0) == 10 * start
        results = put(store, *[b"%3d" % i * 100 for i in range(10)])
        assert [result.queue_offset for result in results] == list(
            range(10 * start, 10 * start + 10)
        )
        dispatch(store, fs)
        result = store.get_message(GetRequest(TOPIC, 0, 10 * start, 32))
        assert result is not None and result.status is GetStatus.FOUND
        assert result.last_physical_offset == results[-1].physical_offset
        assert store.close(dispatch_behind_bytes=0)
    assert fs.descriptor_count == 0


def test_a_kill_loses_no_message_and_gives_no_number_twice(fs: MemoryFileSystem) -> None:
    killed = open_store(fs, store_config())
    put(killed, b"one", b"two")
    dispatch(killed, fs)
    put(killed, b"three")
    killed._parts.lock.release()  # the kernel does, when the process dies
    store = open_store(fs.other_process(), store_config())
    assert not store.recovery.clean_exit
    assert put(store, b"four")[0].queue_offset == 3
    dispatch(store, fs)
    result = store.get_message(GetRequest(TOPIC, 0, 0, 32))
    assert result is not None and (result.count, result.max_offset) == (4, 4)


def test_nothing_is_appended_before_it_is_written(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    result = store.put_message(draft(b"one"), NOW_MS)
    assert (result.status, store.max_physical_offset) == (PutStatus.PUT_OK, 0)
    assert store.write_pending() == result.physical_offset_end == store.max_physical_offset


def test_a_batch_is_placed_as_one(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    result = store.put_batch(batch_of([draft(b"one"), draft(b"two"), draft(b"three")]), NOW_MS)
    store.write_pending()
    assert (result.status, result.queue_offset, len(result.physical_offsets)) == (
        PutStatus.PUT_OK,
        0,
        3,
    )
    bodies = []
    for place in result.physical_offsets:
        record = store.message_at(place)
        assert record is not None
        bodies.append(record.body)
    assert bodies == [b"one", b"two", b"three"]


def test_a_slave_takes_its_masters_bytes_unless_the_disk_is_full(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config(broker_role=BrokerRole.SLAVE))
    store.append_bytes(0, b"abc", stored_ms=7, now_ms=NOW_MS)
    store.append_bytes(3, b"de", stored_ms=0, now_ms=NOW_MS)
    assert (store.write_pending(), store.last_store_timestamp_ms) == (5, 7)
    assert store.log.files.files[0].read(0, 6) == b"abcde\0"
    store.set_disk_full(True)
    with pytest.raises(NotWriteable, match="the disk is full"):
        store.append_bytes(5, b"f", stored_ms=0, now_ms=NOW_MS)
    assert store.log.end_offset == 5
    store.close(dispatch_behind_bytes=1)


def test_readers_see_no_further_than_the_log_goes(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    put(store, b"one")
    store.set_dispatched(1 << 40)
    assert store.dispatched == store.max_physical_offset
    store.set_dispatched(0)
    assert store.dispatched == store.max_physical_offset


def test_a_slave_takes_no_messages(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config(broker_role=BrokerRole.SLAVE))
    for result in (
        store.put_message(draft(b"one"), NOW_MS),
        store.put_batch(batch_of([draft(b"one")]), NOW_MS),
    ):
        assert result.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert (store.writable, store.statistics()["put_failed_count"]) == (False, 2)
    assert store.close(dispatch_behind_bytes=0)


def test_a_full_disk_refuses_until_there_is_room(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    store.set_disk_full(True)
    assert (store.writable, store.disk_full) == (False, True)
    assert store.put_message(draft(b"one"), NOW_MS).status is PutStatus.SERVICE_NOT_AVAILABLE
    store.set_disk_full(False)
    assert store.put_message(draft(b"one"), NOW_MS).status is PutStatus.PUT_OK


def test_after_a_failed_write_nothing_more_is_taken(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    put(store, b"one")
    store.put_message(draft(b"two"), NOW_MS)
    fs.fail("pwritev")
    with pytest.raises(NotWriteable):
        store.write_pending()
    assert not store.writable
    assert store.put_message(draft(b"three"), NOW_MS).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert not store.close(dispatch_behind_bytes=0)


def test_messages_without_consumers_delay_nothing(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    put(store, b"half", sys_flag=TRANSACTION_PREPARED)
    put(store, b"one")
    assert store.close(dispatch_behind_bytes=1) is False
    store = open_store(fs, store_config())
    assert store.recovery.queue_offsets == {(TOPIC, 0): 1}


def test_entries_can_be_listed(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    results = put(store, *[b"...."] * 60, properties_text="TAGS\x01A")
    dispatch(store, fs)
    listed = store.consume_queue_entries(TOPIC, 0, 10, 1000)
    assert listed == [(r.physical_offset, r.size_bytes, ord("A")) for r in results[10:50]]
    assert len(store.consume_queue_entries(TOPIC, 0, 55, 1000)) == 5
    for begin, count in [(60, 1), (0, 0), (-1, 5)]:
        assert store.consume_queue_entries(TOPIC, 0, begin, count) == []
    assert store.consume_queue_entries("Nobody", 0, 0, 5) == []
    assert store.extension_unit(TOPIC, 0, -(1 << 63)) is None


def test_places_and_memory(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config(), physical_memory_bytes=1000)
    results = put(store, *[b"x" * 100] * 5)
    dispatch(store, fs)
    for i, result in enumerate(results):
        assert place_of(store, TOPIC, 0, i) == result.physical_offset
        near = store.max_physical_offset - result.physical_offset <= 400
        assert store.in_memory_at(TOPIC, 0, i) == near
    assert place_of(store, TOPIC, 0, 99) == 0
    assert store.in_memory_at(TOPIC, 0, 99) and store.in_memory_at("Nobody", 0, 0)


def test_queues_on_disk_are_listed(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    for topic, queue_id in [("B", 0), ("A", 3), ("A", 0)]:
        put(store, b"one", topic=topic, queue_id=queue_id)
    dispatch(store, fs)
    assert store.queues() == {"A": [0, 3], "B": [0]}


def test_queues_that_a_topic_has_no_more_are_named_while_they_have_messages(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(fs, store_config())
    for queue_id in (0, 2, 3, 5):
        put(store, b"one", b"two", queue_id=queue_id)
    dispatch(store, fs)
    assert store.queues_beyond(TOPIC, 0) == {0: 2, 2: 2, 3: 2, 5: 2}
    assert store.queues_beyond(TOPIC, 3) == {3: 2, 5: 2}
    assert store.queues_beyond(TOPIC, 6) == store.queues_beyond("Never", 0) == {}
    begins = {3: 2, 5: 1}
    monkeypatch.setattr(store, "min_queue_offset", lambda _topic, queue_id: begins[queue_id])
    assert store.queues_beyond(TOPIC, 3) == {5: 2}, "the messages of queue 3 have expired"


def test_a_deleted_topic_begins_again_at_0(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    put(store, b"one", b"two")
    put(store, b"other", topic="Other")
    dispatch(store, fs)
    assert store.max_queue_offset(TOPIC, 0) == 2
    directory = store.config.paths.consume_queue(TOPIC, 0)
    for name in fs.list_directory(directory):
        fs.unlink(f"{directory}/{name}")
    removal = store.begin_removal([TOPIC])
    assert removal == QueueRemoval((TOPIC,), (), store.max_physical_offset)
    assert store.begin_removal([TOPIC, "Never"]) is None  # under way
    refused = store.put_message(draft(b"early"), NOW_MS)
    assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE and refused.cause
    assert (
        store.put_batch(batch_of([draft(b"early")]), NOW_MS).status
        is PutStatus.SERVICE_NOT_AVAILABLE
    )
    store.end_removal(removal, removed=True)
    assert (store.max_queue_offset(TOPIC, 0), store.max_queue_offset("Other", 0)) == (0, 1)
    assert put(store, b"new")[0].queue_offset == 0


def test_a_topic_whose_removal_failed_goes_on(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    put(store, b"one", b"two")
    removal = store.begin_removal([TOPIC])
    assert removal is not None
    store.end_removal(removal, removed=False)
    assert put(store, b"three")[0].queue_offset == 2


def test_expired_queues_are_those_whose_last_message_is_gone(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    put(store, b"old", topic="Old")
    put(store, b"old", topic="Both")
    put(store, *[b"x" * 1000] * 12)
    put(store, b"new", topic="Both")
    dispatch(store, fs)
    assert store.expired_queues() == {}
    files = commit_log_files(fs, store.config, read_only=True)
    files.refresh()
    files.remove_before(2 * 4096)
    store.log.files.forget_before(2 * 4096)
    expired = store.expired_queues()
    assert expired == {("Old", 0): 1}
    removal = store.begin_removal([], expired)
    assert removal is not None
    assert (removal.topics, removal.queues) == ((), (("Old", 0),))
    store.end_removal(removal, removed=True)
    assert put(store, b"again", topic="Old")[0].queue_offset == 0


def test_a_queue_that_got_a_message_since_has_not_expired(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    put(store, b"one", b"two")
    assert store.begin_removal([], {(TOPIC, 0): 1}) is None
    assert put(store, b"three")[0].queue_offset == 2


def test_removed_segments_move_the_begin(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    put(store, *[b"x" * 1000] * 12)
    dispatch(store, fs)
    files = commit_log_files(fs, store.config, read_only=True)
    files.refresh()
    files.remove_before(2 * 4096)
    store.log.files.forget_before(2 * 4096)
    remove_queue_files(fs, store.config, (TOPIC, 0), 2 * 4096)
    assert store.min_physical_offset == 2 * 4096
    assert place_of(store, TOPIC, 0, store.min_queue_offset(TOPIC, 0)) == 2 * 4096


def test_illegal_names_reach_no_path(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    with pytest.raises(IllegalName):
        store.get_message(GetRequest("../secret", 0, 0, 32))
    with pytest.raises(IllegalName):
        store.max_queue_offset(TOPIC, -1)
    assert store.put_message(draft(b"x", topic="a/b"), NOW_MS).status is PutStatus.MESSAGE_ILLEGAL


def test_it_counts_what_it_did(fs: MemoryFileSystem) -> None:
    store = open_store(fs, store_config())
    results = put(store, b"one", b"two")
    dispatch(store, fs)
    store.get_message(GetRequest(TOPIC, 0, 0, 32))
    store.get_message(GetRequest(TOPIC, 0, 2, 32))
    counted = store.statistics()
    put_bytes = sum(result.size_bytes for result in results)
    assert (counted["put_count"], counted["put_bytes"]) == (2, put_bytes)
    assert (counted["get_found_count"], counted["get_missed_count"]) == (1, 1)
    assert (counted["get_message_count"], counted["get_message_bytes"]) == (2, put_bytes)
    assert counted["max_physical_offset"] == counted["dispatched"] == put_bytes


def test_a_topic_that_grows_is_named_until_all_of_the_log_may_be_read(
    fs: MemoryFileSystem,
) -> None:
    store = open_store(fs, store_config())
    first = put(store, b"one", topic="T")[0]
    second = put(store, b"two", topic="U")[0]
    assert store.take_grown(first.physical_offset_end) == {"T", "U"}
    assert store.take_grown(second.physical_offset_end) == {"T", "U"}
    assert store.take_grown(second.physical_offset_end) == set()
    store.put_batch(batch_of([draft(b"three", topic="V"), draft(b"four", topic="V")]), NOW_MS)
    assert store.take_grown(second.physical_offset_end) == {"V"}
    assert store.take_grown(store.write_pending()) == {"V"}
    assert store.take_grown(store.max_physical_offset) == set()


def test_a_disk_that_refuses_to_say_what_is_kept_aside_is_no_error(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(fs, store_config())
    write_file(fs, f"{store.config.paths.root}/wakelog.quarantine/7.1", b"cut")
    assert store.quarantined() == (1, 3)

    def refuse(path: str) -> list[str]:
        raise PermissionError(path)

    monkeypatch.setattr(fs, "list_directory", refuse)
    assert store.quarantined() == (0, 0)
    monkeypatch.undo()
    assert store.close(dispatch_behind_bytes=0)


@pytest.mark.parametrize("is_slave", [False, True])
@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("cause", [None, "it drains"])
def test_puts_are_taken_only_where_nothing_speaks_against_it(
    fs: MemoryFileSystem, is_slave: bool, is_closed: bool, is_full: bool, cause: str | None
) -> None:
    role = BrokerRole.SLAVE if is_slave else BrokerRole.ASYNC_MASTER
    store = open_store(fs, store_config(broker_role=role))
    if is_closed:
        store.close(dispatch_behind_bytes=0)
    store.refuse_puts(cause)
    store.set_disk_full(is_full)
    accepts = not (is_slave or is_closed or is_full or cause)
    result = store.put_message(draft(b"one"), NOW_MS)
    assert store.writable == accepts == (result.status is PutStatus.PUT_OK)
    assert result.cause == cause or cause is None
