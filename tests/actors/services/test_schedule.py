"""Schedule's shell: reads the delay queues as far as they are dispatched, and says what is due."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from tests.actors.bounded import on_loop
from tests.actors.plans import service_plan
from tests.actors.services.fakes import EPOCH, Events, FakeCalls, attached, broker_context
from tests.actors.stores import fill, known_of, make_service, open_plan_store
from tests.fakes.skipped_time import run_skipping
from wakelog.actors.services import schedule as schedule_module
from wakelog.actors.services.client import ServiceHandle
from wakelog.actors.services.reput import ReputService
from wakelog.actors.services.schedule import IDLE_MS, Due, ScheduleClient, ScheduleService
from wakelog.actors.services.service import ServiceHost
from wakelog.broker.schedule import ANSWER_MS, BATCH_MAX, DueMessage
from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.storage.errors import StoreFailed

DELAYED: dict[str, Any] = {"topic": SCHEDULE_TOPIC, "properties_text": "DELAY\x011"}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def take_due(
    schedule: ServiceHost[ScheduleService],
    log_begin: int,
    dispatched: int,
    delivered: Mapping[int, int],
) -> Due:
    answer = schedule.call(EPOCH, "take_due", log_begin, dispatched, delivered)
    due: Due = msgspec.convert(answer, Due)
    return due


def test_what_is_due_is_named_once_it_is_dispatched(tmp_path: Path) -> None:
    plan = service_plan(tmp_path, messageDelayLevel="1s 1h")
    reput, schedule = make_service(ReputService, plan), make_service(ScheduleService, plan)
    with open_plan_store(plan) as store:
        schedule.attach(known_of(store))
        due, wait_ms = take_due(schedule, 0, 0, {})
        assert due == [] and wait_ms == IDLE_MS
        reput.attach(known_of(store))
        # Put two seconds ago with a delay of one, so due since one.
        end = fill(store, 3, now_ms=now_ms() - 2_000, **DELAYED)
        later = fill(store, 1, begin=3, now_ms=now_ms() - 100, **DELAYED)
        reput.call(EPOCH, "step", later)
        assert take_due(schedule, 0, 0, {})[0] == []
        due, _ = take_due(schedule, 0, later, {})
        assert [(one.level, one.queue_offset) for one in due] == [(1, 0), (1, 1), (1, 2)]
        assert due[-1].physical_offset + due[-1].size_bytes == end
        due, wait_ms = take_due(schedule, 0, later, {1: 3})
        assert due == [] and 0 < wait_ms <= 1_000
        assert schedule.statistics()["positions"]["1"] == 3
        schedule.release()
        reput.release()


def test_what_is_due_is_named_again_only_once_its_report_is_late(tmp_path: Path) -> None:
    plan = service_plan(tmp_path, messageDelayLevel="1s")
    reput, schedule = make_service(ReputService, plan), make_service(ScheduleService, plan)
    with open_plan_store(plan) as store:
        for service in (reput, schedule):
            service.attach(known_of(store))
        end = fill(store, 2, now_ms=now_ms() - 2_000, **DELAYED)
        reput.call(EPOCH, "step", end)
        assert len(take_due(schedule, 0, end, {})[0]) == 2
        due, wait_ms = take_due(schedule, 0, end, {})
        assert due == [] and 0 < wait_ms <= ANSWER_MS
        schedule.release()
        reput.release()


def test_each_level_is_checked_once_its_queue_has_grown(tmp_path: Path) -> None:
    plan = service_plan(tmp_path, messageDelayLevel="1s 2s 3s")
    reput, schedule = make_service(ReputService, plan), make_service(ScheduleService, plan)
    with open_plan_store(plan) as store:
        for service in (reput, schedule):
            service.attach(known_of(store))
        for number, level in enumerate((1, 2, 3)):
            assert take_due(schedule, 0, store.log.end_offset, {})[0] == []
            properties = f"DELAY\x01{level}"
            fields = DELAYED | {"queue_id": level - 1, "properties_text": properties}
            end = fill(store, 1, now_ms=now_ms() - 10_000, **fields)
            reput.call(EPOCH, "step", end)
            due, _ = take_due(schedule, 0, end, {})
            assert [one.level for one in due] == [level], number
            take_due(schedule, 0, end, {level: 1})
        schedule.release()
        reput.release()


@pytest.mark.parametrize("written", ["true", "false"])
@pytest.mark.parametrize("are_there", [True, False])
def test_a_time_of_delivery_may_stand_in_an_extension_unit(
    tmp_path: Path, written: str, are_there: bool
) -> None:
    with_units = service_plan(tmp_path, messageDelayLevel="1s 1h", enableConsumeQueueExt="true")
    later = service_plan(tmp_path, messageDelayLevel="1s 1h", enableConsumeQueueExt=written)
    reput, schedule = make_service(ReputService, with_units), make_service(ScheduleService, later)
    with open_plan_store(with_units) as store:
        reput.attach(known_of(store))
        put_ms = now_ms()
        fill(store, 1, now_ms=put_ms - 2_000, **DELAYED)
        end = fill(store, 1, begin=1, now_ms=put_ms + 3_600_000, **DELAYED)
        reput.call(EPOCH, "step", end)
        reput.release()
        units = Path(with_units.settings.store.paths.consume_queue_extension_root)
        assert units.exists()
        if not are_there:
            # The log says when they were put, and the level how long they wait.
            rmtree(units)
        schedule.attach(known_of(store))
        queues = schedule.attached._queues
        assert queues is not None
        assert queues.ends(1, log_begin=0, dispatched=end) == (0, 2)
        due_ms = [due for _, _, due in queues.entries(1, 0, 2)]
        assert due_ms == [put_ms - 1_000, put_ms + 3_601_000]
        schedule.release()


def test_it_begins_at_the_brokers_positions(tmp_path: Path) -> None:
    plan = service_plan(tmp_path, messageDelayLevel="1s")
    reput, schedule = make_service(ReputService, plan), make_service(ScheduleService, plan)
    with open_plan_store(plan) as store:
        reput.attach(known_of(store))
        end = fill(store, 3, now_ms=now_ms() - 2_000, **DELAYED)
        reput.call(EPOCH, "step", end)
        schedule.attach(known_of(store, delay_positions={1: 2}))
        due, _ = take_due(schedule, 0, end, {})
        assert [one.queue_offset for one in due] == [2]
        schedule.release()
        reput.release()


def test_of_many_levels_that_are_due_each_has_its_turn(tmp_path: Path) -> None:
    """All 18 at once took 40 ms of the Broker's loop."""
    plan = service_plan(tmp_path, messageDelayLevel="1s 1s 1s")
    reput, schedule = make_service(ReputService, plan), make_service(ScheduleService, plan)
    with open_plan_store(plan) as store:
        reput.attach(known_of(store))
        for level in (1, 2, 3):
            delayed = DELAYED | {"queue_id": level - 1, "properties_text": f"DELAY\x01{level}"}
            begin = (level - 1) * 2 * BATCH_MAX
            end = fill(store, 2 * BATCH_MAX, begin=begin, now_ms=now_ms() - 2_000, **delayed)
        reput.call(EPOCH, "step", end)
        schedule.attach(known_of(store))
        positions: dict[int, int] = {}
        levels, due_count = [], 0
        while due := take_due(schedule, 0, end, positions)[0]:
            assert len(due) < 2 * BATCH_MAX
            due_count += len(due)
            levels.append(due[0].level)
            positions = {one.level: one.queue_offset + 1 for one in due}
        assert levels[:3] == [1, 2, 3]
        assert due_count == 6 * BATCH_MAX
        schedule.release()
        reput.release()


