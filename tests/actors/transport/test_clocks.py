"""Milliseconds of the time that everybody else's clock tells, and of one that nobody sets."""

import time
from unittest.mock import Mock

import pytest

from wakelog.actors.transport import clocks
from wakelog.actors.transport.clocks import SteadyClock, steady_ms, wall_ms


def test_it_returns_the_time_of_day_in_milliseconds() -> None:
    before_seconds = time.time()
    now_ms = wall_ms()
    assert int(before_seconds * 1000) <= now_ms <= int(time.time() * 1000) + 1


def test_a_steady_clock_does_not_know_the_time_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    before_ms = steady_ms()
    monkeypatch.setattr(time, "time_ns", Mock(return_value=0))
    assert wall_ms() == 0
    assert before_ms <= steady_ms() <= before_ms + 60_000


def test_a_steady_clock_goes_on_whatever_is_done_to_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = {"wall": 5_000, "steady": 70}
    monkeypatch.setattr(clocks, "wall_ms", lambda: now["wall"])
    monkeypatch.setattr(clocks, "steady_ms", lambda: now["steady"])
    clock = SteadyClock()
    assert clock.now_ms() == 5_000
    now["wall"] += 3_600_000
    now["steady"] += 8
    assert clock.now_ms() == 5_008
