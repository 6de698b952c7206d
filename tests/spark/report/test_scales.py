"""Ticks and labels."""

from __future__ import annotations

import pytest

from wakelog.spark.report.scales import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    binary_size,
    compact,
    duration,
    duration_ticks,
    moment,
    size,
    span,
    step_ms,
    ticks,
    time_labels,
    time_ticks,
)

MIDNIGHT_MS = 1_767_225_600_000  # 2026-01-01


@pytest.mark.parametrize("top", [0, 0.004, 1, 3, 7, 99, 100, 101, 12_345, 7e12])
def test_ticks_reach_from_nothing_to_the_top_in_round_steps(top: float) -> None:
    found = ticks(top)
    assert found[0] == 0 and found[-1] >= top
    assert 2 <= len(found) <= 6
    assert len({compact(value) for value in found}) == len(found)


def test_ticks_of_a_logarithmic_axis_are_lengths_that_people_say() -> None:
    assert duration_ticks(0) == duration_ticks(10) == [0, 10]
    assert duration_ticks(1000) == [0, 10, 100, 1000]
    assert [duration(x) for x in duration_ticks(30_000)][-2:] == ["10 s", "1 min"]
    assert duration_ticks(40 * DAY_MS)[-1] == 100 * DAY_MS


@pytest.mark.parametrize(
    ("span_ms", "labels"),
    [
        (5 * SECOND_MS, ["01-01", "00:00:01", "00:00:02", "00:00:03", "00:00:04", "00:00:05"]),
        (2 * HOUR_MS, ["01-01", "00:30", "01:00", "01:30", "02:00"]),
        (DAY_MS, ["01-01", "06:00", "12:00", "18:00", "01-02"]),
        (3 * DAY_MS, ["01-01", "12:00", "01-02", "12:00", "01-03", "12:00", "01-04"]),
        (5 * DAY_MS, ["01-01", "01-02", "01-03", "01-04", "01-05", "01-06"]),
    ],
)
def test_ticks_of_time_are_whole_multiples_and_say_the_day_where_one_begins(
    span_ms: int, labels: list[str]
) -> None:
    assert time_labels(time_ticks(MIDNIGHT_MS, MIDNIGHT_MS + span_ms)) == labels


def test_a_step_covers_a_span_with_few() -> None:
    assert step_ms(1, 100) == SECOND_MS
    assert step_ms(100 * SECOND_MS, 100) == SECOND_MS
    assert step_ms(100 * SECOND_MS + 1, 100) == 2 * SECOND_MS
    assert step_ms(1000 * 360 * DAY_MS, 100) * 100 >= 1000 * 360 * DAY_MS


def test_numbers_are_short() -> None:
    assert [compact(x) for x in (0, 0.5, 999, 1500, 2_345_678)] == [
        "0",
        "0.5",
        "999",
        "1.5k",
        "2.35M",
    ]
    assert [size(x) for x in (12, 1_500_000)] == ["12 B", "1.5 MB"]
    assert [binary_size(1 << x) for x in (9, 12, 21)] == ["512", "4K", "2M"]
    assert [duration(x) for x in (-3, 12, 1500, 90_000, 2 * DAY_MS)] == [
        "-3 ms", "12 ms", "1.5 s", "1.5 min", "2 d",
    ]  # fmt: skip
    assert [span(x) for x in (SECOND_MS, 5 * MINUTE_MS, 1500)] == [
        "1 second",
        "5 minutes",
        "1500 ms",
    ]
    assert moment(MIDNIGHT_MS) == "2026-01-01 00:00:00"
