"""Durations counted by upper bound."""

import pytest

from wakelog.telemetry.histogram import LATENCY_BOUNDS_SECONDS, Histogram


@pytest.mark.parametrize(
    ("seconds", "place"),
    [(0.0, 0), (0.1, 0), (0.1000001, 1), (1.0, 1), (2.0, 2), (2.5, 3), (1e9, 3)],
)
def test_a_bound_includes_its_own_value(seconds: float, place: int) -> None:
    histogram = Histogram((0.1, 1.0, 2.0))
    histogram.observe(seconds)
    assert histogram.statistics()["counts"] == [int(index == place) for index in range(4)]
    assert histogram.statistics()["sum_seconds"] == seconds


def test_statistics_are_a_copy() -> None:
    histogram = Histogram()
    before = histogram.statistics()
    histogram.observe(0.001)
    assert sum(before["counts"]) == 0
    assert sum(histogram.statistics()["counts"]) == 1
    assert before["bounds_seconds"] == list(LATENCY_BOUNDS_SECONDS)


def test_bounds_have_to_increase() -> None:
    with pytest.raises(AssertionError):
        Histogram((1.0, 1.0))
