"""Small charts as SVG. They need no script and no style: what is coloured has a class.

Lines share the axis of time: the points of all are those of one history.
"""

import math
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup, escape

LINE_WIDTH: Final = 96
LINE_HEIGHT: Final = 20
POINTS_MAX: Final = 60
BAR_WIDTH: Final = 60
BAR_HEIGHT: Final = 8
_EDGE: Final = 1.5
"""So that half a stroke is not cut off."""


def line(values: Sequence[float], label: str = "", *, width: int = LINE_WIDTH) -> Markup:
    """Return the course of a number, from 0 or its least one up; gaps where it is not known."""
    points = thinned(values, POINTS_MAX)
    known = [x for x in points if not math.isnan(x)]
    if len(known) < 2:
        return Markup("")
    low, high = min(0.0, *known), max(known)
    tall = (high - low) or 1.0
    step = (width - 2 * _EDGE) / max(1, len(points) - 1)
    runs: list[list[str]] = [[]]
    for at, value in enumerate(points):
        if math.isnan(value):
            runs.append([])
            continue
        up = (value - low) / tall * (LINE_HEIGHT - 2 * _EDGE)
        runs[-1].append(f"{_EDGE + at * step:.1f},{LINE_HEIGHT - _EDGE - up:.1f}")
    drawn = "".join(
        f'<polyline points="{" ".join(run if len(run) > 1 else run * 2)}"/>' for run in runs if run
    )
    return Markup(
        f'<svg class="line" width="{width}" height="{LINE_HEIGHT}" role="img" '
        f'viewBox="0 0 {width} {LINE_HEIGHT}" aria-label="{escape(label)}">{drawn}</svg>'
    )


def bar(ratio: float | None, label: str = "") -> Markup:
    """Return a part of one as a bar."""
    if ratio is None or math.isnan(ratio):
        return Markup("")
    filled = min(1.0, max(0.0, ratio)) * BAR_WIDTH
    return Markup(
        f'<svg class="bar" width="{BAR_WIDTH}" height="{BAR_HEIGHT}" role="img" '
        f'viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" aria-label="{escape(label)}">'
        f'<rect class="track" width="{BAR_WIDTH}" height="{BAR_HEIGHT}" rx="2"/>'
        f'<rect class="filled" width="{filled:.1f}" height="{BAR_HEIGHT}" rx="2"/></svg>'
    )


def thinned(values: Sequence[float], points_max: int) -> list[float]:
    """Return at most so many points: the largest of each part."""
    if len(values) <= points_max:
        return list(values)
    found = []
    for at in range(points_max):
        part = values[at * len(values) // points_max : (at + 1) * len(values) // points_max]
        known = [x for x in part if not math.isnan(x)]
        found.append(max(known) if known else math.nan)
    return found
