"""What Reput opens when it is attached: files that are durable, and a checkpoint that says so."""

from pathlib import Path

import msgspec
import pytest

from tests.actors.plans import service_plan
from tests.actors.stores import fill, known_of, open_plan_store
from tests.fakes.stores import open_queue_writer, open_store, put
from wakelog.actors.services.dispatch import (
    Dispatch,
)
from wakelog.actors.services.session import AttachRequest
from wakelog.dispatchers.reput import FlushJob, Reput
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import decode_checkpoint
from wakelog.storage.durability.deleted_topics import read_deleted_topics
from wakelog.storage.durability.dispatched import read_dispatched
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem


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
