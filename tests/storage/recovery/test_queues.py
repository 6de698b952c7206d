"""Queues that are being recovered: cut at both ends, and numbered on as the log says."""

import pytest

from tests.fakes.logs import draft, open_log, read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import NOW_MS, open_queue_writer, store_config
from wakelog.protocol.properties import INNER_MULTI_DISPATCH
from wakelog.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.marks import FailedSyncMark
from wakelog.storage.errors import StoreFailed
from wakelog.storage.log.append import MessageDraft
from wakelog.storage.log.queue_offsets import QueueKey
from wakelog.storage.log.record_walk import walk_records
from wakelog.storage.recovery.queues import QueueEnds, QueueRepair, list_queues

CONFIG = store_config()


@pytest.fixture
def fs() -> MemoryFileSystem:
    """Two queues: A/0 with 60 entries of records 100 bytes long, B/3 with 5 of them."""
    fs = MemoryFileSystem()
    for key, count in [(("A", 0), 60), (("B", 3), 5)]:
        writer = open_queue_writer(fs, CONFIG, key)
        for i in range(count):
            writer.put(100 * i, 100, 0, i)
        writer.write_pending()
        writer.close()
    return fs


def repaired(fs: MemoryFileSystem) -> QueueRepair:
    queues = QueueRepair(fs, CONFIG)
    queues.cut_unwritten(after_crash=True)
    return queues


def test_queues_are_directories_with_legal_names(fs: MemoryFileSystem) -> None:
    root = CONFIG.paths.consume_queue_root
    for strange in ("A/x", "A/01", "A/-1", "../A/0", "bad name/0", "Ü/0"):
        fs.make_directories(f"{root}/{strange}")
    write_file(fs, f"{root}/notes", b"")
    assert list(list_queues(fs, CONFIG.paths)) == [("A", 0), ("B", 3)]
    assert list(list_queues(MemoryFileSystem(), CONFIG.paths)) == []


def test_the_furthest_entry_says_how_far_dispatch_came(fs: MemoryFileSystem) -> None:
    queues = repaired(fs)
    assert queues.max_physical_offset == 6000
    assert queues.next_offsets({}) == {("A", 0): 60, ("B", 3): 5}
    assert QueueRepair(MemoryFileSystem(), CONFIG).max_physical_offset == -1


@pytest.mark.parametrize(("durable", "end"), [(0, 30), (3000, 30), (3200, 60), (6000, 60)])
def test_a_damaged_durable_entry_ends_no_queue(
    fs: MemoryFileSystem, durable: int, end: int
) -> None:
    path = f"{CONFIG.paths.consume_queue('A', 0)}/{0:020d}"
    data = bytearray(read_file(fs, path))
    data[600:620] = bytes(20)
    write_file(fs, path, bytes(data))
    queues = QueueRepair(fs, CONFIG)
    queues.cut_unwritten(after_crash=True, durable=durable)
    assert queues.next_offsets({})["A", 0] == end


def test_the_log_may_know_of_more_messages(fs: MemoryFileSystem) -> None:
    seen = {("A", 0): 62, ("B", 3): 4, ("C", 1): 1}
    assert repaired(fs).next_offsets(seen) == {("A", 0): 62, ("B", 3): 5, ("C", 1): 1}


