"""Reput: dispatches on calls or notifications, and leaves its files durable."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tests.actors.bounded import on_loop
from tests.actors.plans import notified_plan, service_plan
from tests.actors.services.fakes import (
    EPOCH,
    make_watermarks,
)
from tests.actors.stores import attached_service, fill, known_of, make_service, open_plan_store
from wakelog.actors.services import reput
from wakelog.actors.services.dispatch import Dispatch
from wakelog.actors.services.pull_hold import HoldNote
from wakelog.actors.services.reput import ReputService
from wakelog.actors.services.session import Refused
from wakelog.actors.transport.notifications import NotificationSocket, Notifier
from wakelog.actors.transport.shared_watermarks import SharedWatermark, SharedWatermarks
from wakelog.dispatchers.reput import DispatchDecision
from wakelog.storage.durability.marks import FailedSyncMark
from wakelog.storage.errors import StoreFull
from wakelog.storage.file_system import FileSystem
from wakelog.storage.queue.consume_queue_writer import ConsumeQueueWriter


def refuse(*_: object) -> None:
    """Do as a full disk does."""
    raise StoreFull("/store", "allocate", OSError(28, "No space left on device"))


def make_readable(page: SharedWatermarks, end: int) -> None:
    """Do as a Broker that appended up to `end`."""
    for word in (SharedWatermark.APPENDED, SharedWatermark.COMMITTED, SharedWatermark.READABLE):
        page.set(word, end)


def test_a_step_dispatches_what_is_readable_and_says_what_arrived(tmp_path: Path) -> None:
    with attached_service(ReputService, service_plan(tmp_path)) as (service, store):
        assert service.attached._dispatch.core.position == 0
        end = fill(store, 3)
        (dispatched, arrivals_count, more), arrivals = service.call(EPOCH, "step", end)
        assert (dispatched, arrivals_count, more) == (end, 3, False)
        assert [note[:4] for note in arrivals] == [
            (HoldNote.ARRIVAL, "TopicTest", 0, offset) for offset in (1, 2, 3)
        ]
        store.set_dispatched(dispatched)
        assert store.max_queue_offset("TopicTest", 0) == 3
        assert service.call(EPOCH, "floor") == end


def test_a_reput_that_starts_again_continues_at_the_watermark(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    with open_plan_store(plan) as store:
        first, second = make_service(ReputService, plan), make_service(ReputService, plan)
        first.attach(known_of(store))
        # Every message of a real client has a key; an index without any says nothing.
        middle = fill(store, 3, properties_text="KEYS\x01k")
        first.call(EPOCH, "step", middle)
        first.release()
        end = fill(store, 2, begin=3, properties_text="KEYS\x01k")
        known = known_of(store, dispatched=middle, dispatch_from=None)
        # At the last record at the earliest: what a dispatcher has, it takes in again unharmed.
        assert middle * 2 // 3 <= second.attach(known)["position"] <= middle
        second.call(EPOCH, "step", end)
        store.set_dispatched(end)
        assert store.max_queue_offset("TopicTest", 0) == 5
        second.release()


def test_a_disk_that_refuses_is_said_in_plain_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with attached_service(ReputService, service_plan(tmp_path)) as (service, store):
        end = fill(store, 1)
        core = service.attached._dispatch.core
        with monkeypatch.context() as patched:
            patched.setattr(core, "step", refuse)
            with pytest.raises(Refused, match="No space left"):
                service.call(EPOCH, "step", end)
        assert service.call(EPOCH, "step", end)[0][0] == end


def test_what_is_being_synced_is_waited_for_before_files_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with attached_service(ReputService, service_plan(tmp_path)) as (service, store):
        end = fill(store, 1)
        core = service.attached._dispatch.core
        with monkeypatch.context() as patched:
            patched.setattr(service.attached._dispatch._dispatchers[0], "dispatch", refuse)
            with pytest.raises(Refused, match="No space left"):
                service.call(EPOCH, "step", end)
        noted: list[str] = []
        is_waited_for = threading.Event()

        def sync() -> None:
            is_waited_for.wait()
            noted.append("synced")

        def wait_for(futures: list[Future[None]]) -> None:
            is_waited_for.set()
            wait(futures)

        def start(*arguments: Any, **named: Any) -> int:
            noted.append("cut")
            return begin(*arguments, **named)

        begin = core.start
        monkeypatch.setattr(reput, "wait", wait_for)
        monkeypatch.setattr(core, "start", start)
        service.attached._flushing = service.attached._syncs.submit(sync)
        try:
            assert service.call(EPOCH, "step", end)[0][0] == end
            assert noted == ["synced", "cut"]
        finally:
            is_waited_for.set()


def test_a_flush_whose_time_comes_during_another_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what came during a slow sync would wait for the next message to be durable."""
    plan = service_plan(tmp_path)
    later: list[str] = []
    with attached_service(ReputService, plan) as (service, _):
        monkeypatch.setattr(service.attached, "_flush_later", lambda: later.append("later"))
        service.attached._flush_in_thread()
        assert service.attached._flushing is not None and later == []
        service.attached._wait_flushed()
        service.attached._flushing = Future()
        service.attached._flush_in_thread()
        assert later == ["later"]
        service.attached._flushing.set_result(None)


