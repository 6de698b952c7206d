"""Milliseconds of the time that everybody else's clock tells."""

import time

from wakelog.actors.links.wall_clock import wall_ms


def test_it_tells_the_time_of_day_in_milliseconds() -> None:
    before_seconds = time.time()
    now_ms = wall_ms()
    assert int(before_seconds * 1000) <= now_ms <= int(time.time() * 1000) + 1
