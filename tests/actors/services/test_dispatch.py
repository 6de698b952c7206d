"""What Reput opens when it is attached: files that are durable, and a checkpoint that says so."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.actors.asked_parts import Asked
from tests.actors.plans import service_plan
from tests.actors.stores import fill, known_of, open_plan_store
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import open_queue_writer, open_store, put, store_config
from wakelog.actors.services.dispatch import (
    Dispatch,
)
from wakelog.actors.services.plugin_threads import PluginThreads
from wakelog.actors.services.session import AttachRequest
from wakelog.dispatchers.consume_queue import ConsumeQueueDispatcher
from wakelog.dispatchers.lagging_dispatcher import LaggingDispatcher
from wakelog.dispatchers.reput import FlushJob, Reput
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import decode_checkpoint
from wakelog.storage.durability.deleted_topics import read_deleted_topics
from wakelog.storage.durability.dispatched import read_dispatched
from wakelog.storage.durability.marks import FailedSyncMark
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.message_store import MessageStore


def test_what_was_dispatched_is_durable_and_noted_when_it_is_closed(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    config = plan.settings.store
    with open_plan_store(plan) as store:
        known = msgspec.convert(known_of(store), AttachRequest)
        dispatch = Dispatch(FileSystem(), config, known)
        assert dispatch.flushed == 0
        end = fill(store, 3, now_ms=1_234_567, properties_text="KEYS\x01k")
        assert dispatch.step(end).dispatched == end
        dispatch.close()
        assert dispatch.flushed == end
        checkpoint = decode_checkpoint(Path(config.paths.checkpoint).read_bytes())
        assert checkpoint.logics_ms == 1_234_567


def test_what_is_dispatched_while_a_flush_runs_is_not_called_durable(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    config, fs = plan.settings.store, FileSystem()
    with open_plan_store(plan) as store:
        known = msgspec.convert(known_of(store), AttachRequest)
        dispatch = Dispatch(fs, config, known)
        first_end = fill(store, 3, now_ms=1_000)
        dispatch.step(first_end)
        job = dispatch.core.prepare_flush()
        end = fill(store, 3, now_ms=2_000)
        assert dispatch.step(end).dispatched == end
        dispatch.run(job)
        assert dispatch.flushed == first_end
        assert read_dispatched(fs, config.paths.dispatched).physical_offset == first_end
        checkpoint = decode_checkpoint(Path(config.paths.checkpoint).read_bytes())
        assert checkpoint.logics_ms == 1_000
        dispatch.close()
        assert read_dispatched(fs, config.paths.dispatched).physical_offset == end


def test_after_a_recovery_dispatch_begins_where_that_says(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    with open_plan_store(plan) as store:
        fill(store, 3)
    with open_plan_store(plan) as store:
        known = msgspec.convert(known_of(store), AttachRequest)
        assert known.dispatch_from == store.recovery.dispatch_from
        dispatch = Dispatch(FileSystem(), plan.settings.store, known)
        assert dispatch.core.position <= store.recovery.dispatch_from
        statistics = dispatch.statistics()
        assert statistics["puts_by_topic"] == {} and statistics["plugins"]["running"] == {}
        dispatch.close()


def test_behind_a_failed_sync_the_next_one_checks_and_begins_at_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The queues looked whole in the page cache, and the checkpoint went on from there.
    plan = service_plan(tmp_path)
    config = plan.settings.store
    mark = Path(config.store_path_root, "wakelog.failed-sync")

    def refuse(fs: FileSystem, fd: int) -> None:
        raise OSError(5, "Input/output error")

    with open_plan_store(plan) as store:
        known = msgspec.convert(known_of(store), AttachRequest)
        dispatch = Dispatch(FileSystem(), config, known)
        end = fill(store, 3, properties_text="KEYS\x01k")
        dispatch.step(end)
        with monkeypatch.context() as patched:
            patched.setattr(FileSystem, "datasync", refuse)
            with pytest.raises(StoreFailed):
                dispatch.run(dispatch.core.prepare_flush())
        assert mark.exists()
        again = msgspec.structs.replace(
            known, appended=end, committed=end, dispatched=end, dispatch_from=None
        )
        follower = Dispatch(FileSystem(), config, again)
        assert follower.core.position == 0 and not mark.exists()
        assert follower.step(end).dispatched == end
        follower.close()


def test_a_sync_that_fails_while_it_is_attached_is_not_believed_by_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The Broker has not heard of a position yet: the next one is attached as the first one was.
    plan = service_plan(tmp_path)
    config = plan.settings.store
    mark = Path(config.store_path_root, "wakelog.failed-sync")
    with open_plan_store(plan) as store:
        dispatch = Dispatch(FileSystem(), config, msgspec.convert(known_of(store), AttachRequest))
        dispatch.step(fill(store, 3, properties_text="KEYS\x01k"))
        dispatch.close()
    with open_plan_store(plan) as store:
        known = msgspec.convert(known_of(store), AttachRequest)
        known = msgspec.structs.replace(known, clean_exit=True)
        end = known.committed
        assert known.dispatch_from == end

        def refuse(_: object) -> None:
            raise StoreFailed("/store", "sync", OSError(5, "Input/output error"))

        with monkeypatch.context() as patched:
            patched.setattr(FlushJob, "run", refuse)
            with pytest.raises(StoreFailed):
                Dispatch(FileSystem(), config, known)
        assert mark.exists()
        follower = Dispatch(FileSystem(), config, known)
        assert follower.core.position == 0 and not mark.exists()
        assert follower.step(end).dispatched == end
        follower.close()


def test_the_checkpoint_does_not_vouch_for_index_files_that_were_removed(tmp_path: Path) -> None:
    # They are made anew, and until they are synced a crash can tear them.
    plan = service_plan(tmp_path)
    config = plan.settings.store
    with open_plan_store(plan) as store:
        known = msgspec.convert(known_of(store), AttachRequest)
        dispatch = Dispatch(FileSystem(), config, known)
        dispatch.step(fill(store, 3, now_ms=1_234_567, properties_text="KEYS\x01k"))
        dispatch.close()
        assert decode_checkpoint(Path(config.paths.checkpoint).read_bytes()).index_ms == 1_234_567
        for path in Path(config.paths.index_directory).iterdir():
            path.unlink()
        Dispatch(FileSystem(), config, known)
        assert decode_checkpoint(Path(config.paths.checkpoint).read_bytes()).index_ms == 0


def entries_of(fs: FileSystem, config: StoreConfig, topic: str) -> list[int]:
    queue = open_queue_writer(fs, config, (topic, 0))
    entries = [queue.entry(place) for place in range(queue.max_queue_offset)]
    queue.close()
    return [entry.physical_offset for entry in entries if entry is not None]


@pytest.mark.parametrize("end_of_run", ["none", "stop", "crash"])
def test_a_slave_has_the_queues_of_a_topic_that_its_master_has_made_again(
    tmp_path: Path, end_of_run: str
) -> None:
    """The slave hears of the deletion when it has made queues of both already."""
    plan = service_plan(tmp_path)
    config, fs = plan.settings.store, FileSystem()
    store = open_store(fs, config)
    dispatch = Dispatch(fs, config, msgspec.convert(known_of(store), AttachRequest))
    put(store, *[b"old"] * 4, topic="T")
    other = [put(store, b"between", topic="Other")[0].physical_offset]
    dispatch.step(store.log.appended_offset)
    removal = store.begin_removal(["T"])  # as at the master, whose log this is a copy of
    assert removal is not None
    store.end_removal(removal, removed=True)
    new = [result.physical_offset for result in put(store, *[b"new"] * 3, topic="T")]
    other += [put(store, b"behind", topic="Other", properties_text="KEYS\x01k")[0].physical_offset]
    end = store.log.appended_offset
    dispatch.step(end)
    store.set_dispatched(end)
    dispatch.run(dispatch.core.prepare_flush())
    assert len(entries_of(fs, config, "T")) == 5  # the first new one, behind the old ones
    ends = {"T": removal.physical_offset, "Unknown": end}
    assert dispatch.follow_deleted(ends) == 1
    assert read_deleted_topics(fs, config.paths) == ends
    assert dispatch.follow_deleted(ends) == 0 and dispatch.core.position == new[0]
    if end_of_run != "none":
        if end_of_run == "stop":
            dispatch.close()
        store.close(dispatch_behind_bytes=int(end_of_run == "crash"))
        store = open_store(fs, config)
        assert store.recovery.clean_exit is (end_of_run == "stop")
        dispatch = Dispatch(fs, config, msgspec.convert(known_of(store), AttachRequest))
    assert dispatch.step(end).dispatched == end
    assert entries_of(fs, config, "T") == new
    assert entries_of(fs, config, "Other") == other
    assert dispatch.follow_deleted(ends) == 0 and dispatch.core.position == end
    dispatch.close()
    store.close(dispatch_behind_bytes=1)


def test_a_slave_that_has_only_old_messages_of_a_deleted_topic_dispatches_nothing_again(
    tmp_path: Path,
) -> None:
    plan = service_plan(tmp_path)
    config, fs = plan.settings.store, FileSystem()
    with open_plan_store(plan) as store:
        dispatch = Dispatch(fs, config, msgspec.convert(known_of(store), AttachRequest))
        put(store, *[b"old"] * 4, topic="T")
        end = store.log.appended_offset
        dispatch.step(end)
        assert dispatch.follow_deleted({"T": end}) == 1
        assert (
            dispatch.core.position == end and not Path(config.paths.consume_queue("T", 0)).exists()
        )
        dispatch.close()


def test_what_was_dispatched_is_counted_by_topic(tmp_path: Path) -> None:
    """As many messages as were put, with their records' bytes, however many steps there were."""
    plan = service_plan(tmp_path, brokerRole="SLAVE", brokerId="1")
    config, fs = plan.settings.store, FileSystem()
    with open_plan_store(service_plan(tmp_path)) as store:
        dispatch = Dispatch(fs, config, msgspec.convert(known_of(store), AttachRequest))
        wanted: dict[str, tuple[int, int]] = {}
        for count, topic in ((3, "T"), (2, "U"), (1, "T")):
            begin = store.log.appended_offset
            end = fill(store, count, topic=topic)
            messages, size_bytes = wanted.get(topic, (0, 0))
            wanted[topic] = messages + count, size_bytes + end - begin
            dispatch.step(end)
        dispatch.step(end)
        assert dispatch.statistics()["puts_by_topic"] == wanted
        times = dispatch.statistics()["step_seconds"]
        assert sum(times["counts"]) == 3, "a step that dispatches nothing is not timed"
        dispatch.close()