def test_a_slave_counts_puts_and_wakes_no_pull(tmp_path: Path) -> None:
    with open_plan_store(service_plan(tmp_path)) as store:
        end = fill(store, 3)
    plan = service_plan(tmp_path, brokerRole="SLAVE", brokerId=1)
    with attached_service(ReputService, plan) as (service, store):
        (dispatched, arrivals_count, _), _ = service.call(EPOCH, "step", end)
        assert (dispatched, arrivals_count) == (end, 0)
        [(count, size_bytes)] = service.statistics()["puts_by_topic"].values()
        assert count == 3 and size_bytes == end


def test_files_of_the_log_that_is_gone_are_removed(tmp_path: Path) -> None:
    with attached_service(ReputService, service_plan(tmp_path)) as (service, store):
        end = fill(store, 250)
        service.call(EPOCH, "step", end)
        service.attached._flushing = syncing = Future[None]()
        assert service.call(EPOCH, "trim", end * 9 // 10) is None, "files are being synced"
        syncing.set_result(None)
        # Files of 100 entries: the first two hold nothing of the log's last fifth.
        assert service.call(EPOCH, "trim", end * 9 // 10) == 2


@pytest.mark.parametrize("in_one_process", [True, False])
def test_what_was_dispatched_is_synced_in_time_where_there_is_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_one_process: bool
) -> None:
    """In one process files are made durable when they are released."""
    started: list[float] = []
    with attached_service(ReputService, service_plan(tmp_path)) as (host, store):
        service = host.attached
        service.plan = msgspec.structs.replace(service.plan, in_one_process=in_one_process)
        monkeypatch.setattr(service, "_flush_timer", SimpleNamespace(start=started.append))
        end = fill(store, 2)
        service.step(end)
        service.step(end)
        assert started == ([] if in_one_process else [1.0, 1.0])
        service._flush_in_thread()
        service._wait_flushed()
        service.step(end)
        assert len(started) == (0 if in_one_process else 2), "all is durable"


def test_queues_are_removed_or_it_is_said_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plan = service_plan(tmp_path)
    with attached_service(ReputService, plan) as (service, store):
        end = fill(store, 3)
        service.call(EPOCH, "step", end)
        queue = Path(plan.settings.store.paths.root, "consumequeue", "TopicTest", "0")
        assert queue.exists()
        with monkeypatch.context() as patched:
            patched.setattr(service.attached._dispatch.core, "remove_queues", refuse)
            why_not = service.call(EPOCH, "remove_queues", ["TopicTest"], [], end)
        assert "No space left" in why_not and queue.exists()
        assert caplog.text.count("queues not removed") == 1
        assert service.call(EPOCH, "remove_queues", [], [("TopicTest", 1)], end) == ""
        assert queue.exists(), "another queue was named"
        assert service.call(EPOCH, "remove_queues", [], [("TopicTest", 0)], end) == ""
        assert not queue.exists()


@pytest.mark.parametrize(
    ("found", "answered"),
    [
        (2, ("", None)),
        (0, ("", None)),
        (None, ("dispatch is behind", None)),
        (refuse, ("allocate of ", None)),
    ],
)
@on_loop
async def test_the_queues_of_a_master_are_followed_and_what_was_lost_is_dispatched_again(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, found: Any, answered: Any
) -> None:
    plan = notified_plan(short_path)
    with (
        closing(make_watermarks(plan.watermarks_path)),
        attached_service(ReputService, plan) as (host, _),
    ):
        service, order = host.attached, list[str]()
        await asyncio.sleep(0)

        def follow(ends: dict[str, int]) -> int | None:
            order.append("follow")
            return cast(int | None, found(ends) if callable(found) else found)

        monkeypatch.setattr(service, "_wait_flushed", lambda: order.append("wait"))
        monkeypatch.setattr(service._dispatch, "follow_deleted", follow)
        monkeypatch.setattr(service, "_on_notified", lambda notes: order.append("again"))
        why_not, position = service.follow_deleted({"TopicTest-0": 3})
        assert (why_not[: len(answered[0])], position) == (answered[0], 0)
        await asyncio.sleep(0)
        assert order == ["wait", "follow", *(["again"] if found == 2 else [])]
        monkeypatch.undo()


def test_files_are_made_ahead_at_the_attach_and_behind_each_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    for name in ("make_ahead", "run"):
        does = getattr(Dispatch, name)

        def note(*words: Any, name: str = name, does: Callable[..., None] = does) -> None:
            order.append(name)
            does(*words)

        monkeypatch.setattr(Dispatch, name, note)
    with attached_service(ReputService, service_plan(tmp_path)) as (host, _):
        assert order[-1] == "make_ahead"
        order.clear()
        host.attached._run_or_end(host.attached._dispatch.core.prepare_flush())
        assert order == ["run", "make_ahead"]


@pytest.mark.parametrize("is_released", [True, False])
def test_a_process_whose_files_are_not_durable_ends_unless_it_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_released: bool
) -> None:
    ended: list[int] = []
    with attached_service(ReputService, service_plan(tmp_path)) as (host, _):
        service = host.attached
        with monkeypatch.context() as patched:
            patched.setattr(service._dispatch, "run", refuse)
            patched.setattr("os._exit", ended.append)
            service.is_released = is_released
            service._run_or_end(service._dispatch.core.prepare_flush())
    assert ended == ([] if is_released else [1])


