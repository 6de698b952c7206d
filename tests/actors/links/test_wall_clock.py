"""Milliseconds of the time that everybody else's clock tells."""

import time

import pytest

from wakelog.actors.links import wall_clock
from wakelog.actors.links.wall_clock import SteadyClock, wall_ms


def test_it_tells_the_time_of_day_in_milliseconds() -> None:
    before_seconds = time.time()
    now_ms = wall_ms()
    assert int(before_seconds * 1000) <= now_ms <= int(time.time() * 1000) + 1


def test_a_steady_clock_goes_on_whatever_is_done_to_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = {"wall": 5_000, "steady": 70}
    monkeypatch.setattr(wall_clock, "wall_ms", lambda: now["wall"])
    monkeypatch.setattr(wall_clock, "steady_ms", lambda: now["steady"])
    clock = SteadyClock()
    assert clock.now_ms() == 5_000
    now["wall"] += 3_600_000
    now["steady"] += 8
    assert clock.now_ms() == 5_008
