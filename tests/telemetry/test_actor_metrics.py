"""Actors as they are counted: attached, called, waited for."""

from typing import Any

import pytest

from tests.telemetry.traffic import value_of
from wakelog.actors.services.table import SERVICES

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_is_attached_once(service: str, statistics: dict[str, Any]) -> None:
    assert value_of(statistics, "rocketmq_actor_attached", actor=service) == 1
    assert value_of(statistics, "rocketmq_actor_attaches", actor=service) == 1


@pytest.mark.parametrize("kind", ["attach", "allocate", "delay", "dispatch", "retention", "wake"])
def test_references_are_counted_by_kind(kind: str, statistics: dict[str, Any]) -> None:
    assert value_of(statistics, "rocketmq_actor_references", kind=kind) > 0


def test_a_held_pull_is_woken_by_its_message(statistics: dict[str, Any]) -> None:
    assert value_of(statistics, "rocketmq_longpoll_wakes", cause="arrival") == 1
    assert value_of(statistics, "rocketmq_longpoll_held_requests") == 0


def test_work_off_the_loop_is_counted(statistics: dict[str, Any]) -> None:
    assert value_of(statistics, "rocketmq_pool_requests") > 0
    assert value_of(statistics, "rocketmq_pool_waiting_requests") == 0
    assert value_of(statistics, "rocketmq_table_saves", role="broker") > 0
    assert value_of(statistics, "rocketmq_table_save_failures", role="broker") == 0
    assert value_of(statistics, "rocketmq_registrations") >= 1
    assert value_of(statistics, "rocketmq_registration_failures") == 0