@pytest.mark.parametrize(
    ("state", "removed_count"), [("", 0), ("is_broken", None), ("is_behind", None)]
)
def test_deletions_of_a_master_wait_until_dispatch_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, removed_count: int | None
) -> None:
    plan = service_plan(tmp_path)
    with open_plan_store(plan) as store:
        known = msgspec.convert(known_of(store), AttachRequest)
        dispatch = Dispatch(FileSystem(), plan.settings.store, known)
        with monkeypatch.context() as patched:
            if state:
                patched.setattr(Reput, state, property(lambda core: True))
            assert dispatch.follow_deleted({"T": 5}) == removed_count
        assert read_deleted_topics(FileSystem(), plan.settings.store.paths) == (
            {} if state else {"T": 5}
        )
        dispatch.close()


@pytest.mark.parametrize("stored_ms", [0, 5])
@pytest.mark.parametrize("index_ms", [None, 0, 7])
@pytest.mark.parametrize("fails", ["", "job.run", "checkpoint.sync", "dispatched.note"])
def test_a_flush_is_noted_in_order_and_only_once_it_is_durable(
    fails: str, index_ms: int | None, stored_ms: int
) -> None:
    """The mark of a failed sync is set if the files themselves failed."""
    error = StoreFailed("/store", "sync", OSError(5, "Input/output error"))
    asked = Asked(fails=fails, error=error)
    dispatch: Any = object.__new__(Dispatch)
    vars(dispatch).update(
        flushed=10,
        _checkpoint=asked.part("checkpoint"),
        _dispatched=asked.part("dispatched"),
        _failed_sync=asked.part("mark"),
    )
    values = {"store_timestamp_ms": stored_ms, "index_timestamp_ms": index_ms}
    job = asked.part("job", **values, position=90, index_end="end")
    steps: list[tuple[Any, ...]] = [("job.run",)]
    steps += [("checkpoint.set_logics", 5)] if stored_ms else []
    steps += [] if index_ms is None else [("checkpoint.set_index", index_ms)]
    steps += [("checkpoint.sync",), ("dispatched.note", 90, "end")]
    if not fails:
        dispatch.run(job)
        assert asked.calls == steps and dispatch.flushed == 90
        return
    with pytest.raises(StoreFailed):
        dispatch.run(job)
    done = steps[: [name for name, *_ in steps].index(fails) + 1]
    assert asked.calls == done + ([("mark.set",)] if fails == "job.run" else [])
    assert dispatch.flushed == 10