@on_loop
async def test_a_dispatch_that_fails_is_tried_again_after_longer_pauses_until_it_goes_on(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plan, pauses, said = notified_plan(short_path), list[float](), list[int]()
    with (
        closing(make_watermarks(plan.watermarks_path)) as page,
        attached_service(ReputService, plan) as (host, store),
    ):
        await asyncio.sleep(0)
        service = host.attached
        make_readable(page, fill(store, 3))
        step = service._dispatch.step
        position = service._dispatch.core.position
        monkeypatch.setattr(service, "_retry_timer", SimpleNamespace(start=pauses.append))
        nothing = DispatchDecision(position, [], {}, more=False)
        for each in "xxxx.xx":
            does = refuse if each == "x" else lambda _: nothing
            monkeypatch.setattr(service._dispatch, "step", does)
            service._on_notified([])
            said.append(caplog.text.count("dispatch failed"))
        assert pauses == [1.0, 2.0, 4.0, 5.0, 5.0, 5.0] and said == [1] * 7
        monkeypatch.setattr(service._dispatch, "step", step)
        service._on_notified([])
        make_readable(page, fill(store, 1, begin=3))
        monkeypatch.setattr(service._dispatch, "step", refuse)
        service._on_notified([])
        assert pauses[6:] == [1.0] and caplog.text.count("dispatch failed") == 2


@on_loop
async def test_on_a_notification_it_dispatches_stores_the_watermark_and_notifies_pull_hold(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakelog.actors.services.dispatch.STEP_BYTES_MAX", 100)
    plan = notified_plan(short_path, flushIntervalConsumeQueue=1)
    with (
        closing(make_watermarks(plan.watermarks_path)) as page,
        closing(NotificationSocket(plan.socket_path("pull_hold"))) as holds,
        closing(Notifier(plan.socket_path("reput"))) as sender,
        attached_service(ReputService, plan) as (service, store),
    ):
        end = fill(store, 20)
        make_readable(page, end)
        sender.notify()
        arrived: list[int] = []
        while len(arrived) < 20:
            await asyncio.sleep(0.001)
            for kind, _topic, _queue, offset, *_ in holds.drain():
                assert kind == HoldNote.ARRIVAL
                # Whoever is woken by this note finds the queue readable.
                assert page.get(SharedWatermark.DISPATCHED) > 0
                arrived.append(offset)
        while service.attached._dispatch.flushed < end:
            await asyncio.sleep(0.001)
        assert arrived == list(range(1, 21))
        assert page.get(SharedWatermark.DISPATCHED) == end
        page.validate()


@on_loop
async def test_after_another_broker_replaced_the_page_it_does_nothing(short_path: Path) -> None:
    plan = notified_plan(short_path)
    with (
        closing(make_watermarks(plan.watermarks_path)) as page,
        attached_service(ReputService, plan) as (service, store),
    ):
        end = fill(store, 1)
        make_watermarks(plan.watermarks_path).close()
        make_readable(page, end)
        service.attached._on_notified([])
        assert page.get(SharedWatermark.DISPATCHED) == 0


@on_loop
async def test_what_must_be_dispatched_again_needs_no_notification(
    short_path: Path,
) -> None:
    """After a failed sync the queues end below the word, and a broker may be idle from then on."""
    plan = notified_plan(short_path)
    with open_plan_store(plan) as store:
        end = fill(store, 3, properties_text="KEYS\x01k")
        page = make_watermarks(plan.watermarks_path, end)
        FailedSyncMark(FileSystem(), plan.settings.store.paths).set()
        service = make_service(ReputService, plan)
        known = known_of(store, committed=end, dispatched=end, dispatch_from=None)
        assert service.attach(known)["position"] == 0
        await asyncio.sleep(0)
        assert service.statistics()["cursor"]["position"] == end
        assert page.get(SharedWatermark.DISPATCHED) == end
        store.set_dispatched(end)
        assert store.max_queue_offset("TopicTest", 0) == 3
        service.release()
        page.close()


@on_loop
async def test_what_readers_may_have_seen_stays_when_it_is_attached_with_an_older_watermark(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Broker may look at the word between the call to attach and the attaching."""
    plan = notified_plan(short_path)
    with (
        closing(make_watermarks(plan.watermarks_path)) as page,
        attached_service(ReputService, plan) as (service, store),
    ):
        end = fill(store, 3, properties_text="KEYS\x01k")
        make_readable(page, end)
        older = known_of(store, dispatched=end // 3, dispatch_from=None)
        service.attached._on_notified([])
        assert page.get(SharedWatermark.DISPATCHED) == end
        cut: list[int] = []
        monkeypatch.setattr(
            ConsumeQueueWriter,
            "truncate_physical",
            lambda _, physical_offset: cut.append(physical_offset),
        )
        service.attach(older)
        assert min(cut, default=end) == end  # a queue that nothing has opened is not cut
        assert page.get(SharedWatermark.DISPATCHED) == end
        store.set_dispatched(end)
        assert store.max_queue_offset("TopicTest", 0) == 3
