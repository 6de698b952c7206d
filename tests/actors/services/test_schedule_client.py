"""Schedule is asked when something may be due; what it says is delivered, and told back."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import Mock

import pytest

from tests.actors.bounded import run
from tests.actors.services.fakes import EPOCH, Events, FakeCalls, attached_client
from wakelog.actors.services import schedule_client
from wakelog.actors.services.schedule_client import ScheduleClient
from wakelog.broker.schedule import DueMessage
from wakelog.storage.errors import StoreFailed


class FakeSchedule(FakeCalls):
    """Has so many messages of level 1 due, two at a time."""

    def __init__(self, due_count: int) -> None:
        super().__init__(look=self.look)
        self.due_count = due_count
        self.position = 0

    def look(
        self, epoch: int, log_begin: int, dispatched: int, delivered: Mapping[int, int]
    ) -> Any:
        assert epoch == EPOCH and log_begin == 5
        self.position = delivered.get(1, self.position)
        end = min(self.due_count, self.position + 2)
        due = [(1, offset, offset * 100, 100) for offset in range(self.position, end)]
        return due, 3_600_000


async def notifier_to(schedule: FakeSchedule, events: Events) -> ScheduleClient:
    client = await attached_client(schedule)
    return ScheduleClient(client, EPOCH, events.deliver, lambda: 5, log_end=0)


def test_everything_due_is_delivered_and_told_back() -> None:
    async def main() -> None:
        schedule, events = FakeSchedule(5), Events()
        line = await notifier_to(schedule, events)
        line.attached()
        while len(events.delivered) < 5:
            await asyncio.sleep(0)
        await line.stop()
        assert events.delivered == [DueMessage(1, i, i * 100, 100) for i in range(5)]
        told = [arguments[3] for arguments in schedule.called("look")]
        assert told[:3] == [{}, {1: 2}, {1: 4}]
        assert line.statistics() == {"delivered_count": 5}

    run(main)


def test_queues_that_grow_are_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_client, "GROWN_SECONDS", 0.01)

    async def main() -> None:
        schedule, events = FakeSchedule(0), Events()
        line = await notifier_to(schedule, events)
        line.attached()
        line.parked(1000)
        for dispatched in range(1, 1001):
            line.grown(dispatched)
        while not any(arguments[2] == 1000 for arguments in schedule.called("look")):
            await asyncio.sleep(0.001)
        assert len(schedule.called("look")) <= 3
        await line.stop()

    run(main)


def test_a_disk_that_does_not_give_a_message_has_it_delivered_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schedule_client, "FAILED_SECONDS", 0.0)

    class OnceFailing(Events):
        async def deliver(self, due: Sequence[DueMessage]) -> Mapping[int, int]:
            if refusals:
                raise refusals.pop()
            return await super().deliver(due)

    refusals = [StoreFailed("/store", "read", OSError(5, "Input/output error"))]

    async def main() -> None:
        schedule, events = FakeSchedule(2), OnceFailing()
        line = await notifier_to(schedule, events)
        line.attached()
        while len(events.delivered) < 2:
            await asyncio.sleep(0)
        await line.stop()
        assert not refusals and line.statistics() == {"delivered_count": 2}

    run(main)


@pytest.mark.parametrize(("parked_end", "asked_at"), [(100, [200]), (0, [])])
def test_queues_that_hold_no_other_delayed_message_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, parked_end: int, asked_at: list[int]
) -> None:
    monkeypatch.setattr(schedule_client, "GROWN_SECONDS", 0.0)

    async def main() -> None:
        schedule, events = FakeSchedule(0), Events()
        line = await notifier_to(schedule, events)
        line.attached()
        while len(schedule.called("look")) < 1:
            await asyncio.sleep(0)
        line.parked(parked_end)
        for dispatched in (200, 300):
            line.grown(dispatched)
            await asyncio.sleep(0.01)
        assert [arguments[2] for arguments in schedule.called("look")[1:]] == asked_at
        await line.stop()

    run(main)


@pytest.mark.parametrize("step_seconds", [3600.0, -3600.0])
def test_a_clock_that_is_set_has_schedule_asked_again(
    monkeypatch: pytest.MonkeyPatch, step_seconds: float
) -> None:
    monkeypatch.setattr(schedule_client, "CLOCK_SECONDS", 0.001)

    async def main() -> None:
        schedule, events = FakeSchedule(0), Events()
        line = await notifier_to(schedule, events)
        line.attached()
        await asyncio.sleep(0.05)
        asked = len(schedule.called("look"))
        was = time.time
        monkeypatch.setattr(schedule_client, "time", Mock(time=lambda: was() + step_seconds))
        while len(schedule.called("look")) == asked:
            await asyncio.sleep(0.001)
        await line.stop()

    run(main)


def test_a_slave_delivers_nothing() -> None:
    async def main() -> None:
        schedule, events = FakeSchedule(5), Events()
        client = await attached_client(schedule)
        line = ScheduleClient(client, EPOCH, events.deliver, lambda: 5, log_end=0, delivers=False)
        line.attached()
        line.grown(100)
        for _ in range(20):
            await asyncio.sleep(0)
        assert schedule.called("look") == []
        await line.stop()

    run(main)
