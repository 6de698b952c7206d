"""PullHold: what is held and woken, by calls and by notifications, and what its client sends."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.actors.bounded import run
from tests.actors.plans import service_plan
from tests.actors.services.fakes import (
    EPOCH,
    Events,
    FakeCalls,
    attach_request,
    attached,
    broker_context,
    shared_watermarks,
)
from wakelog.actors.services.client import BrokerContext
from wakelog.actors.services.pull_hold import (
    CHECKS_PER_TURN_MAX,
    HOLD_CODES_MAX,
    HoldNote,
    PullHoldClient,
    PullHoldService,
    hold_note,
    read_hold_note,
)
from wakelog.actors.services.session import Refused
from wakelog.actors.transport.notifications import NotificationSocket, Notifier
from wakelog.actors.transport.service_plan import Transport
from wakelog.actors.transport.shared_watermarks import InitialWatermarks, make_shared_watermarks
from wakelog.broker.decision import HoldPull
from wakelog.broker.pull_hold import PullHold
from wakelog.dispatchers.reput import Arrival


def known(**changes: Any) -> dict[str, Any]:
    return dict(msgspec.to_builtins(attach_request(**changes)))


def note(hold_id: int, *, queue_offset: int = 0, deadline_ms: int = 1 << 60) -> HoldPull:
    return HoldPull(hold_id, "topic", 0, queue_offset, deadline_ms, None)


class FakePullHold(FakeCalls):
    """A core behind calls."""

    def __init__(self) -> None:
        super().__init__(
            hold=self.hold, arrived=self.arrived, forget=self.forget, expire=self.expire
        )
        self.core = PullHold()

    def hold(self, _epoch: int, notes: Sequence[Sequence[Any]]) -> Any:
        held = [HoldPull(i, t, q, o, d, c and frozenset(c)) for i, t, q, o, d, c in notes]
        return self.core.hold(held), self.core.next_deadline_ms()

    def arrived(self, _epoch: int, arrivals: Sequence[Sequence[Any]]) -> Any:
        return self.core.arrived(map(Arrival._make, arrivals)), self.core.next_deadline_ms()

    def forget(self, _epoch: int, hold_ids: Sequence[int]) -> None:
        self.core.forget(hold_ids)

    def expire(self, _epoch: int) -> Any:
        return self.core.expire(1 << 61), self.core.next_deadline_ms()


ARRIVAL = Arrival("topic", 0, 1, None, 0, 0)


def test_calls_hold_wake_forget_and_expire(short_path: Path) -> None:
    service = PullHoldService(service_plan(short_path).to_builtins(), "pull_hold")
    assert service.attach(known())["process_id"] > 0
    deadline_ms = time.time_ns() // 1_000_000 - 1
    assert service.call(EPOCH, "hold", [hold_note(note(1)), hold_note(note(2))]) == ([], 1 << 60)
    service.call(EPOCH, "forget", [2])
    assert service.call(EPOCH, "arrived", [tuple(ARRIVAL)]) == ([1], None)
    # The queue's reach is remembered: whoever comes late is woken at once.
    assert service.call(EPOCH, "hold", [hold_note(note(3))]) == ([3], None)
    other = HoldPull(4, "other", 0, 0, deadline_ms, None)
    assert service.call(EPOCH, "hold", [hold_note(other)]) == ([], deadline_ms)
    assert service.call(EPOCH, "expire") == ([4], None)
    assert service.statistics()["hold_count"] == 0
    service.release()


def test_a_call_of_another_epoch_is_refused(short_path: Path) -> None:
    service = PullHoldService(service_plan(short_path).to_builtins(), "pull_hold")
    with pytest.raises(Refused, match="not attached"):
        service.call(EPOCH, "hold", [])
    service.attach(known())
    service.call(EPOCH, "hold", [hold_note(note(1))])
    service.attach(known(epoch=EPOCH + 1))
    assert service.statistics()["hold_count"] == 0
    with pytest.raises(Refused, match=f"epoch {EPOCH} was asked for"):
        service.call(EPOCH, "arrived", [])
    service.release()


def test_notifications_bring_holds_and_arrivals_and_wake_the_broker(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakelog.actors.services.session.open_logs", lambda *_: None)
    plan = service_plan(short_path, transport=Transport.NOTIFICATIONS, in_one_process=False)
    values = InitialWatermarks(0, 0, 0, 0, 0, 0)
    known_of_empty = attach_request()

    async def main() -> None:
        from uuid import UUID

        page = make_shared_watermarks(
            plan.watermarks_path, UUID(known_of_empty.store_id), epoch_min=EPOCH, values=values
        )
        service = PullHoldService(plan.to_builtins(), "pull_hold")
        service.attach(known())
        broker = NotificationSocket(plan.socket_path("broker"))
        sender = Notifier(plan.socket_path("pull_hold"))
        soon_ms = time.time_ns() // 1_000_000 + 20
        held = [note(1), HoldPull(2, "other", 0, 0, soon_ms, None), note(3)]
        sender.notify([(int(HoldNote.HOLD), *hold_note(one)) for one in held])
        sender.notify([(int(HoldNote.FORGET), 3)])
        sender.notify([(int(HoldNote.ARRIVAL), *ARRIVAL)])
        woken: list[int] = []
        async with asyncio.timeout(10):
            while len(woken) < 2:
                await asyncio.sleep(0.001)
                woken += [hold_id for (hold_id,) in broker.drain()]
        # The first by the arrival, the second by its deadline.
        assert woken == [1, 2]
        service.release()
        assert not plan.socket_path("pull_hold").exists()
        sender.close()
        broker.close()
        page.close()

    asyncio.run(main())


@pytest.mark.parametrize("codes", [None, frozenset(), frozenset({1, -5, 2**62})])
def test_a_hold_comes_back_as_it_was(codes: frozenset[int] | None) -> None:
    hold = HoldPull(3, "topic", 2, 17, 1_000, codes)
    assert read_hold_note(hold_note(hold)) == hold


def test_a_hold_of_very_many_tags_travels_as_one_of_all() -> None:
    hold = HoldPull(3, "topic", 2, 17, 1_000, frozenset(range(HOLD_CODES_MAX + 1)))
    assert read_hold_note(hold_note(hold)).codes is None


async def client_of(
    calls: FakePullHold, events: Events, context: BrokerContext | None = None
) -> PullHoldClient:
    made = PullHoldClient("pull_hold", calls, context or broker_context(events))
    return await attached(made)


async def wait_woken(events: Events, hold_ids: list[int]) -> None:
    while events.woken_ids != hold_ids:
        await asyncio.sleep(0)


def test_an_arrival_wakes_what_was_held_before_and_what_comes_after_it() -> None:
    async def main() -> None:
        calls, events = FakePullHold(), Events()
        client = await client_of(calls, events)
        client.hold([note(1), note(2, queue_offset=5)])
        while len(calls.called("hold")) < 1:
            await asyncio.sleep(0)
        arrivals: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        arrivals.set_result([tuple(ARRIVAL)])
        await client.wake(arrivals)
        await wait_woken(events, [1])
        client.hold([note(3)])
        await wait_woken(events, [1, 3])
        assert calls.counts["wake"] == 1
        await client.stop_work()
        await client.stop()

    run(main)


def test_a_pull_that_is_held_and_given_up_does_not_stay() -> None:
    async def main() -> None:
        calls = FakePullHold()
        client = await client_of(calls, Events())
        client.hold([note(1)])
        client.forget([1])
        while not calls.called("forget"):
            await asyncio.sleep(0)
        assert calls.core.statistics()["hold_count"] == 0
        await client.stop_work()
        await client.stop()

    run(main)


def test_a_deadline_wakes_without_being_asked_for() -> None:
    async def main() -> None:
        calls, events = FakePullHold(), Events()
        client = await client_of(calls, events)
        client.hold([note(1, deadline_ms=1)])
        await wait_woken(events, [1])
        await client.stop_work()
        await client.stop()

    run(main)


def test_with_notifications_holds_travel_as_notes_and_deadlines_are_not_the_clients(
    short_path: Path,
) -> None:
    async def main() -> None:
        calls, events = FakePullHold(), Events()
        with shared_watermarks(short_path) as shared:
            context = broker_context(events, directory=short_path, watermarks=shared)
            receiver = NotificationSocket(context.plan.socket_path("pull_hold"))
            client = await client_of(calls, events, context)
            client.hold([note(1, deadline_ms=1), note(2)])
            client.forget([1])
            kinds = [(parts[0], parts[1]) for parts in receiver.drain()]
            assert kinds == [(HoldNote.HOLD, 1), (HoldNote.HOLD, 2), (HoldNote.FORGET, 1)]
            # Arrivals of a step that was called because a notification was lost.
            calls.core.hold([note(1, deadline_ms=1)])
            arrivals: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            arrivals.set_result([])
            await client.wake(arrivals)
            for _ in range(20):
                await asyncio.sleep(0)
            assert not calls.called("expire") and not calls.called("hold")
            await client.stop_work()
            await client.stop()
            receiver.close()
            for notifier in context.notifiers:
                notifier.close()

    run(main)


def test_when_a_pull_hold_is_attached_every_pull_that_waits_runs_again() -> None:
    """It was not there for what arrived before."""

    async def main() -> None:
        calls, events = FakePullHold(), Events()
        hold_ids = list(range(2 * CHECKS_PER_TURN_MAX + 1))
        events.held = [note(hold_id) for hold_id in hold_ids]
        client = await client_of(calls, events)
        assert events.woken_ids == hold_ids[:CHECKS_PER_TURN_MAX]
        while len(events.woken_ids) < len(hold_ids):
            await asyncio.sleep(0)
        assert events.woken_ids == hold_ids
        await client.stop()

    run(main)
