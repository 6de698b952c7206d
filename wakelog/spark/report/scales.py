"""Axes: which ticks, and what is written beside them.

Times are milliseconds since 1970 and are shown in UTC, of which the page says so once.

Invariants: ticks go up, and their labels differ.
"""

from __future__ import annotations

import math
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

_DURATIONS_MS: Final = (
    *(0, 10, 100, SECOND_MS, 10 * SECOND_MS),
    *(MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, 2 * DAY_MS, 10 * DAY_MS),
)
_UNITS: Final = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def step_ms(span_ms: int, steps_max: int) -> int:
    """Return the shortest of the usual lengths of which so few cover a span."""
    for step in STEPS_MS:
        if span_ms <= step * steps_max:
            return step
    return -(-span_ms // (steps_max * DAY_MS)) * DAY_MS


def ticks(top: float, count: int = 4) -> list[float]:
    """Return round numbers from 0, the last of them at `top` or above it."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]


def duration_ticks(top_ms: float) -> list[float]:
    """Return lengths of time for a logarithmic axis, the last of them at `top_ms` or above it."""
    lengths = [*_DURATIONS_MS]
    while lengths[-1] < top_ms:
        lengths.append(lengths[-1] * 10)
    count = next(i for i, length in enumerate(lengths) if length >= top_ms)
    return [float(length) for length in lengths[: max(count, 1) + 1]]


def time_ticks(begin_ms: int, end_ms: int, count: int = 7) -> list[int]:
    """Return moments of [begin, end] that are whole multiples of a usual length."""
    step = step_ms(max(end_ms - begin_ms, 1), count)
    return list(range(-(-begin_ms // step) * step, end_ms + 1, step))


def time_labels(moments: list[int]) -> list[str]:
    """Return what to write at ticks: the time of day, or the day where one begins."""
    step = moments[1] - moments[0] if len(moments) > 1 else MINUTE_MS
    return [_label(moment, step) for moment in moments]


def _label(moment: int, step: int) -> str:
    when = datetime.fromtimestamp(moment / 1000, UTC)
    if step >= 360 * DAY_MS:
        return f"{when:%Y-%m}"
    if step >= DAY_MS or moment % DAY_MS == 0:
        return f"{when:%m-%d}"
    return f"{when:%H:%M:%S}" if step < MINUTE_MS else f"{when:%H:%M}"


def moment(time_ms: int) -> str:
    """Write a time to the second."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def span(length_ms: int) -> str:
    """Write a length of time in its largest whole unit: 5 minutes."""
    for unit_ms, name in (
        (DAY_MS, "day"),
        (HOUR_MS, "hour"),
        (MINUTE_MS, "minute"),
        (SECOND_MS, "second"),
    ):
        if length_ms % unit_ms == 0:
            count = length_ms // unit_ms
            return f"{count} {name}{'s' if count > 1 else ''}"
    return f"{length_ms} ms"


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


def binary_size(value: int) -> str:
    """Write a power of two of bytes: 512, 4 K."""
    for shift, letter in ((30, "G"), (20, "M"), (10, "K")):
        if value >= 1 << shift:
            return f"{value >> shift}{letter}"
    return str(value)


def duration(value_ms: float) -> str:
    """Write milliseconds as people say them: 12 ms, 1.5 s, 3 h."""
    for unit_ms, name in ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s")):
        if value_ms >= unit_ms:
            return f"{value_ms / unit_ms:.3g} {name}"
    return f"{value_ms:.3g} ms"