@pytest.mark.parametrize("clean_exit", [False, True])
@pytest.mark.parametrize("recovered", [False, True])
@pytest.mark.parametrize("is_doubtful", [False, True])
def test_where_dispatch_begins_and_what_it_trusts(
    monkeypatch: pytest.MonkeyPatch, clean_exit: bool, recovered: bool, is_doubtful: bool
) -> None:
    """Behind a failed sync everything is checked again; what is readable waits for no message."""
    asked, disk, config = Asked(), MemoryFileSystem(), store_config()
    with closing_store(disk, config) as store:
        put(store, b"1", b"2", properties_text="KEYS\1k\2")
        end = store.log.appended_offset
        if is_doubtful:
            FailedSyncMark(disk, config.paths).set()
        known = msgspec.structs.replace(
            msgspec.convert(known_of(store), AttachRequest),
            committed=end,
            readable=end - 1,
            dispatched=0,
            dispatch_from=0 if recovered else None,
            clean_exit=clean_exit,
        )
        for kind, name in ((ConsumeQueueDispatcher, "open_later"), (Reput, "start")):
            monkeypatch.setattr(kind, name, noting(asked, getattr(kind, name)))
        monkeypatch.setattr(PluginThreads, "readable", noting(asked, PluginThreads.readable))
        dispatch = Dispatch(disk, config, known)
        trusts = clean_exit and recovered and not is_doubtful
        begin = 0 if recovered or is_doubtful else None
        assert asked.calls == [
            ("open_later", recovered or is_doubtful),
            ("start", end, trusts, begin, None if recovered else 0),
            ("readable", end - 1),
        ]
        dispatch.step(end)
        assert asked.calls[3:] == [("readable", end)]
        dispatch.close()
    assert not FailedSyncMark(disk, config.paths).is_set()


