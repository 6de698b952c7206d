"""A topic that is deleted does not come back, wherever the deletion was interrupted."""

import errno
from collections.abc import Callable

import pytest

from tests.dispatchers.stores import queue_entries
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import NOW_MS, open_store, put, store_config
from wakelog.dispatchers import core_dispatchers
from wakelog.dispatchers.reput import Reput
from wakelog.storage.durability import deleted_topics
from wakelog.storage.durability.deleted_topics import (
    DeletedTopics,
    QueueRemoval,
    TooManyDeleted,
    read_deleted_topics,
)
from wakelog.storage.errors import StoreError
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.message_store import MessageStore

TOPIC = "TopicTest"
CONFIG = store_config(
    consume_queue_file_bytes=60,  # three entries
    enable_consume_queue_extension=True,
    consume_queue_extension_file_bytes=1024,
)
OPERATIONS = ("open", "pwrite", "sync", "rename", "sync_directory", "unlink")


def dispatch(store: MessageStore, fs: MemoryFileSystem, *, again: bool = False) -> Reput:
    """Dispatch all of the log as Reput does, from its begin if `again`."""
    log = CommitLogReader(fs, CONFIG)
    reput = Reput(fs, log, core_dispatchers(fs, CONFIG, log), CONFIG)
    end = store.max_physical_offset
    reput.start(end, clean_exit=True, dispatch_from=0 if again else None)
    reput.step(end, 1 << 30, NOW_MS)
    store.set_dispatched(end)
    return reput


def filled(fs: MemoryFileSystem) -> tuple[MessageStore, Reput]:
    """Return a store with eight messages of a topic, in two queues, and one of another."""
    store = open_store(fs, CONFIG)
    for queue_id in (0, 1):
        put(store, *[b"old"] * 4, queue_id=queue_id)
    put(store, b"other", topic="Other")
    return store, dispatch(store, fs)


def offsets_in(fs: MemoryFileSystem, topic: str = TOPIC) -> list[int]:
    return [entry[0] for entry in queue_entries(fs, CONFIG, topic)]


def remove(store: MessageStore, reput: Reput) -> None:
    removal = store.begin_removal([TOPIC])
    assert removal is not None
    reput.remove_queues(removal)
    store.end_removal(removal, removed=True)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("crashed", [False, True])
def test_a_topic_that_was_made_again_has_its_new_messages(*, crashed: bool, again: bool) -> None:
    fs = MemoryFileSystem()
    store, reput = filled(fs)
    put(store, b"not dispatched")
    remove(store, reput)
    new = [result.physical_offset for result in put(store, b"new", b"newer")]
    store.close(dispatch_behind_bytes=1 if crashed else 0)
    fs = fs.successor()
    store = open_store(fs, CONFIG)
    assert store.log.queue_offsets.get((TOPIC, 0)) == 2
    assert store.log.queue_offsets.get((TOPIC, 1)) == 0
    dispatch(store, fs, again=again)
    assert offsets_in(fs) == new
    assert len(offsets_in(fs, "Other")) == 1
    assert fs.list_directory(f"/store/consumequeue/{TOPIC}") == ["0"]
    assert fs.list_directory("/store/consumequeue_ext") == ["Other", TOPIC]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_interrupted_deletion_is_ended_or_never_happened(operation: str) -> None:
    for nth in range(1, 100):
        fs = MemoryFileSystem()
        store, reput = filled(fs)
        old = offsets_in(fs)
        removal = store.begin_removal([TOPIC])
        assert removal is not None
        fs.fail(operation, nth=nth, number=errno.EIO)
        try:
            reput.remove_queues(removal)
        except StoreError:
            pass
        else:
            assert nth > 1, f"no {operation}"
            return
        # The processes die here, or the broker goes on and is killed later.
        store.end_removal(removal, removed=False)
        fs = fs.successor()
        store = open_store(fs, CONFIG)
        is_noted = bool(read_deleted_topics(fs, CONFIG.paths))
        next_offset = store.log.queue_offsets.get((TOPIC, 0))
        assert next_offset == (0 if is_noted else 4), (operation, nth)
        (new,) = put(store, b"new")
        dispatch(store, fs, again=True)
        expected = [] if is_noted else old
        assert offsets_in(fs) == [*expected, new.physical_offset], (operation, nth)
    raise AssertionError(f"{operation} failed each time")


def test_a_log_that_is_cut_keeps_what_it_gets_then() -> None:
    """What is deleted ends where the log ends: other records take the place of those cut."""
    fs = MemoryFileSystem()
    store, reput = filled(fs)
    removal = QueueRemoval((TOPIC,), (), store.max_physical_offset + 10_000)
    reput.remove_queues(removal)
    store.close(dispatch_behind_bytes=1)
    fs = fs.successor()
    store = open_store(fs, CONFIG)
    assert read_deleted_topics(fs, CONFIG.paths) == {TOPIC: store.recovery.log_end}
    (new,) = put(store, b"new")
    dispatch(store, fs, again=True)
    assert offsets_in(fs) == [new.physical_offset]


def test_so_many_topics_are_noted_and_an_end_only_rises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with a plain dict."""
    monkeypatch.setattr(deleted_topics, "TOPICS_MAX", 3)
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    table, known = DeletedTopics(fs, CONFIG.paths), dict[str, int]()
    notes = [
        ({"a": 5}, True), ({"b": 7, "a": 4}, True), ({"c": 1}, True), ({"d": 1}, False),
        ({"a": 9, "d": 1}, False), ({"a": 9, "b": 8, "c": 2}, True), ({"d": 0, "a": 9}, True),
    ]  # fmt: skip
    for ends, has_room in notes:
        if has_room:
            table.add_ends(ends)
            known |= {topic: max(end, known.get(topic, 0)) for topic, end in ends.items() if end}
        else:
            with pytest.raises(TooManyDeleted):
                table.add_ends(ends)
        assert table.ends == read_deleted_topics(fs, CONFIG.paths) == known
    steps: list[tuple[Callable[[], None], dict[str, int]]] = [
        (lambda: table.lower(9), {"a": 9, "b": 8, "c": 2}),
        (lambda: table.lower(7), {"a": 7, "b": 7, "c": 2}),
        (lambda: table.forget_before(1), {"a": 7, "b": 7, "c": 2}),
        (lambda: table.forget_before(2), {"a": 7, "b": 7}),
        (lambda: table.note(("b", "e"), 8), {"a": 7, "b": 8, "e": 8}),
        (lambda: table.forget_before(8), {}),
    ]
    for step, left in steps:
        step()
        assert table.ends == read_deleted_topics(fs, CONFIG.paths) == left
