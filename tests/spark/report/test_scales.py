"""Lengths of intervals, and short texts."""

from wakelog.spark.report.scales import DAY_MS, SECOND_MS, compact, duration, moment, size, step_ms

MIDNIGHT_MS = 1_767_225_600_000  # 2026-01-01


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
    assert [duration(x) for x in (-3, 12, 1500, 90_000, 2 * DAY_MS)] == [
        "-3 ms", "12 ms", "1.5 s", "1.5 min", "2 d",
    ]  # fmt: skip
    assert duration(None) == "-"
    assert moment(MIDNIGHT_MS) == "2026-01-01 00:00:00"
