"""Reput: dispatches on calls or notifications, leaves its files durable; and its client."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import pytest

from tests.actors.bounded import on_loop
from tests.actors.plans import notified_plan, service_plan
from tests.actors.services.fakes import (
    EPOCH,
    Events,
    FakeCalls,
    attached,
    broker_context,
    make_watermarks,
    shared_watermarks,
    stop_clients,
)
from tests.actors.stores import attached_service, fill, known_of, make_service, open_plan_store
from wakelog.actors.services import reput
from wakelog.actors.services.client import ServiceHandle
from wakelog.actors.services.pull_hold import HoldNote, PullHoldClient
from wakelog.actors.services.reput import ReputClient, ReputService
from wakelog.actors.services.session import Refused
from wakelog.actors.transport.notifications import NotificationSocket, Notifier
from wakelog.actors.transport.process_death import set_died
from wakelog.actors.transport.shared_watermarks import SharedWatermark, SharedWatermarks
from wakelog.broker.decision import HoldPull
from wakelog.dispatchers.reput import Arrival
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
        # Files of 100 entries: the first two hold nothing of the log's last fifth.
        assert service.call(EPOCH, "trim", end * 9 // 10) == 2


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


STEP_BYTES = 100


class FakeReput(FakeCalls):
    """Dispatches 100 bytes a step; each step is an arrival."""

    def __init__(self) -> None:
        super().__init__(step=self.step)
        self.position = 0

    def step(self, epoch: int, readable: int) -> tuple[Any, Any]:
        assert epoch == EPOCH and readable >= self.position
        self.position = min(readable, self.position + STEP_BYTES)
        offset = self.position // STEP_BYTES
        arrivals = [tuple(Arrival("topic", 0, offset, None))]
        return (self.position, len(arrivals), self.position < readable), arrivals


class Harness:
    """The client of a Reput and of a PullHold that only counts; use it as a context manager."""

    def __init__(
        self, shared: SharedWatermarks | None = None, directory: Path | None = None
    ) -> None:
        self.reput = FakeReput()
        self.events = Events()
        self.woken: list[Any] = []
        self.pull_hold = FakeCalls(take=self.take)
        self.context = broker_context(directory=directory, watermarks=shared)
        self.pull_hold_client = PullHoldClient(
            ServiceHandle("pull_hold", self.pull_hold, self.context),
            held_notes=self.events.held_notes,
            is_held=self.events.is_held,
            on_woken=self.events.woken,
        )
        self.client = ReputClient(
            ServiceHandle("reput", self.reput, self.context),
            wake_pulls=self.events.wake_pulls,
            on_dispatched=self.events.dispatched,
            on_arrivals=self.pull_hold_client.wake,
        )
        self.client.retry_seconds = 0.0

    def take(self, _epoch: int, arrivals: list[Any]) -> Any:
        self.woken += arrivals
        return [], None

    async def wait_dispatched(self, physical_offset: int) -> None:
        while self.events.dispatched_to < physical_offset:
            await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        for client in (self.pull_hold_client, self.client):
            await attached(client)
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop_clients(self.context, self.pull_hold_client, self.client)


@pytest.fixture
def shared(short_path: Path) -> Iterator[SharedWatermarks]:
    with shared_watermarks(short_path) as made:
        yield made


@on_loop
async def test_everything_readable_is_dispatched_step_by_step() -> None:
    async with Harness() as harness:
        harness.client.request_dispatch(250)
        await harness.wait_dispatched(250)
        harness.client.request_dispatch(260)
        await harness.wait_dispatched(260)
        assert [arguments[1] for arguments in harness.reput.called("step")] == [250, 250, 250, 260]
        while len(harness.woken) < 4:
            await asyncio.sleep(0)


@on_loop
async def test_what_gathers_during_a_step_goes_with_the_next() -> None:
    async with Harness() as harness:
        for readable in range(1, 51):
            harness.client.request_dispatch(readable)
        await harness.wait_dispatched(50)
        assert len(harness.reput.called("step")) == 1


@on_loop
async def test_a_step_waits_for_more_unless_a_pull_is_held_or_a_request_waits() -> None:
    async with Harness() as harness:
        client, steps = harness.client, harness.reput
        client.pace_seconds = 3_600.0
        await client.worker.wait_idle()
        client.request_dispatch(10)
        client.request_dispatch(20)
        assert not client.worker.is_running
        client.dispatch_now()
        await harness.wait_dispatched(20)
        await client.worker.wait_idle()
        client.request_dispatch(30)
        assert not client.worker.is_running
        harness.events.held.append(HoldPull(1, "topic", 0, 0, 1 << 60, None))
        client.request_dispatch(40)
        await harness.wait_dispatched(40)
        assert [arguments[1] for arguments in steps.called("step")] == [20, 40]


@on_loop
async def test_dispatch_goes_on_when_reput_is_back() -> None:
    async with Harness() as harness:
        failures = [OSError("died")]
        step = harness.reput.step

        def fail_once(epoch: int, readable: int) -> tuple[Any, Any]:
            if failures:
                raise failures.pop()
            return step(epoch, readable)

        harness.reput._methods["step"] = fail_once
        harness.client.request_dispatch(STEP_BYTES)
        await harness.wait_dispatched(STEP_BYTES)
        assert harness.client.attached_count == 2


@on_loop
async def test_readable_is_a_watermark_and_a_notification_and_progress_is_a_watermark(
    short_path: Path, shared: SharedWatermarks
) -> None:
    receiver = NotificationSocket(short_path / "reput.socket")
    async with Harness(shared, short_path) as harness:
        shared.set(SharedWatermark.APPENDED, 500)
        harness.client.request_dispatch(500)
        assert shared.get(SharedWatermark.READABLE) == 500
        harness.client.dispatch_now()
        assert receiver.drain() == [] and receiver.received_count == 1
        harness.client.read_watermark()
        assert harness.events.dispatched_to == 0
        shared.set(SharedWatermark.DISPATCHED, 300)
        harness.client.read_watermark()
        harness.client.read_watermark()
        assert harness.events.dispatched_to == 300
        assert harness.reput.called("step") == []
    receiver.close()


@on_loop
async def test_a_notification_waits_for_more_unless_a_pull_is_held(
    short_path: Path, shared: SharedWatermarks
) -> None:
    loop = asyncio.get_running_loop()
    receiver = NotificationSocket(short_path / "reput.socket")
    async with Harness(shared, short_path) as harness:
        client = harness.client
        shared.set(SharedWatermark.APPENDED, 500)
        notified: asyncio.Future[None] = loop.create_future()
        began_seconds = loop.time()
        receiver.listen(lambda _: set_died(notified))
        for readable in (100, 200, 300):
            client.request_dispatch(readable)
        assert not notified.done() and shared.get(SharedWatermark.READABLE) == 300
        await notified
        assert loop.time() - began_seconds >= client.pace_seconds * 0.9
        assert receiver.received_count == 1
        client.request_dispatch(400)
        receiver.drain()
        assert receiver.received_count == 1
        client.dispatch_now()  # a pull came that has to wait
        client.dispatch_now()
        receiver.drain()
        assert receiver.received_count == 2
        harness.events.held.append(HoldPull(1, "topic", 0, 0, 1 << 60, None))
        client.request_dispatch(500)
        receiver.drain()
        assert receiver.received_count == 3
    receiver.close()


@on_loop
async def test_work_that_makes_no_progress_is_asked_for_by_a_call(
    short_path: Path, shared: SharedWatermarks
) -> None:
    harness = Harness(shared, short_path)  # no process receives at this path
    harness.client.recheck_seconds = 0.01
    async with harness:
        harness.client.request_dispatch(50)
        await harness.wait_dispatched(50)
        assert len(harness.reput.called("step")) == 1
        shared.set(SharedWatermark.DISPATCHED, 50)


@on_loop
async def test_the_timer_ends_with_the_work(short_path: Path, shared: SharedWatermarks) -> None:
    harness = Harness(shared, short_path)
    harness.client.recheck_seconds = 0.0
    async with harness:
        harness.client.request_dispatch(50)
        shared.set(SharedWatermark.DISPATCHED, 50)
        while harness.client.recheck_timer.is_running:
            await asyncio.sleep(0)
        assert harness.events.dispatched_to == 50
        assert harness.reput.called("step") == []