def noting(asked: Asked, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that does the same and writes its calls down."""

    def noted(own: Any, *given: Any, **named: Any) -> Any:
        asked.call(method.__name__, *given, **named)
        return method(own, *given, **named)

    return noted


@contextmanager
def closing_store(disk: FileSystem, config: StoreConfig) -> Iterator[MessageStore]:
    store = open_store(disk, config)
    yield store
    store.close(dispatch_behind_bytes=1)


@pytest.mark.parametrize("has_index", [False, True])
def test_an_index_that_is_behind_is_finished_at_the_end(
    monkeypatch: pytest.MonkeyPatch, has_index: bool
) -> None:
    disk, config = MemoryFileSystem(), store_config(message_index_enable=has_index)
    left, found = [True, True, False], list[object]()
    with closing_store(disk, config) as store:
        make = Reput.__init__

        def made(core: Reput, *given: Any, lagging: Any, **named: Any) -> None:
            found.append(None if lagging is None else type(lagging))
            make(core, *given, lagging=lagging, **named)

        monkeypatch.setattr(Reput, "__init__", made)
        monkeypatch.setattr(Reput, "catch_up", lambda *_: left.pop(0))
        Dispatch(disk, config, msgspec.convert(known_of(store), AttachRequest)).close()
    assert found == [LaggingDispatcher if has_index else None] and left == []
