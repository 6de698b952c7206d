"""PullHold: what is held and woken, by calls and by notifications, and what its client sends."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.actors.bounded import on_loop
from tests.actors.plans import notified_plan, service_plan
from tests.actors.services.fakes import (
    EPOCH,
    Events,
    FakeCalls,
    attach_request,
    attached,
    broker_context,
    make_watermarks,
    shared_watermarks,
)
from wakelog.actors.services import pull_hold as services
from wakelog.actors.services.client import BrokerContext, ServiceHandle
from wakelog.actors.services.pull_hold import (
    CHECKS_PER_TURN_MAX,
    HOLD_CODES_MAX,
    NOTES_KEPT_MAX,
    HoldNote,
    PullHoldClient,
    PullHoldService,
    arrival_notes,
    hold_note,
    read_hold_note,
)
from wakelog.actors.services.service import ServiceHost
from wakelog.actors.transport.notifications import NotificationSocket, Notifier
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.broker.decision import HoldPull
from wakelog.storage.queue.entries import Arrival


def known(**changes: Any) -> dict[str, Any]:
    return dict(msgspec.to_builtins(attach_request(**changes)))


def note(hold_id: int, *, queue_offset: int = 0, deadline_ms: int = 1 << 60) -> HoldPull:
    return HoldPull(hold_id, "topic", 0, queue_offset, deadline_ms, None)


class FakePullHold(FakeCalls):
    """A PullHold that is an object of this process."""

    def __init__(self, plan: ServicePlan) -> None:
        self.service = ServiceHost[PullHoldService](plan.to_builtins(), "pull_hold")
        self.service.attach(known())
        super().__init__(take=lambda _epoch, notes: self.service.attached.take(notes))

    def notes(self, kind: HoldNote) -> list[Any]:
        """Return the notes of a kind that were sent by calls."""
        return [note for _, notes in self.called("take") for note in notes if note[0] == kind]


ARRIVAL = Arrival("topic", 0, 1, None)


def held(hold: HoldPull) -> tuple[Any, ...]:
    return (HoldNote.HOLD, *hold_note(hold))


def test_notes_hold_wake_forget_and_expire(short_path: Path) -> None:
    service = ServiceHost[PullHoldService](service_plan(short_path).to_builtins(), "pull_hold")
    service.attach(known())
    deadline_ms = time.time_ns() // 1_000_000 - 1

    def take(*notes: tuple[Any, ...]) -> Any:
        return service.call(EPOCH, "take", notes)

    assert take(held(note(1)), held(note(2))) == ([], 1 << 60)
    assert take((HoldNote.FORGET, 2), *arrival_notes([ARRIVAL])) == ([1], None)
    # The queue's reach is remembered: whoever comes late is woken at once.
    assert take(held(note(3))) == ([3], None)
    assert take(held(HoldPull(4, "other", 0, 0, deadline_ms, None))) == ([], deadline_ms)
    assert take((HoldNote.EXPIRE,)) == ([4], None)
    # Several of a kind, and others between them: all are followed, in their order.
    holds = [held(HoldPull(number, "many", number, 0, deadline_ms, None)) for number in (6, 7, 8)]
    came = arrival_notes(Arrival("many", number, 1, None) for number in (8, 6))
    assert take(*holds, *came, (HoldNote.FORGET, 7), (HoldNote.EXPIRE,), holds[0])[0] == [8, 6, 6]
    assert service.statistics()["hold_count"] == 0
    take(held(note(5, queue_offset=1)))
    assert service.statistics()["hold_count"] == 1
    service.attach(known(epoch=EPOCH + 1))
    assert service.statistics()["hold_count"] == 0, "another Broker has other pulls"
    service.release()


@on_loop
async def test_notifications_bring_holds_and_arrivals_and_wake_the_broker(short_path: Path) -> None:
    plan = notified_plan(short_path)
    service = ServiceHost[PullHoldService](plan.to_builtins(), "pull_hold")
    with (
        closing(make_watermarks(plan.watermarks_path)),
        closing(NotificationSocket(plan.socket_path("broker"))) as broker,
        closing(Notifier(plan.socket_path("pull_hold"))) as sender,
    ):
        service.attach(known())
        soon_ms = time.time_ns() // 1_000_000 + 20
        sender.notify([held(note(1)), held(HoldPull(2, "other", 0, 0, soon_ms, None))])
        sender.notify([held(note(3)), (HoldNote.FORGET, 3)])
        sender.notify(arrival_notes([ARRIVAL]))
        woken: list[int] = []
        while len(woken) < 2:
            await asyncio.sleep(0.001)
            woken += [hold_id for (hold_id,) in broker.drain()]
        # The first by the arrival, the second by its deadline.
        assert woken == [1, 2]
        service.release()
        assert not plan.socket_path("pull_hold").exists()


@pytest.mark.parametrize("codes", [None, frozenset(), frozenset({1, -5, 2**62})])
def test_a_hold_comes_back_as_it_was(codes: frozenset[int] | None) -> None:
    hold = HoldPull(3, "topic", 2, 17, 1_000, codes)
    assert read_hold_note(hold_note(hold)) == hold


@pytest.mark.parametrize("count", [0, 1, HOLD_CODES_MAX, HOLD_CODES_MAX + 1])
def test_a_hold_of_very_many_tags_travels_as_one_of_all(count: int) -> None:
    hold = HoldPull(3, "topic", 2, 17, 1_000, frozenset(range(count)))
    codes = hold.codes if count <= HOLD_CODES_MAX else None
    assert read_hold_note(hold_note(hold)).codes == codes


@pytest.fixture
def pull_hold(short_path: Path) -> FakePullHold:
    return FakePullHold(service_plan(short_path))


@asynccontextmanager
async def client_of(
    calls: FakePullHold, events: Events, context: BrokerContext | None = None
) -> AsyncIterator[PullHoldClient]:
    client = PullHoldClient(
        ServiceHandle("pull_hold", calls, context or broker_context()),
        held_notes=events.held_notes,
        is_held=events.is_held,
        on_woken=events.woken,
    )
    yield await attached(client)
    await client.stop_work()
    await client.stop()


async def wait_woken(events: Events, hold_ids: list[int]) -> None:
    while events.woken_ids != hold_ids:
        await asyncio.sleep(0)


def reference_to(notes: list[tuple[Any, ...]]) -> asyncio.Future[Any]:
    found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    found.set_result(notes)
    return found


@on_loop
async def test_an_arrival_wakes_what_was_held_before_and_what_comes_after_it(
    pull_hold: FakePullHold,
) -> None:
    events = Events()
    async with client_of(pull_hold, events) as client:
        client.hold([note(1), note(2, queue_offset=5)])
        while not pull_hold.notes(HoldNote.HOLD):
            await asyncio.sleep(0)
        client.wake(reference_to(arrival_notes([ARRIVAL])))
        await wait_woken(events, [1])
        client.hold([note(3)])
        await wait_woken(events, [1, 3])
        assert pull_hold.counts["wake"] == 1 and not client._wakes


@on_loop
async def test_a_pull_that_is_held_and_given_up_does_not_stay(pull_hold: FakePullHold) -> None:
    async with client_of(pull_hold, Events()) as client:
        client.hold([note(1)])
        client.forget([1])
        while not pull_hold.notes(HoldNote.FORGET):
            await asyncio.sleep(0)
        assert pull_hold.service.statistics()["hold_count"] == 0


@on_loop
async def test_a_pull_that_ends_at_once_has_no_note(pull_hold: FakePullHold) -> None:
    events = Events()
    async with client_of(pull_hold, events) as client:
        client.hold([note(1)])
        events.ended_ids.add(1)
        client.hold([note(2)])
        client.send_kept()
        while not pull_hold.notes(HoldNote.HOLD):
            await asyncio.sleep(0)
        assert [parts[1] for parts in pull_hold.notes(HoldNote.HOLD)] == [2]


@on_loop
async def test_many_notes_are_sent_at_once(
    pull_hold: FakePullHold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "NOTE_SECONDS", 3_600.0)
    async with client_of(pull_hold, Events()) as client:
        client.hold([note(each) for each in range(1, NOTES_KEPT_MAX)])
        for _ in range(20):
            await asyncio.sleep(0)
        assert not pull_hold.notes(HoldNote.HOLD)
        client.hold([note(NOTES_KEPT_MAX)])
        while not pull_hold.notes(HoldNote.HOLD):
            await asyncio.sleep(0)
        assert len(pull_hold.notes(HoldNote.HOLD)) == NOTES_KEPT_MAX


@on_loop
async def test_a_deadline_wakes_without_being_asked_for(pull_hold: FakePullHold) -> None:
    events = Events()
    async with client_of(pull_hold, events) as client:
        client.hold([note(1, deadline_ms=1)])
        await wait_woken(events, [1])


@on_loop
async def test_with_notifications_holds_travel_as_notes_and_deadlines_are_not_the_clients(
    short_path: Path, pull_hold: FakePullHold
) -> None:
    events = Events()
    with shared_watermarks(short_path) as shared:
        context = broker_context(directory=short_path, watermarks=shared)
        receiver = NotificationSocket(context.plan.socket_path("pull_hold"))
        async with client_of(pull_hold, events, context) as client:
            client.hold([note(1, deadline_ms=1), note(2)])
            client.send_kept()
            client.forget([1])
            kinds = [(parts[0], parts[1]) for parts in receiver.drain()]
            assert kinds == [(HoldNote.HOLD, 1), (HoldNote.HOLD, 2), (HoldNote.FORGET, 1)]
            # Arrivals of a step that was called because a notification was lost.
            pull_hold.service.attached.take([held(note(1, deadline_ms=1))])
            client.wake(reference_to([]))
            for _ in range(20):
                await asyncio.sleep(0)
            assert pull_hold.called("take") == [(EPOCH, [])]
        receiver.close()
        for notifier in context.notifiers:
            notifier.close()


@on_loop
async def test_when_a_pull_hold_is_attached_every_pull_that_waits_runs_again(
    pull_hold: FakePullHold,
) -> None:
    """It was not there for what arrived before."""
    events = Events()
    hold_ids = list(range(2 * CHECKS_PER_TURN_MAX + 1))
    events.held = [note(hold_id) for hold_id in hold_ids]
    async with client_of(pull_hold, events):
        assert events.woken_ids == hold_ids[:CHECKS_PER_TURN_MAX]
        await wait_woken(events, hold_ids)


@on_loop
async def test_a_client_that_was_stopped_sends_no_note_that_it_has_kept(
    pull_hold: FakePullHold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "NOTE_SECONDS", 0.0)
    sent: list[object] = []
    async with client_of(pull_hold, Events()) as client:
        monkeypatch.setattr(client, "_send", sent.append)
        client.hold([note(1)])
        await client.stop_work()
        for _ in range(5):
            await asyncio.sleep(0)
        assert sent == []
