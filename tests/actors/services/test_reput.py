"""Reput's shell: dispatches on calls or on notifications, and leaves its files durable."""

import asyncio
import threading
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.actors.plans import service_plan
from tests.actors.services.fakes import EPOCH, STORE_ID
from tests.actors.stores import fill, known_of, open_plan_store
from wakelog.actors.services import reput
from wakelog.actors.services.pull_hold import HoldNote
from wakelog.actors.services.reput import ReputService
from wakelog.actors.services.session import LockByte, Refused
from wakelog.actors.transport.notifications import NotificationSender, NotificationSocket
from wakelog.actors.transport.service_plan import ServicePlan, Transport
from wakelog.actors.transport.shared_watermarks import (
    InitialWatermarks,
    SharedWatermark,
    SharedWatermarks,
    make_shared_watermarks,
)
from wakelog.storage.durability.marks import FailedSyncMark
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.errors import StoreFull
from wakelog.storage.file_system import RealFileSystem
from wakelog.storage.queue.consume_queue_writer import ConsumeQueueWriter


def refuse(*_: object) -> None:
    """Do as a full disk does."""
    raise StoreFull("/store", "allocate", OSError(28, "No space left on device"))


def notified_plan(directory: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> ServicePlan:
    """Return a plan whose services ring each other, in this process."""
    monkeypatch.setattr("wakelog.actors.services.session.open_logs", lambda *_: None)
    return service_plan(
        directory, transport=Transport.NOTIFICATIONS, in_one_process=False, **settings
    )


def page_of(plan: ServicePlan, end: int = 0) -> SharedWatermarks:
    """Make the page of a Broker whose log is dispatched up to `end`."""
    values = InitialWatermarks(end, end, end, end, end, 0)
    return make_shared_watermarks(
        plan.watermarks_path, UUID(STORE_ID), epoch_min=EPOCH, values=values
    )


def make_readable(page: SharedWatermarks, end: int) -> None:
    """Do as a Broker that appended up to `end`."""
    for word in (SharedWatermark.APPENDED, SharedWatermark.COMMITTED, SharedWatermark.READABLE):
        page.set(word, end)


def test_a_step_dispatches_what_is_readable_and_says_what_arrived(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    service = ReputService(plan.to_builtins())
    with open_plan_store(plan) as store:
        assert service.attach(known_of(store))["position"] == 0
        end = fill(store, 3)
        (dispatched, arrivals_count, more), arrivals = service.step(EPOCH, end)
        assert (dispatched, arrivals_count, more) == (end, 3, False)
        assert [(topic, offset) for topic, _, offset, *_ in arrivals] == [
            ("TopicTest", 1),
            ("TopicTest", 2),
            ("TopicTest", 3),
        ]
        store.set_dispatched(dispatched)
        assert store.max_queue_offset("TopicTest", 0) == 3
        assert service.flush(EPOCH) == end == service.floor(EPOCH)
        service.release()


def test_the_stores_byte_is_held_while_it_writes(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    service = ReputService(plan.to_builtins())
    path = plan.settings.store.paths.lock
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        with pytest.raises(Exception, match="already running"):
            StoreLock(service._fs, path, LockByte.REPUT)
        service.release()
        StoreLock(service._fs, path, LockByte.REPUT).release()


def test_a_reput_that_starts_anew_goes_on_where_the_word_is(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    with open_plan_store(plan) as store:
        first = ReputService(plan.to_builtins())
        first.attach(known_of(store))
        # Every message of a real client has a key; an index without any says nothing.
        middle = fill(store, 3, properties_text="KEYS\x01k")
        first.step(EPOCH, middle)
        first.release()
        end = fill(store, 2, begin=3, properties_text="KEYS\x01k")
        second = ReputService(plan.to_builtins())
        known = known_of(store, dispatched=middle, dispatch_from=None)
        # At the last record at the earliest: what a dispatcher has, it takes in again unharmed.
        assert middle * 2 // 3 <= second.attach(known)["position"] <= middle
        second.step(EPOCH, end)
        store.set_dispatched(end)
        assert store.max_queue_offset("TopicTest", 0) == 5
        second.release()


def test_a_call_before_attaching_or_of_another_epoch_is_refused(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    service = ReputService(plan.to_builtins())
    with pytest.raises(Refused):
        service.step(EPOCH, 0)
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        with pytest.raises(Refused):
            service.step(EPOCH - 1, 0)
        service.release()


def test_a_disk_that_refuses_is_said_in_plain_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = service_plan(tmp_path)
    service = ReputService(plan.to_builtins())
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        end = fill(store, 1)
        assert service._dispatch is not None
        core = service._dispatch.core
        with monkeypatch.context() as patched:
            patched.setattr(core, "step", refuse)
            with pytest.raises(Refused, match="No space left"):
                service.step(EPOCH, end)
        assert service.step(EPOCH, end)[0][0] == end
        service.release()


def test_what_is_being_synced_is_waited_for_before_files_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = service_plan(tmp_path)
    service = ReputService(plan.to_builtins())
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        end = fill(store, 1)
        assert service._dispatch is not None
        core = service._dispatch.core
        with monkeypatch.context() as patched:
            patched.setattr(service._dispatch._dispatchers[0], "dispatch", refuse)
            with pytest.raises(Refused, match="No space left"):
                service.step(EPOCH, end)
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
        service._flushing = service._syncs.submit(sync)
        try:
            assert service.step(EPOCH, end)[0][0] == end
            assert noted == ["synced", "cut"]
        finally:
            is_waited_for.set()
            service.release()


def test_a_flush_whose_time_comes_during_another_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what came during a slow sync would wait for the next message to be durable."""
    plan = service_plan(tmp_path)
    service = ReputService(plan.to_builtins())
    later: list[str] = []
    monkeypatch.setattr(service, "_flush_later", lambda: later.append("later"))
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        service._flush_timed()
        assert service._flushing is not None and later == []
        service._settle()
        service._flushing = Future()
        service._flush_timed()
        assert later == ["later"]
        service._flushing.set_result(None)
        service.release()


def test_a_slave_counts_puts_and_wakes_nobody(tmp_path: Path) -> None:
    with open_plan_store(service_plan(tmp_path)) as store:
        end = fill(store, 3)
    plan = service_plan(tmp_path, brokerRole="SLAVE", brokerId=1)
    service = ReputService(plan.to_builtins())
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        (dispatched, arrivals_count, _), _ = service.step(EPOCH, end)
        assert (dispatched, arrivals_count) == (end, 0)
        [(count, size_bytes)] = service.statistics()["puts_by_topic"].values()
        assert count == 3 and size_bytes == end
        service.release()


def test_files_of_the_log_that_is_gone_are_removed(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    service = ReputService(plan.to_builtins())
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        end = fill(store, 250)
        service.step(EPOCH, end)
        # Files of 100 entries: the first two hold nothing of the log's last fifth.
        assert service.trim(EPOCH, end * 9 // 10) == 2
        with pytest.raises(Refused):
            service.trim(EPOCH + 1, end)
        service.release()


def test_on_a_notifications_it_dispatches_stores_the_word_and_tells_pull_hold(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakelog.actors.services.dispatch.STEP_BYTES_MAX", 100)
    plan = notified_plan(short_path, monkeypatch, flushIntervalConsumeQueue=1)

    async def main() -> None:
        service = ReputService(plan.to_builtins())
        with open_plan_store(plan) as store:
            page = page_of(plan)
            holds = NotificationSocket(plan.socket_path("pull_hold"))
            service.attach(known_of(store))
            end = fill(store, 20)
            make_readable(page, end)
            sender = NotificationSender(plan.socket_path("reput"))
            sender.notify()
            arrived: list[int] = []
            async with asyncio.timeout(10):
                while len(arrived) < 20:
                    await asyncio.sleep(0.001)
                    for kind, _topic, _queue, offset, *_ in holds.drain():
                        assert kind == HoldNote.ARRIVAL
                        # Whoever is woken by this note finds the queue readable.
                        assert page.get(SharedWatermark.DISPATCHED) > 0
                        arrived.append(offset)
                while service._dispatch is None or service._dispatch.flushed < end:
                    await asyncio.sleep(0.001)
            assert arrived == list(range(1, 21))
            assert page.get(SharedWatermark.DISPATCHED) == end
            page.validate()
            service.release()
            sender.close()
            holds.close()
            page.close()

    asyncio.run(main())


def test_after_another_broker_replaced_the_page_it_does_nothing(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = notified_plan(short_path, monkeypatch)

    async def main() -> None:
        service = ReputService(plan.to_builtins())
        with open_plan_store(plan) as store:
            page = page_of(plan)
            service.attach(known_of(store))
            end = fill(store, 1)
            page_of(plan).close()
            make_readable(page, end)
            service._answer([])
            assert page.get(SharedWatermark.DISPATCHED) == 0
            service.release()
            page.close()

    asyncio.run(main())


def test_what_has_to_be_dispatched_again_is_so_without_a_bell(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed sync the queues end below the word, and a broker may be idle from then on."""
    plan = notified_plan(short_path, monkeypatch)

    async def main() -> None:
        with open_plan_store(plan) as store:
            end = fill(store, 3, properties_text="KEYS\x01k")
            page = page_of(plan, end)
            FailedSyncMark(RealFileSystem(), plan.settings.store.paths).set()
            service = ReputService(plan.to_builtins())
            known = known_of(store, committed=end, dispatched=end, dispatch_from=None)
            assert service.attach(known)["position"] == 0
            await asyncio.sleep(0)
            assert service.statistics()["cursor"]["position"] == end
            assert page.get(SharedWatermark.DISPATCHED) == end
            store.set_dispatched(end)
            assert store.max_queue_offset("TopicTest", 0) == 3
            service.release()
            page.close()

    asyncio.run(main())


def test_what_readers_may_have_seen_stays_when_it_is_attached_with_an_older_word(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Broker may look at the word between the call to attach and the attaching."""
    plan = notified_plan(short_path, monkeypatch)

    async def main() -> None:
        with open_plan_store(plan) as store:
            page = page_of(plan)
            service = ReputService(plan.to_builtins())
            service.attach(known_of(store))
            end = fill(store, 3, properties_text="KEYS\x01k")
            make_readable(page, end)
            older = known_of(store, dispatched=end // 3, dispatch_from=None)
            service._answer([])
            assert page.get(SharedWatermark.DISPATCHED) == end
            cut: list[int] = []
            monkeypatch.setattr(
                ConsumeQueueWriter,
                "truncate_physical",
                lambda _, physical_offset: cut.append(physical_offset),
            )
            service.attach(older)
            assert min(cut) == end
            service.release()
            page.close()

    asyncio.run(main())
