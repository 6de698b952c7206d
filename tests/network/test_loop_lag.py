"""How late the loop is, in both orders of timers and reads."""

import pytest

from wakelog.network.loop_lag import PROBE_SECONDS, QUIET_PROBES_MAX, LoopLag


def started() -> LoopLag:
    """A LoopLag whose timer was started at second 0."""
    lag = LoopLag(lambda: None)
    lag.on_read(0.0)
    return lag


def test_a_loop_on_time_is_not_behind() -> None:
    lag = started()
    assert lag.on_read(PROBE_SECONDS / 2) == 0.0
    lag.on_probe(PROBE_SECONDS)
    assert lag.on_read(PROBE_SECONDS) == 0.0


def test_a_read_before_the_late_timer_sees_the_lag() -> None:
    lag = started()
    assert lag.on_read(PROBE_SECONDS + 0.5) == pytest.approx(0.5)


def test_a_read_after_the_late_timer_sees_it_until_the_iteration_is_over() -> None:
    lag = started()
    lag.on_probe(PROBE_SECONDS + 0.5)
    assert lag.on_read(PROBE_SECONDS + 0.5) == pytest.approx(0.5)
    lag.end_iteration()
    assert lag.on_read(PROBE_SECONDS + 0.5) == 0.0


def test_the_timer_runs_while_something_was_read_lately() -> None:
    starts: list[None] = []
    lag = LoopLag(lambda: starts.append(None))
    assert not lag.is_probe_wanted
    lag.on_read(0.0)
    lag.on_read(0.01)
    assert len(starts) == 1
    for count in range(1, QUIET_PROBES_MAX + 1):
        assert lag.is_probe_wanted
        lag.on_probe(count * PROBE_SECONDS)
    assert not lag.is_probe_wanted
    assert lag.on_read(1_000.0) == 0.0
    assert lag.is_probe_wanted
    assert len(starts) == 2


def test_statistics_keep_the_last_and_the_worst_lag() -> None:
    lag = started()
    now = 0.0
    for late in (0.3, 0.1, 0.2):
        now += PROBE_SECONDS + late
        lag.on_probe(now)
    statistics = lag.statistics()
    assert statistics.last_seconds == pytest.approx(0.2)
    assert statistics.max_seconds == pytest.approx(0.3)
