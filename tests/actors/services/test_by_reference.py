"""Dispatch and holds on calls: natural batching, what is woken, what a lost neighbour means."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.actors.bounded import run
from tests.actors.services.fakes import EPOCH, Events, FakeCalls, attached_client
from wakelog.actors.services.by_reference import (
    LOOKS_PER_TURN_MAX,
    ReferenceDispatch,
    ReferenceHolds,
)
from wakelog.actors.transport import service_client as neighbour_module
from wakelog.broker.decision import HoldPull
from wakelog.broker.pull_hold import PullHold
from wakelog.dispatchers.reput import Arrival

STEP_BYTES = 100


def note(hold_id: int, *, queue_offset: int = 0, deadline_ms: int = 1 << 60) -> HoldPull:
    return HoldPull(hold_id, "topic", 0, queue_offset, deadline_ms, None)


class FakeReput(FakeCalls):
    """Dispatches 100 bytes a step; each step is an arrival."""

    def __init__(self) -> None:
        super().__init__(step=self.step)
        self.position = 0

    def step(self, epoch: int, readable: int) -> tuple[Any, Any]:
        assert epoch == EPOCH and readable >= self.position
        self.position = min(readable, self.position + STEP_BYTES)
        offset = self.position // STEP_BYTES
        arrivals = [tuple(Arrival("topic", 0, offset, None, 0, self.position - STEP_BYTES))]
        return (self.position, len(arrivals), self.position < readable), arrivals


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


class Lines:
    """Both lines over fakes."""

    def __init__(self) -> None:
        self.reput = FakeReput()
        self.pull_hold = FakePullHold()
        self.events = Events()

    async def start(self) -> None:
        self.reput_neighbour = await attached_client(self.reput)
        self.holds_neighbour = await attached_client(self.pull_hold)
        self.holds = ReferenceHolds(self.holds_neighbour, EPOCH, self.events)
        self.dispatch = ReferenceDispatch(self.reput_neighbour, self.holds, EPOCH, self.events)

    async def wait_dispatched(self, physical_offset: int) -> None:
        while self.events.dispatched_to < physical_offset:
            await asyncio.sleep(0)

    async def wait_woken(self, hold_ids: list[int]) -> None:
        while self.events.woken_ids != hold_ids:
            await asyncio.sleep(0)

    async def stop(self) -> None:
        await self.dispatch.stop()
        await self.holds.stop()
        await self.reput_neighbour.stop()
        await self.holds_neighbour.stop()


def test_everything_readable_is_dispatched_step_by_step() -> None:
    async def main() -> None:
        lines = Lines()
        await lines.start()
        lines.dispatch.readable(250)
        await lines.wait_dispatched(250)
        lines.dispatch.readable(260)
        await lines.wait_dispatched(260)
        assert [arguments[1] for arguments in lines.reput.called("step")] == [250, 250, 250, 260]
        await lines.stop()

    run(main)


def test_what_gathers_during_a_step_goes_with_the_next() -> None:
    async def main() -> None:
        lines = Lines()
        await lines.start()
        for readable in range(1, 51):
            lines.dispatch.readable(readable)
        await lines.wait_dispatched(50)
        assert len(lines.reput.called("step")) == 1
        await lines.stop()

    run(main)


def test_an_arrival_wakes_whoever_was_held_before_or_comes_after_it() -> None:
    async def main() -> None:
        lines = Lines()
        await lines.start()
        lines.holds.hold([note(1), note(2, queue_offset=5)])
        while len(lines.pull_hold.called("hold")) < 1:
            await asyncio.sleep(0)
        lines.dispatch.readable(STEP_BYTES)
        await lines.wait_woken([1])
        lines.holds.hold([note(3)])
        await lines.wait_woken([1, 3])
        assert lines.pull_hold.counts["wake"] == 1
        await lines.stop()

    run(main)


def test_a_pull_that_is_held_and_given_up_does_not_stay() -> None:
    async def main() -> None:
        lines = Lines()
        await lines.start()
        lines.holds.hold([note(1)])
        lines.holds.forget([1])
        while not lines.pull_hold.called("forget"):
            await asyncio.sleep(0)
        assert lines.pull_hold.core.statistics().hold_count == 0
        await lines.stop()

    run(main)


def test_a_deadline_wakes_without_being_prepare_read() -> None:
    async def main() -> None:
        lines = Lines()
        await lines.start()
        lines.holds.hold([note(1, deadline_ms=1)])
        await lines.wait_woken([1])
        await lines.stop()

    run(main)


def test_with_notifications_deadlines_are_the_business_of_pull_hold() -> None:
    async def main() -> None:
        lines = Lines()
        await lines.start()
        holds = ReferenceHolds(lines.holds_neighbour, EPOCH, lines.events, has_timer=False)
        holds.hold([note(1, deadline_ms=1)])
        while not lines.pull_hold.called("hold"):
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not lines.pull_hold.called("expire")
        await holds.stop()
        await lines.stop()

    run(main)


def test_when_a_pull_hold_starts_anew_every_pull_that_waits_looks_again() -> None:
    """What arrived before it was there, it was never told of."""

    async def main() -> None:
        lines = Lines()
        await lines.start()
        hold_ids = list(range(2 * LOOKS_PER_TURN_MAX + 1))
        lines.events.held = [note(hold_id) for hold_id in hold_ids]
        lines.holds.hold_all()
        assert lines.events.woken_ids == hold_ids[:LOOKS_PER_TURN_MAX]
        while len(lines.events.woken_ids) < len(hold_ids):
            await asyncio.sleep(0)
        assert lines.events.woken_ids == hold_ids
        await lines.stop()

    run(main)


def test_dispatch_goes_on_when_reput_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbour_module, "RETRY_SECONDS", 0.0)

    async def main() -> None:
        lines = Lines()
        await lines.start()
        failures = 1
        step = lines.reput.step

        def fail_once(epoch: int, readable: int) -> tuple[Any, Any]:
            nonlocal failures
            if failures:
                failures -= 1
                raise OSError("died")
            return step(epoch, readable)

        lines.reput._methods["step"] = fail_once
        lines.dispatch.readable(STEP_BYTES)
        while lines.reput_neighbour.attached_count < 2:
            await asyncio.sleep(0)
        lines.dispatch.attached(0)
        await lines.wait_dispatched(STEP_BYTES)
        await lines.stop()

    run(main)