@pytest.mark.parametrize("begin", [0, CONFIG.consume_queue_bytes])
def test_a_queue_without_entries_stays_if_the_log_has_its_records(
    fs: MemoryFileSystem, begin: int
) -> None:
    """Its entries are made again; until then its file says that they were lost."""
    path = f"{CONFIG.paths.consume_queue('C', 1)}/{begin:020d}"
    write_file(fs, path, bytes(CONFIG.consume_queue_bytes))
    queues = repaired(fs)
    assert queues.without_entries == {("C", 1): begin // 20}
    queues.resolve_unused({("C", 1)}, 100)
    assert read_file(fs, path) == bytes(CONFIG.consume_queue_bytes)


def test_the_entry_of_an_expired_queue_is_durable(fs: MemoryFileSystem) -> None:
    path = f"{CONFIG.paths.consume_queue('C', 1)}/{CONFIG.consume_queue_bytes:020d}"
    write_file(fs, path, bytes(CONFIG.consume_queue_bytes))
    queues = repaired(fs)
    fs.fail("datasync")
    with pytest.raises(StoreFailed):
        queues.resolve_unused((), 100)


def test_entries_above_the_logs_end_are_removed_for_good(fs: MemoryFileSystem) -> None:
    queues = repaired(fs)
    assert queues.cut_at(1000) == (("A", 0),)
    assert queues.next_offsets({}) == {("A", 0): 10, ("B", 3): 5}
    queues.close()
    again = repaired(fs)
    assert again.next_offsets({}) == {("A", 0): 10, ("B", 3): 5}
    assert again.cut_at(1000) == ()


@pytest.mark.parametrize(("end", "is_removed"), [(5999, False), (6000, True)])
@pytest.mark.parametrize("durable", [0, 6000])
def test_an_interrupted_deletion_leaves_nothing_of_its_topic(
    fs: MemoryFileSystem, end: int, is_removed: bool, durable: int
) -> None:
    queues = QueueRepair(fs, CONFIG)
    queues.cut_unwritten(after_crash=True, durable=durable)
    queues.end_removals({"A": end})
    root = CONFIG.paths.consume_queue_root
    assert fs.list_directory(root) == (["B"] if is_removed else ["A", "B"])
    assert (("A", 0) in queues.next_offsets({})) is not is_removed


def test_closing_lets_every_file_go(fs: MemoryFileSystem) -> None:
    queues = repaired(fs)
    assert fs.descriptor_count > 0
    queues.close()
    assert fs.descriptor_count == 0


def ends_of(
    drafts: list[MessageDraft], config: StoreConfig
) -> tuple[dict[QueueKey, int], dict[QueueKey, int]]:
    """Append the drafts; return what the records say and what the log itself counted."""
    fs = MemoryFileSystem()
    log = open_log(fs, config)
    places = [log.append(one, NOW_MS).physical_offset for one in drafts]
    log.write_pending()
    ends = QueueEnds(
        enable_multi_dispatch=config.enable_multi_dispatch, enable_lmq=config.enable_lmq
    )
    data = log.files.files[0].read(0, config.commit_log_file_bytes)
    for place in places:
        _, end, _, body_end, topic_end, *numbers, _, _ = next(
            walk_records(data, place, len(data), place)
        )
        topic, text = data[body_end + 1 : topic_end], data[topic_end + 2 : end]
        queue_id, queue_offset, physical_offset, sys_flag = numbers
        ends.note(topic, queue_id, queue_offset, physical_offset, sys_flag, text)
    table = ends.table()
    firsts = [ends.first(key) for key in table]
    assert {place for _, place in filter(None, firsts)} <= set(places)
    assert {number for number, _ in filter(None, firsts)} == {0}
    return table, {key: log.queue_offsets.get(key) for key in table}


def test_the_last_record_of_a_queue_counts() -> None:
    drafts = [draft(topic=topic, queue_id=i) for i, topic in [(0, "A"), (1, "A"), (0, "B")] * 3]
    table, counted = ends_of(drafts, store_config())
    assert table == counted == {("A", 0): 3, ("A", 1): 3, ("B", 0): 3}


def test_records_count_from_the_end_of_their_topics_deletion_on() -> None:
    ends = QueueEnds(enable_multi_dispatch=False, enable_lmq=False, deleted={"A": 100})
    ends.note(b"A", 0, 7, 99, 0, b"")
    assert ends.table() == {}
    ends.note(b"A", 0, 0, 100, 0, b"")
    ends.note(b"B", 0, 4, 50, 0, b"")
    assert ends.table() == {("A", 0): 1, ("B", 0): 5}


def test_a_later_record_overrules_a_higher_one() -> None:
    """A topic was deleted and made again: its numbers started again."""
    ends = QueueEnds(enable_multi_dispatch=False, enable_lmq=False)
    for place, queue_offset in enumerate((7, 8, 0, 1)):
        ends.note(b"A", 0, queue_offset, 100 * place, 0, b"")
    assert ends.table() == {("A", 0): 2}
    assert ends.first(("A", 0)) == (0, 200)
    ends.note(b"A", 0, 5, 400, 0, b"")
    assert (ends.first(("A", 0)), ends.first(("B", 0))) == ((5, 400), None)


@pytest.mark.parametrize(
    ("sys_flag", "counts"),
    [(TRANSACTION_PREPARED, False), (TRANSACTION_ROLLBACK, False), (TRANSACTION_COMMIT, True)],
)
def test_messages_without_consumers_have_no_place(sys_flag: int, counts: bool) -> None:
    ends = QueueEnds(enable_multi_dispatch=False, enable_lmq=False)
    ends.note(b"A", 0, 3, 100, sys_flag, b"")
    assert ends.table() == ({("A", 0): 4} if counts else {})


def test_queues_of_multi_dispatch_count_too() -> None:
    config = store_config(enable_multi_dispatch=True, enable_lmq=True)
    names = [f"{INNER_MULTI_DISPATCH}\x01%LMQ%a,%LMQ%b", f"{INNER_MULTI_DISPATCH}\x01%LMQ%b,Other"]
    drafts = [draft(queue_id=3, properties_text=text) for text in names]
    table, counted = ends_of(drafts, config)
    assert table == counted
    assert table == {("TopicTest", 3): 2, ("%LMQ%a", 0): 1, ("%LMQ%b", 0): 2, ("Other", 3): 1}


def test_multi_dispatch_is_ignored_unless_enabled() -> None:
    text = f"{INNER_MULTI_DISPATCH}\x01%LMQ%a"
    table, _ = ends_of([draft(properties_text=text)], store_config())
    assert table == {("TopicTest", 0): 1}


def test_a_queue_may_get_its_own_messages_and_those_of_others() -> None:
    config = store_config(enable_multi_dispatch=True, enable_lmq=True)
    to_other = draft(queue_id=3, properties_text=f"{INNER_MULTI_DISPATCH}\x01Other")
    own = draft(topic="Other", queue_id=3)
    for drafts in ([to_other, own, own], [own, own, to_other]):
        table, counted = ends_of(drafts, config)
        assert table == counted == {("TopicTest", 3): 1, ("Other", 3): 3}


@pytest.mark.parametrize(
    ("offsets", "further"),
    [
        ("5,7", {("%LMQ%a", 0): 6, ("%LMQ%b", 0): 8}),
        ("5,7,", {("%LMQ%a", 0): 6, ("%LMQ%b", 0): 8}),
        ("", {}),
        ("1", {}),
        ("1,2,3", {}),
        ("1,x", {}),
        ("-1,2", {("%LMQ%b", 0): 3}),
    ],
)
def test_the_lists_of_further_queues_are_read_as_dispatch_reads_them(
    offsets: str, further: dict[QueueKey, int]
) -> None:
    ends = QueueEnds(enable_multi_dispatch=True, enable_lmq=True)
    text = f"{INNER_MULTI_DISPATCH}\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x01{offsets}"
    ends.note(b"A", 0, 0, 100, 0, text.encode())
    assert ends.table() == {("A", 0): 1} | further


def untouched(fs: MemoryFileSystem) -> bool:
    return not any(fs.calls[name] for name in ("pwrite", "datasync", "sync", "sync_directory"))


@pytest.mark.parametrize("after_crash", [True, False])
def test_a_queue_that_is_as_it_was_is_opened_once_and_not_written(
    fs: MemoryFileSystem, after_crash: bool
) -> None:
    fs.calls.clear()
    queues = QueueRepair(fs, CONFIG)
    queues.cut_unwritten(after_crash=after_crash, durable=6000)
    assert queues.cut_at(6000) == ()
    assert queues.next_offsets({}) == {("A", 0): 60, ("B", 3): 5}
    assert (queues.max_physical_offset, queues.without_entries) == (6000, {})
    assert untouched(fs)
    files_count = -(-60 * 20 // CONFIG.consume_queue_bytes) + 1
    assert fs.calls["open"] == files_count
    assert not FailedSyncMark(fs, CONFIG.paths).is_set()


def test_only_a_queue_with_later_entries_is_synced(fs: MemoryFileSystem) -> None:
    fs.calls.clear()
    queues = QueueRepair(fs, CONFIG)
    queues.cut_unwritten(after_crash=True, durable=500)
    assert FailedSyncMark(fs, CONFIG.paths).is_set()  # the next process would not see a cut
    assert fs.calls["sync_directory"] == 3  # the names of A/0, and none of B/3's
    assert queues.cut_at(300) == (("A", 0), ("B", 3))
    assert queues.next_offsets({}) == {("A", 0): 3, ("B", 3): 3}
    queues.on_durable()
    assert not FailedSyncMark(fs, CONFIG.paths).is_set()


def test_directories_that_queues_share_are_synced_once(fs: MemoryFileSystem) -> None:
    for queue_id in range(1, 5):
        writer = open_queue_writer(fs, CONFIG, ("A", queue_id))
        writer.put(100 * queue_id, 100, 0, 0)
        writer.write_pending()
        writer.close()
    fs.calls.clear()
    repaired(fs)
    assert fs.calls["sync_directory"] == 1 + 2 + 6  # the root, A and B, and the queues


def test_positions_that_prove_wrong_have_every_queue_checked(fs: MemoryFileSystem) -> None:
    queues = QueueRepair(fs, CONFIG)
    queues.cut_unwritten(after_crash=True, durable=6000)
    fs.calls.clear()
    queues.check_each()
    assert fs.calls["sync_directory"] == 5 and fs.calls["forget_cached"] >= 2
    assert queues.next_offsets({}) == {("A", 0): 60, ("B", 3): 5}
    fs.calls.clear()
    queues.check_each()
    assert untouched(fs)


def test_a_cut_that_fails_leaves_the_mark(fs: MemoryFileSystem) -> None:
    """Its zeros may be in the page cache alone: the next start must not trust what it sees."""
    queues = QueueRepair(fs, CONFIG)
    queues.cut_unwritten(after_crash=True, durable=6000)
    fs.fail("datasync", nth=3)
    with pytest.raises(StoreFailed):
        queues.cut_at(4000)
    assert FailedSyncMark(fs, CONFIG.paths).is_set()
