"""Milliseconds of the time that everybody else's clock tells, and of one that nobody sets."""

import time
from unittest.mock import Mock

import pytest

from wakelog.actors.transport.clocks import steady_ms, wall_ms


def test_it_returns_the_time_of_day_in_milliseconds() -> None:
    before_seconds = time.time()
    now_ms = wall_ms()
    assert int(before_seconds * 1000) <= now_ms <= int(time.time() * 1000) + 1


def test_a_steady_clock_does_not_know_the_time_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    before_ms = steady_ms()
    monkeypatch.setattr(time, "time_ns", Mock(return_value=0))
    assert wall_ms() == 0
    assert before_ms <= steady_ms() <= before_ms + 60_000
