"""Which records get an entry in which queue; restarts, cuts, removal."""

import errno
from contextlib import closing

import pytest

from tests.dispatchers.stores import batch_of, dispatch_config, queue_entries
from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import LogBytes, properties
from wakelog.compiled.columns import ScanFunctions
from wakelog.compiled.layout import ENTRY_BYTES
from wakelog.dispatchers import consume_queue
from wakelog.dispatchers.consume_queue import (
    FILES_AHEAD_COUNT,
    ConsumeQueueDispatcher,
)
from wakelog.dispatchers.sync_files import sync_files
from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability import deleted_topics
from wakelog.storage.durability.deleted_topics import (
    QueueRemoval,
    TooManyDeleted,
    read_deleted_topics,
)
from wakelog.storage.durability.dispatched import DispatchedFile, IndexEnd
from wakelog.storage.errors import StoreFull

CONFIG = dispatch_config()
LMQ = dispatch_config(enable_multi_dispatch=True, enable_lmq=True)


def log_of_queues() -> LogBytes:
    log = LogBytes()
    for i in range(6):
        log.add(properties(TAGS="t"), topic="AB"[i % 2], queue_id=i % 3, queue_offset=i // 6)
    return log


def test_each_record_in_its_queue(fs: MemoryFileSystem, functions: ScanFunctions | None) -> None:
    log = log_of_queues()
    ConsumeQueueDispatcher(fs, CONFIG).dispatch(batch_of(log, functions))
    found = {
        (topic, queue_id): [entry[0] for entry in queue_entries(fs, CONFIG, topic, queue_id)]
        for topic in "AB"
        for queue_id in range(3)
    }
    assert found == {("AB"[i % 2], i % 3): [log.offsets[i]] for i in range(6)}


@pytest.mark.parametrize(("sys_flag", "count"), [(0, 1), (4, 0), (8, 1), (12, 0), (0x31, 1)])
def test_prepared_and_rolled_back_messages_get_none(
    fs: MemoryFileSystem, functions: ScanFunctions | None, sys_flag: int, count: int
) -> None:
    log = LogBytes()
    log.add(sys_flag=sys_flag)
    ConsumeQueueDispatcher(fs, CONFIG).dispatch(batch_of(log, functions))
    assert len(queue_entries(fs, CONFIG, "T")) == count


def test_a_delayed_message_has_its_time_of_delivery(
    fs: MemoryFileSystem, functions: ScanFunctions | None
) -> None:
    log = LogBytes()
    log.add(properties(DELAY="1", TAGS="a"), topic=SCHEDULE_TOPIC, store_timestamp_ms=5000)
    ConsumeQueueDispatcher(fs, CONFIG).dispatch(batch_of(log, functions))
    [(_, _, tags_code)] = queue_entries(fs, CONFIG, SCHEDULE_TOPIC)
    assert tags_code == 6000


def test_further_queues_in_log_order(fs: MemoryFileSystem, functions: ScanFunctions | None) -> None:
    log = LogBytes()
    multi = properties(INNER_MULTI_DISPATCH="%LMQ%a,B", INNER_MULTI_QUEUE_OFFSET="0,1")
    log.add(topic="B", queue_id=2, queue_offset=0)
    log.add(multi, topic="A", queue_id=2, queue_offset=0)
    log.add(topic="B", queue_id=2, queue_offset=2)
    ConsumeQueueDispatcher(fs, LMQ).dispatch(batch_of(log, functions))
    assert [entry[0] for entry in queue_entries(fs, LMQ, "A", 2)] == [log.offsets[1]]
    assert [entry[0] for entry in queue_entries(fs, LMQ, "%LMQ%a", 0)] == [log.offsets[1]]
    assert [entry[0] for entry in queue_entries(fs, LMQ, "B", 2)] == log.offsets


def test_further_queues_only_where_enabled(
    fs: MemoryFileSystem, functions: ScanFunctions | None
) -> None:
    log = LogBytes()
    log.add(properties(INNER_MULTI_DISPATCH="%LMQ%a", INNER_MULTI_QUEUE_OFFSET="0"))
    ConsumeQueueDispatcher(fs, CONFIG).dispatch(batch_of(log, functions))
    assert queue_entries(fs, CONFIG, "%LMQ%a") == []


@pytest.mark.parametrize("topic", ["../../etc", "", "a/b", "ü", "a\0b"])
def test_a_name_that_may_not_become_a_path_is_left_out(
    fs: MemoryFileSystem, functions: ScanFunctions | None, topic: str
) -> None:
    log = LogBytes()
    log.add(topic=topic)
    log.add(topic="T", queue_id=-1)
    log.add(topic="T")
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    dispatcher.dispatch(batch_of(log, functions))
    assert dispatcher.statistics()["illegal_names_count"] == 2
    assert len(queue_entries(fs, CONFIG, "T")) == 1
    assert fs.list_directory("/store/consumequeue") == ["T"]


def test_again_changes_nothing(fs: MemoryFileSystem, functions: ScanFunctions | None) -> None:
    log = LogBytes()
    for i in range(8):
        log.add(queue_offset=i)
    for _ in range(2):
        dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
        dispatcher.recover(log.end)
        dispatcher.dispatch(batch_of(log, functions))
        dispatcher.dispatch(batch_of(log, functions, begin=log.offsets[5]))
        assert [entry[0] for entry in queue_entries(fs, CONFIG, "T")] == log.offsets
        dispatcher.close()
    assert dispatcher.statistics()["queues_count"] == 0


def test_recover_says_where_the_queues_end(fs: MemoryFileSystem) -> None:
    log = log_of_queues()
    assert ConsumeQueueDispatcher(fs, CONFIG).recover(log.end) == 0
    ConsumeQueueDispatcher(fs, CONFIG).dispatch(batch_of(log))
    write_file(fs, "/store/wakelog.new.reput.x", b"half made")
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    assert dispatcher.recover(log.end) == log.end
    assert dispatcher.statistics()["queues_count"] == 6
    assert fs.list_directory("/store") == ["consumequeue"]


def test_recover_forgets_what_the_log_no_longer_has(fs: MemoryFileSystem) -> None:
    log = log_of_queues()
    ConsumeQueueDispatcher(fs, CONFIG).dispatch(batch_of(log))
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    assert dispatcher.recover(log.offsets[4]) == log.offsets[4]
    assert dispatcher.truncate(log.offsets[1]) == log.offsets[1]
    assert [len(queue_entries(fs, CONFIG, "A", i)) for i in range(3)] == [1, 0, 0]


def test_flush_syncs_what_was_written_once(fs: MemoryFileSystem) -> None:
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    dispatcher.dispatch(batch_of(log_of_queues()))
    fs.calls.clear()
    sync_files(fs, dispatcher.prepare_flush().paths)
    assert fs.calls["datasync"] == 6
    sync_files(fs, dispatcher.prepare_flush().paths)
    assert fs.calls["datasync"] == 6


def test_names_wait_for_the_flush(fs: MemoryFileSystem) -> None:
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    dispatcher.dispatch(batch_of(log_of_queues()))
    assert fs.calls["sync_directory"] == 0
    directories = ["/", "/store", "/store/consumequeue", "/store/consumequeue/A"]
    named = dispatcher.prepare_flush().directories
    assert set(directories) < set(named) and len(named) == len(set(named))
    assert dispatcher.prepare_flush().directories == []


def test_a_first_message_waits_for_no_sync_where_files_were_made_ahead(
    fs: MemoryFileSystem,
) -> None:
    log = LogBytes()
    for i in range(FILES_AHEAD_COUNT + 1):
        log.add(queue_id=i)
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    dispatcher.make_ahead()
    fs.calls.clear()
    dispatcher.dispatch(batch_of(log))
    assert (fs.calls["sync"], fs.calls["sync_directory"]) == (1, 0)
    assert all(len(queue_entries(fs, CONFIG, "T", i)) == 1 for i in range(5))
    dispatcher.make_ahead()
    dispatcher.close()
    assert fs.list_directory("/store") == ["consumequeue"]


@pytest.mark.parametrize("count", [1, 2, 8, 11])
def test_the_files_of_new_queues_are_made_together(
    fs: MemoryFileSystem,
    functions: ScanFunctions | None,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = LogBytes()
    for i in range(2 * count):
        log.add(queue_id=i % count, queue_offset=i // count)
    monkeypatch.setattr(consume_queue, "FILES_TOGETHER_MAX", 8)
    synced: list[int] = []
    monkeypatch.setattr(fs, "sync_all", lambda fds: synced.append(len(fds)))
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    dispatcher.dispatch(batch_of(log, functions))
    left = count
    expected = []
    while left > 1:
        expected.append(min(left, 8))
        left -= expected[-1]
    assert synced == expected
    assert all(len(queue_entries(fs, CONFIG, "T", i)) == 2 for i in range(count))
    synced.clear()
    dispatcher.dispatch(batch_of(log, functions))
    assert synced == []
    dispatcher.close()
    assert fs.list_directory("/store") == ["consumequeue"]


def test_a_full_disk_leaves_none_of_the_files_that_were_made_together(
    fs: MemoryFileSystem,
) -> None:
    log = LogBytes()
    for i in range(10):
        log.add(queue_id=i)
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    for nth in (10, 11):  # of the fifth of those together, then of one alone
        fs.fail("truncate", nth=nth, number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        dispatcher.dispatch(batch_of(log))
    dispatcher.close()
    assert [name for name in fs.list_directory("/store") if "ahead" in name] == []


def test_files_made_ahead_do_not_outlive_a_recovery(fs: MemoryFileSystem) -> None:
    ConsumeQueueDispatcher(fs, CONFIG).make_ahead()
    assert len(fs.list_directory("/store")) == FILES_AHEAD_COUNT
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    dispatcher.make_ahead()
    dispatcher.recover(0)
    assert fs.list_directory("/store") == []
    dispatcher.dispatch(batch_of(log_of_queues()))
    assert fs.list_directory("/store/consumequeue") == ["A", "B"]


def test_a_later_file_waits_for_the_names_before_it(fs: MemoryFileSystem) -> None:
    """Without its first file a queue would look as if retention had trimmed it."""
    log = LogBytes()
    for i in range(3):
        log.add(queue_offset=i)
    config = dispatch_config(consume_queue_file_bytes=2 * ENTRY_BYTES)
    dispatcher = ConsumeQueueDispatcher(fs, config)
    dispatcher.dispatch(batch_of(log))
    assert len(fs.list_directory("/store/consumequeue/T/0")) == 2
    assert fs.calls["sync_directory"] == 2


def test_a_flush_makes_durable_what_a_killed_writer_left(fs: MemoryFileSystem) -> None:
    log = log_of_queues()
    ConsumeQueueDispatcher(fs, CONFIG).dispatch(batch_of(log))
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    dispatcher.recover(log.end)
    part = dispatcher.prepare_flush()
    assert len(part.paths) == 6
    queue = "/store/consumequeue/A/0"
    names = {queue, "/store/consumequeue/A", "/store/consumequeue", "/store"}
    assert names < set(part.directories)


def test_a_flush_makes_durable_the_units_that_a_killed_writer_left(fs: MemoryFileSystem) -> None:
    config = dispatch_config(
        enable_consume_queue_extension=True, consume_queue_extension_file_bytes=1024
    )
    log = log_of_queues()
    ConsumeQueueDispatcher(fs, config).dispatch(batch_of(log))
    dispatcher = ConsumeQueueDispatcher(fs, config)
    dispatcher.recover(log.end)
    part = dispatcher.prepare_flush()
    units = "/store/consumequeue_ext/A/0"
    assert f"{units}/{0:020}" in part.paths
    names = {units, "/store/consumequeue_ext/A", "/store/consumequeue_ext"}
    assert names < set(part.directories)


def removal(*topics: str, end: int = 1 << 30) -> QueueRemoval:
    return QueueRemoval(topics, (), end)


def test_a_topic_is_removed(fs: MemoryFileSystem) -> None:
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    dispatcher.dispatch(batch_of(log_of_queues()))
    assert dispatcher.remove_queues(removal("A")) == 3
    assert dispatcher.remove_queues(removal("Unknown")) == 0
    assert fs.list_directory("/store/consumequeue") == ["B"]
    assert dispatcher.queue("A", 0) is None
    assert dispatcher.queue("B", 1) is not None


def test_the_extensions_of_a_topic_go_with_it(fs: MemoryFileSystem) -> None:
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    dispatcher.dispatch(batch_of(log_of_queues()))
    for topic in ("A", "B"):
        directory = CONFIG.paths.consume_queue_extension(topic, 0)
        fs.make_directories(directory)
        fs.close(fs.open(f"{directory}/{0:020}", create=True))
    dispatcher.remove_queues(removal("A"))
    assert fs.list_directory("/store/consumequeue_ext") == ["B"]


def test_a_topic_that_comes_back_has_units_of_its_own(
    fs: MemoryFileSystem, functions: ScanFunctions | None
) -> None:
    config = dispatch_config(
        enable_consume_queue_extension=True, consume_queue_extension_file_bytes=1024
    )
    dispatcher = ConsumeQueueDispatcher(fs, config)
    dispatcher.dispatch(batch_of(log_of_queues(), functions))
    before = queue_entries(fs, config, "A")
    dispatcher.remove_queues(removal("A", end=log_of_queues().end))
    assert fs.list_directory("/store/consumequeue_ext") == ["B"]
    log = log_of_queues()
    log.add(properties(TAGS="t"), topic="A")
    dispatcher.dispatch(batch_of(log, functions))
    assert [entry[0] for entry in queue_entries(fs, config, "A")] == [log.offsets[-1]]
    assert {tags_code for _, _, tags_code in before} == {-(1 << 63)}
    assert queue_entries(fs, config, "A")[0][2] == -(1 << 63)
    dispatcher.close()
    assert fs.descriptor_count == 0


@pytest.mark.parametrize("reopened", [False, True])
def test_records_of_a_deleted_topic_are_not_dispatched_again(
    fs: MemoryFileSystem, functions: ScanFunctions | None, reopened: bool
) -> None:
    """A crash makes dispatch begin below them; new messages of the name begin at 0."""
    log = LogBytes()
    for i in range(3):
        log.add(queue_offset=i)
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    dispatcher.dispatch(batch_of(log, functions))
    assert dispatcher.remove_queues(removal("T", end=log.end)) == 1
    assert not fs.exists("/store/consumequeue/T")
    for i in range(2):
        log.add(queue_offset=i)
    log.add(topic="Other")
    if reopened:
        dispatcher.close()
        dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
        dispatcher.recover(log.end)
    dispatcher.dispatch(batch_of(log, functions))
    assert [entry[0] for entry in queue_entries(fs, CONFIG, "T")] == log.offsets[3:5]
    assert [entry[0] for entry in queue_entries(fs, CONFIG, "Other")] == log.offsets[5:]
    dispatcher.remove_before(log.offsets[2])
    assert read_deleted_topics(fs, CONFIG.paths) == {"T": log.offsets[3]}
    dispatcher.remove_before(log.offsets[3])
    assert read_deleted_topics(fs, CONFIG.paths) == {}


def test_a_light_queue_of_a_deleted_name_gets_no_entry(
    fs: MemoryFileSystem, functions: ScanFunctions | None
) -> None:
    log = LogBytes()
    log.add(properties(INNER_MULTI_DISPATCH="%LMQ%a,B", INNER_MULTI_QUEUE_OFFSET="0,0"))
    dispatcher = ConsumeQueueDispatcher(fs, LMQ)
    dispatcher.remove_queues(removal("%LMQ%a", end=log.end))
    dispatcher.dispatch(batch_of(log, functions))
    assert sorted(fs.list_directory("/store/consumequeue")) == ["B", "T"]


def test_single_queues_are_removed(fs: MemoryFileSystem) -> None:
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    dispatcher.dispatch(batch_of(log_of_queues()))
    assert dispatcher.remove_queues(QueueRemoval((), (("A", 0), ("B", 9)), 1 << 30)) == 1
    assert sorted(fs.list_directory("/store/consumequeue/A")) == ["1", "2"]
    assert not fs.exists(CONFIG.paths.deleted_topics)


def test_a_removal_that_comes_late_leaves_a_queue_that_was_made_again(
    fs: MemoryFileSystem,
) -> None:
    log = log_of_queues()
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    dispatcher.dispatch(batch_of(log))
    dispatcher.remove_queues(removal("A", end=log.offsets[4]))
    assert fs.list_directory("/store/consumequeue/A") == [str(4 % 3)]


def test_nothing_is_removed_that_cannot_be_noted(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleted_topics, "TOPICS_MAX", 1)
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    dispatcher.dispatch(batch_of(log_of_queues()))
    with pytest.raises(TooManyDeleted):
        dispatcher.remove_queues(removal("A", "B"))
    assert sorted(fs.list_directory("/store/consumequeue")) == ["A", "B"]


def opened_later(
    fs: MemoryFileSystem, end: int, *, are_durable: bool = True, config: StoreConfig = CONFIG
) -> ConsumeQueueDispatcher:
    dispatcher = ConsumeQueueDispatcher(fs, config)
    dispatcher.open_later(are_durable=are_durable)
    dispatcher.recover(end)
    return dispatcher


def on_dispatched(fs: MemoryFileSystem, physical_offset: int) -> None:
    with closing(DispatchedFile(fs, CONFIG.paths.dispatched)) as file:
        file.note(physical_offset, IndexEnd())


def test_a_start_opens_no_queue_before_its_first_record(fs: MemoryFileSystem) -> None:
    log = log_of_queues()
    ConsumeQueueDispatcher(fs, CONFIG).dispatch(batch_of(log))
    opened = fs.calls["open"]
    dispatcher = opened_later(fs, log.end)
    assert dispatcher.truncate(log.end) == log.end
    assert fs.calls["open"] == opened + 2  # which topics are deleted, and what is dispatched
    assert dispatcher.statistics()["queues_count"] == 6
    assert dispatcher.prepare_flush().paths == []
    place = log.add(topic="A", queue_id=0, queue_offset=1)
    dispatcher.dispatch(batch_of(log, begin=place))
    assert [entry[0] for entry in queue_entries(fs, CONFIG, "A")] == [log.offsets[0], place]
    assert dispatcher.statistics()["queues_count"] == 6
    assert dispatcher.statistics()["files_made_count"] == 0
    assert dispatcher.prepare_flush().paths == [f"/store/consumequeue/A/0/{0:020}"]


def test_what_a_killed_writer_left_unsynced_is_dispatched_again(fs: MemoryFileSystem) -> None:
    log = log_of_queues()
    ConsumeQueueDispatcher(fs, CONFIG).dispatch(batch_of(log))
    fs.make_directories("/store")
    on_dispatched(fs, log.offsets[4])
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    dispatcher.open_later(are_durable=False)
    assert dispatcher.recover(log.end) == log.offsets[4]
    assert dispatcher.truncate(log.offsets[5]) == log.offsets[4]
    dispatcher.dispatch(batch_of(log, begin=log.offsets[4]))
    part = dispatcher.prepare_flush()
    assert part.paths == [f"/store/consumequeue/{queue}/{0:020}" for queue in ("A/1", "B/2")]
    assert {"/store/consumequeue/A/1", "/store/consumequeue/A"} < set(part.directories)
    counts = [len(queue_entries(fs, CONFIG, "AB"[i % 2], i % 3)) for i in range(6)]
    assert counts == [1] * 6


def test_an_entry_above_what_is_dispatched_is_cut_before_its_record_comes_again(
    fs: MemoryFileSystem,
) -> None:
    log = log_of_queues()
    for i in range(6):
        log.add(topic="AB"[i % 2], queue_id=i % 3, queue_offset=1)
    ConsumeQueueDispatcher(fs, CONFIG).dispatch(batch_of(log))
    dispatcher = opened_later(fs, log.end)
    dispatcher.truncate(log.offsets[8])
    queue = dispatcher.queue("A", 2)
    assert queue is not None and queue.max_queue_offset == 1
    dispatcher.dispatch(batch_of(log, begin=log.offsets[8]))
    found = [entry[0] for entry in queue_entries(fs, CONFIG, "A", 2)]
    assert found == [log.offsets[2], log.offsets[8]]


def test_much_that_would_come_again_has_all_queues_opened(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of_queues()
    ConsumeQueueDispatcher(fs, CONFIG).dispatch(batch_of(log))
    monkeypatch.setattr(consume_queue, "DISPATCHED_AGAIN_BYTES_MAX", log.end - 1)
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG)
    dispatcher.open_later(are_durable=False)
    assert dispatcher.recover(log.end) == log.end
    assert len(dispatcher.prepare_flush().paths) == 6


def test_queues_that_are_not_open_are_removed_and_trimmed(fs: MemoryFileSystem) -> None:
    log = LogBytes(segment_bytes=1 << 16)
    for i in range(2 * CONFIG.consume_queue_bytes // ENTRY_BYTES):
        log.add(topic="A", queue_offset=i)
        log.add(topic="B", queue_offset=i)
    log.add(topic="C", queue_offset=0)
    ConsumeQueueDispatcher(fs, CONFIG).dispatch(batch_of(log))
    assert opened_later(fs, log.end).remove_queues(removal("A")) == 1
    assert fs.list_directory("/store/consumequeue") == ["B", "C"]
    dispatcher = opened_later(fs, log.end)
    assert dispatcher.remove_before(log.end) == 1
    opened = fs.calls["open"]
    assert dispatcher.remove_before(log.end) == 0 and fs.calls["open"] == opened
    stale = opened_later(fs, log.end).stale_queues({"C": log.end})
    assert (stale.keys, stale.again_from) == ([("C", 0)], None)


@pytest.mark.parametrize(("has_process", "count"), [(False, 8), (True, 32)])
def test_a_process_of_its_own_has_descriptors_for_more_queues(
    fs: MemoryFileSystem,
    functions: ScanFunctions | None,
    monkeypatch: pytest.MonkeyPatch,
    has_process: bool,
    count: int,
) -> None:
    monkeypatch.setattr(consume_queue, "process_descriptors_max", lambda: 64)
    log = LogBytes()
    for i in range(40):
        log.add(queue_id=i)
    dispatcher = ConsumeQueueDispatcher(fs, CONFIG, has_process=has_process)
    dispatcher.dispatch(batch_of(log, functions))
    assert fs.descriptor_count == count
    dispatcher.close()
    assert fs.descriptor_count == 0
