"""Lengths of intervals, and how times, sizes and durations are written.

Times are milliseconds since 1970 and are written in UTC.
"""

from datetime import UTC, datetime
from typing import Final

SECOND_MS: Final = 1000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
STEPS_MS: Final = (
    *(n * SECOND_MS for n in (1, 2, 5, 10, 30)),
    *(n * MINUTE_MS for n in (1, 2, 5, 10, 30)),
    *(n * HOUR_MS for n in (1, 2, 6, 12)),
    *(n * DAY_MS for n in (1, 2, 7, 14, 30, 90, 360)),
)
"""Lengths that people count time in."""

_UNITS: Final = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def step_ms(span_ms: int, steps_max: int) -> int:
    """Return the shortest usual length of which at most `steps_max` cover a span."""
    for step in STEPS_MS:
        if span_ms <= step * steps_max:
            return step
    return -(-span_ms // (steps_max * DAY_MS)) * DAY_MS


def moment(time_ms: int) -> str:
    """Write a time to the second."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def compact(value: float) -> str:
    """Write a number in at most three digits and a unit: 1.5k."""
    for unit, letter in _UNITS:
        if value >= unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:.3g}"


def size(value: float) -> str:
    """Write a count of bytes: 1.5 MB."""
    for unit, letter in _UNITS:
        if value >= unit:
            return f"{value / unit:.3g} {letter}B"
    return f"{value:.3g} B"


def duration(value_ms: float | None) -> str:
    """Write milliseconds as people say them: 12 ms, 1.5 s, 3 h; a dash for None."""
    if value_ms is None:
        return "-"
    for unit_ms, name in ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s")):
        if abs(value_ms) >= unit_ms:
            return f"{value_ms / unit_ms:.3g} {name}"
    return f"{value_ms:.3g} ms"
