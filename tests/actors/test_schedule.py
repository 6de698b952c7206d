"""Schedule's shell: reads the delay queues as far as they are dispatched, and says what is due."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.actors.links.fakes import EPOCH
from tests.actors.plans import service_plan
from tests.actors.stores import fill, known_of, open_plan_store
from wakelog.actors.links.station import Refused
from wakelog.actors.reput import ReputService
from wakelog.actors.schedule import ScheduleService
from wakelog.broker.names import SCHEDULE_TOPIC


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_what_is_due_is_named_once_it_is_dispatched(tmp_path: Path) -> None:
    plan = service_plan(tmp_path, messageDelayLevel="1s 1h")
    reput, schedule = ReputService(plan.to_builtins()), ScheduleService(plan.to_builtins())
    delayed: dict[str, Any] = {"topic": SCHEDULE_TOPIC, "properties_text": "DELAY\x011"}
    with open_plan_store(plan) as store:
        schedule.attach(known_of(store))
        due, next_look_ms = schedule.look(EPOCH, 0, 0, {})
        assert due == [] and next_look_ms > now_ms()
        reput.attach(known_of(store))
        # Put two seconds ago with a delay of one, so due since one.
        end = fill(store, 3, now_ms=now_ms() - 2_000, **delayed)
        later = fill(store, 1, begin=3, now_ms=now_ms() - 100, **delayed)
        reput.step(EPOCH, later)
        assert schedule.look(EPOCH, 0, 0, {})[0] == []
        due, _ = schedule.look(EPOCH, 0, later, {})
        assert [(level, offset) for level, offset, *_ in due] == [(1, 0), (1, 1), (1, 2)]
        assert due[-1][2] + due[-1][3] == end
        due, next_look_ms = schedule.look(EPOCH, 0, later, {1: 3})
        assert due == [] and next_look_ms > now_ms()
        assert schedule.statistics()["positions"]["1"] == 3
        schedule.release()
        reput.release()


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