class FakeSchedule(FakeCalls):
    """Has so many messages of level 1 due, two at a time."""

    def __init__(self, due_count: int) -> None:
        super().__init__(take_due=self.take_due)
        self.due_count = due_count
        self.position = 0

    def take_due(
        self, epoch: int, log_begin: int, dispatched: int, delivered: Mapping[int, int]
    ) -> Any:
        assert epoch == EPOCH and log_begin == 5
        self.position = delivered.get(1, self.position)
        end = min(self.due_count, self.position + 2)
        due = [DueMessage(1, i, i * 100, 100) for i in range(self.position, end)]
        return due, 3_600_000


@asynccontextmanager
async def client_of(
    calls: FakeSchedule, events: Events, **settings: Any
) -> AsyncIterator[ScheduleClient]:
    context = broker_context(**settings)
    client = ScheduleClient(ServiceHandle("schedule", calls, context), deliver=events.deliver)
    client.grown_seconds = client.failed_seconds = 0.0
    yield await attached(client)
    await client.stop_work()
    await client.stop()


def on_dispatched(client: ScheduleClient, dispatched: int) -> None:
    client.broker.store.set_dispatched(dispatched)
    client.on_dispatched()


@on_loop
async def test_it_asks_for_what_the_queues_held_before_the_start() -> None:
    schedule, events = FakeSchedule(0), Events()
    context = broker_context()
    context.store.set_dispatched(700)
    made = ScheduleClient(ServiceHandle("schedule", schedule, context), deliver=events.deliver)
    client = await attached(made)
    while not schedule.called("take_due"):
        await asyncio.sleep(0)
    await client.stop_work()
    await client.stop()
    assert [arguments[2] for arguments in schedule.called("take_due")] == [700]


