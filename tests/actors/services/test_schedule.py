"""Schedule's shell: reads the delay queues as far as they are dispatched, and says what is due."""

import time
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from tests.actors.plans import service_plan
from tests.actors.services.fakes import EPOCH
from tests.actors.stores import fill, known_of, open_plan_store
from wakelog.actors.services.reput import ReputService
from wakelog.actors.services.schedule import IDLE_MS, ScheduleService
from wakelog.actors.services.session import Refused
from wakelog.broker.names import SCHEDULE_TOPIC


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_what_is_due_is_named_once_it_is_dispatched(tmp_path: Path) -> None:
    plan = service_plan(tmp_path, messageDelayLevel="1s 1h")
    reput, schedule = ReputService(plan.to_builtins()), ScheduleService(plan.to_builtins())
    delayed: dict[str, Any] = {"topic": SCHEDULE_TOPIC, "properties_text": "DELAY\x011"}
    with open_plan_store(plan) as store:
        schedule.attach(known_of(store))
        due, wait_ms = schedule.look(EPOCH, 0, 0, {})
        assert due == [] and wait_ms == IDLE_MS
        reput.attach(known_of(store))
        # Put two seconds ago with a delay of one, so due since one.
        end = fill(store, 3, now_ms=now_ms() - 2_000, **delayed)
        later = fill(store, 1, begin=3, now_ms=now_ms() - 100, **delayed)
        reput.step(EPOCH, later)
        assert schedule.look(EPOCH, 0, 0, {})[0] == []
        due, _ = schedule.look(EPOCH, 0, later, {})
        assert [(level, offset) for level, offset, *_ in due] == [(1, 0), (1, 1), (1, 2)]
        assert due[-1][2] + due[-1][3] == end
        due, wait_ms = schedule.look(EPOCH, 0, later, {1: 3})
        assert due == [] and 0 < wait_ms <= 1_000
        assert schedule.statistics()["positions"]["1"] == 3
        schedule.release()
        reput.release()


@pytest.mark.parametrize("written", ["true", "false"])
@pytest.mark.parametrize("are_there", [True, False])
def test_a_time_of_delivery_may_stand_in_an_extension_unit(
    tmp_path: Path, written: str, are_there: bool
) -> None:
    with_units = service_plan(tmp_path, messageDelayLevel="1s 1h", enableConsumeQueueExt="true")
    later = service_plan(tmp_path, messageDelayLevel="1s 1h", enableConsumeQueueExt=written)
    reput, schedule = ReputService(with_units.to_builtins()), ScheduleService(later.to_builtins())
    delayed: dict[str, Any] = {"topic": SCHEDULE_TOPIC, "properties_text": "DELAY\x011"}
    with open_plan_store(with_units) as store:
        reput.attach(known_of(store))
        put_ms = now_ms()
        fill(store, 1, now_ms=put_ms - 2_000, **delayed)
        end = fill(store, 1, begin=1, now_ms=put_ms + 3_600_000, **delayed)
        reput.step(EPOCH, end)
        reput.release()
        units = Path(with_units.settings.store.paths.consume_queue_extension_root)
        assert units.exists()
        if not are_there:
            # The log says when they were put, and the level how long they wait.
            rmtree(units)
        schedule.attach(known_of(store))
        queues = schedule._queues
        assert queues is not None
        assert queues.ends(1, log_begin=0, dispatched=end) == (0, 2)
        due_ms = [due for _, _, due in queues.entries(1, 0, 2)]
        assert due_ms == [put_ms - 1_000, put_ms + 3_601_000]
        schedule.release()


def test_it_begins_at_the_brokers_positions(tmp_path: Path) -> None:
    plan = service_plan(tmp_path, messageDelayLevel="1s")
    reput, schedule = ReputService(plan.to_builtins()), ScheduleService(plan.to_builtins())
    with open_plan_store(plan) as store:
        reput.attach(known_of(store))
        delayed: dict[str, Any] = {"topic": SCHEDULE_TOPIC, "properties_text": "DELAY\x011"}
        end = fill(store, 3, now_ms=now_ms() - 2_000, **delayed)
        reput.step(EPOCH, end)
        schedule.attach(known_of(store, delay_positions={1: 2}))
        due, _ = schedule.look(EPOCH, 0, end, {})
        assert [offset for _, offset, *_ in due] == [2]
        schedule.release()
        reput.release()


def test_a_call_that_is_not_for_it_is_refused(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    schedule = ScheduleService(plan.to_builtins())
    with pytest.raises(Refused):
        schedule.look(EPOCH, 0, 0, {})
    with open_plan_store(plan) as store:
        schedule.attach(known_of(store))
        with pytest.raises(Refused):
            schedule.look(EPOCH + 1, 0, 0, {})
        schedule.release()
