"""Reput's client: when steps are asked for, and what the Broker hears of them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from tests.actors.bounded import on_loop
from tests.actors.services.fakes import (
    EPOCH,
    Events,
    FakeCalls,
    attached,
    broker_context,
    shared_watermarks,
    stop_clients,
)
from wakelog.actors.services.client import ServiceHandle
from wakelog.actors.services.pull_hold import PullHoldClient
from wakelog.actors.services.reput import ReputClient
from wakelog.actors.transport.notifications import NotificationSocket
from wakelog.actors.transport.process_death import set_died
from wakelog.actors.transport.shared_watermarks import SharedWatermark, SharedWatermarks
from wakelog.broker.decision import HoldPull
from wakelog.storage.durability.deleted_topics import QueueRemoval
from wakelog.storage.queue.entries import Arrival

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
async def test_what_becomes_readable_during_a_step_waits_for_more_too() -> None:
    async with Harness() as harness:
        client, steps = harness.client, harness.reput
        client.pace_seconds = 3_600.0
        step = harness.reput.step

        def stepped(epoch: int, readable: int) -> Any:
            if readable == 10:
                client.request_dispatch(20)
            return step(epoch, readable)

        steps._methods["step"] = stepped
        client.request_dispatch(10)
        client.dispatch_now()
        await harness.wait_dispatched(10)
        await client.worker.wait_idle()
        assert client._pace_timer.is_running
        assert [arguments[1] for arguments in steps.called("step")] == [10]
        client.dispatch_now()
        await harness.wait_dispatched(20)


@on_loop
async def test_queues_are_removed_by_a_reput_that_is_attached_and_answers() -> None:
    asked: list[tuple[Any, ...]] = []
    removal = QueueRemoval(("a",), (("b", 1),), 700)
    async with Harness() as harness:

        def remove(_epoch: int, *words: Any) -> str:
            asked.append(words)
            return "full"

        harness.reput._methods["remove_queues"] = remove
        assert await harness.client.remove_queues(removal) == "full"
        assert asked == [(("a",), (("b", 1),), 700)]
        harness.client.removal_seconds_max = 0.01
        harness.reput.hanging.add("remove_queues")
        assert await harness.client.remove_queues(removal) == "reput has not answered in time"
        harness.client._attached.clear()
        assert await harness.client.remove_queues(removal) == "reput is not attached"
        assert len(asked) == 1


@pytest.mark.parametrize(("position", "reached"), [(40, 40), (50, 50), (60, 50)])
@on_loop
async def test_by_reference_queues_that_end_earlier_are_dispatched_again(
    position: int, reached: int
) -> None:
    async with Harness() as harness:
        client, requested = harness.client, list[str]()
        await client.worker.wait_idle()
        client.reached = client.wanted = 50
        harness.reput._methods["follow_deleted"] = lambda _, ends: ("behind", position)
        worker: Any = SimpleNamespace(request=lambda: requested.append("step"))
        own, client.worker = client.worker, worker
        assert await client.follow_deleted({"a-0": 3}) == "behind"
        assert (client.reached, requested) == (reached, ["step"] if position < 50 else [])
        client.worker = own
        client._attached.clear()
        assert await client.follow_deleted({}) == "reput is not attached"


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