@on_loop
async def test_everything_due_is_delivered_and_reported_back() -> None:
    schedule, events = FakeSchedule(5), Events()
    async with client_of(schedule, events):
        while len(events.delivered) < 5:
            await asyncio.sleep(0)
    assert events.delivered == [DueMessage(1, i, i * 100, 100) for i in range(5)]
    reported = [arguments[3] for arguments in schedule.called("take_due")]
    assert reported[:3] == [{}, {1: 2}, {1: 4}]


@on_loop
async def test_queues_that_grow_are_asked_about_now_and_then() -> None:
    schedule, events = FakeSchedule(0), Events()
    async with client_of(schedule, events) as client:
        client.grown_seconds = 0.01
        client.on_delayed(1000)
        for dispatched in range(1, 1001):
            on_dispatched(client, dispatched)
        while not any(arguments[2] == 1000 for arguments in schedule.called("take_due")):
            await asyncio.sleep(0.001)
        assert len(schedule.called("take_due")) <= 3


@on_loop
async def test_a_disk_that_does_not_give_a_message_has_it_delivered_later() -> None:
    class OnceFailing(Events):
        async def deliver(self, due: Sequence[DueMessage]) -> Mapping[int, int]:
            if refusals:
                raise refusals.pop()
            return await super().deliver(due)

    refusals = [StoreFailed("/store", "read", OSError(5, "Input/output error"))]
    schedule, events = FakeSchedule(2), OnceFailing()
    async with client_of(schedule, events):
        while len(events.delivered) < 2:
            await asyncio.sleep(0)
    assert not refusals and len(events.delivered) == 2


@pytest.mark.parametrize(("parked_end", "asked_at"), [(100, [200]), (0, [])])
@on_loop
async def test_queues_that_hold_no_other_delayed_message_are_not_checked(
    parked_end: int, asked_at: list[int]
) -> None:
    schedule, events = FakeSchedule(0), Events()
    async with client_of(schedule, events) as client:
        while len(schedule.called("take_due")) < 1:
            await asyncio.sleep(0)
        client.on_delayed(parked_end)
        for dispatched in (200, 300):
            on_dispatched(client, dispatched)
            await asyncio.sleep(0.01)
        assert [arguments[2] for arguments in schedule.called("take_due")[1:]] == asked_at


@pytest.mark.parametrize("step_seconds", [3600.0, -3600.0])
@on_loop
async def test_a_clock_that_is_set_has_schedule_asked_again(
    monkeypatch: pytest.MonkeyPatch, step_seconds: float
) -> None:
    schedule, events = FakeSchedule(0), Events()
    monkeypatch.setattr(ScheduleClient, "clock_seconds", 0.001)
    async with client_of(schedule, events):
        await asyncio.sleep(0.05)
        asked = len(schedule.called("take_due"))
        was = time.time
        monkeypatch.setattr(schedule_module, "time", Mock(time=lambda: was() + step_seconds))
        while len(schedule.called("take_due")) == asked:
            await asyncio.sleep(0.001)


@on_loop
async def test_a_slave_delivers_nothing() -> None:
    schedule, events = FakeSchedule(5), Events()
    async with client_of(schedule, events, brokerRole="SLAVE", brokerId=1) as client:
        on_dispatched(client, 100)
        for _ in range(20):
            await asyncio.sleep(0)
        assert schedule.called("take_due") == []


Asked = list[tuple[float, int, dict[int, int]]]


def asked_meanwhile(
    steps: Sequence[tuple[float, Callable[[ScheduleClient], None]]],
    answers: Sequence[Due],
    monkeypatch: pytest.MonkeyPatch,
    events: Events | None = None,
) -> Asked:
    """Return when Schedule is asked: the time, what is dispatched, and what was delivered.

    steps: what happens at which second; the client is attached at 0 and stopped at the last one.
    """
    found: Asked = []
    left = list(answers)

    def take_due(_epoch: int, _begin: int, dispatched: int, delivered: Mapping[int, int]) -> Due:
        found.append((round(asyncio.get_running_loop().time(), 3), dispatched, dict(delivered)))
        return left.pop(0) if left else ([], 3_600_000)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(schedule_module, "time", Mock(time=lambda: loop.time() + ahead[0]))
        calls, given = FakeCalls(take_due=take_due), events or Events()
        handle = ServiceHandle("schedule", calls, broker_context())
        client = await attached(ScheduleClient(handle, deliver=given.deliver))
        for at, step in steps:
            await asyncio.sleep(at - loop.time())
            step(client)
        await client.stop_work()
        await asyncio.sleep(100)
        await client.stop()

    ahead = [1_000_000.0]
    CLOCK.clear()
    CLOCK.append(ahead)
    run_skipping(main)
    return found


CLOCK: list[list[float]] = []


def set_clock(ahead_seconds: float) -> None:
    CLOCK[0][0] += ahead_seconds


def nothing(client: ScheduleClient) -> None:
    """Let the time pass."""


def test_schedule_is_asked_when_it_said_and_soon_after_delayed_messages_are_dispatched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[tuple[float, Callable[[ScheduleClient], None]]] = [
        (6, lambda x: x.on_delayed(100)),
        (6.01, lambda x: on_dispatched(x, 50)),
        (6.05, lambda x: on_dispatched(x, 60)),  # goes with the ask that is set
        (7, lambda x: on_dispatched(x, 60)),
        (8, lambda x: on_dispatched(x, 100)),
        (9, lambda x: on_dispatched(x, 200)),  # no other delayed message is below
        (20, nothing),
    ]
    answers: list[Due] = [([], 5_000), ([], 10_000), ([], 10_000), ([], 10_000)]
    assert asked_meanwhile(steps, answers, monkeypatch) == [
        (0, 0, {}), (5, 0, {}), (6.11, 60, {}), (8.1, 100, {}), (18.1, 200, {}),
    ]  # fmt: skip


@pytest.mark.parametrize("step_seconds", [3600.0, 0.03, 0.01, 0.0, -0.01, -0.03, -3600.0])
def test_a_clock_that_is_set_is_seen_within_a_second(
    step_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[float, Callable[[ScheduleClient], None]]] = [
        (3.5, lambda x: set_clock(step_seconds)), (9, nothing),
    ]  # fmt: skip
    found = asked_meanwhile(steps, [], monkeypatch)
    assert [at for at, *_ in found] == ([0, 4] if abs(step_seconds) > 0.02 else [0])


def test_what_could_not_be_delivered_is_asked_for_a_second_later_and_said_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Failing(Events):
        async def deliver(self, due: Sequence[DueMessage]) -> Mapping[int, int]:
            if asyncio.get_running_loop().time() < 1:
                raise StoreFailed("/store", "read", OSError(5, "Input/output error"))
            return await super().deliver(due)

    due = [DueMessage(2, 7, 100, 100)]
    troubles: list[bool] = []
    steps: list[tuple[float, Callable[[ScheduleClient], None]]] = [
        (at, lambda x: troubles.append(x.refusal is not None)) for at in (0.5, 1.5)
    ]
    answers: list[Due] = [(due, 0), (due, 0), ([], 60_000)]
    found = asked_meanwhile(steps, answers, monkeypatch, Failing())
    assert found == [(0, 0, {}), (1, 0, {}), (1, 0, {2: 8})]
    assert troubles == [True, False]


def test_a_schedule_that_was_lost_is_asked_at_once_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    due = [DueMessage(2, 7, 100, 100)]
    steps: list[tuple[float, Callable[[ScheduleClient], None]]] = [
        (1, lambda x: x.mark_lost()), (9, nothing),
    ]  # fmt: skip
    found = asked_meanwhile(steps, [(due, 0), ([], 5_000), ([], 3_000)], monkeypatch)
    assert found == [(0, 0, {}), (0, 0, {2: 8}), (1.1, 0, {}), (4.1, 0, {})]
