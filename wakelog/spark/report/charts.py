"""Pictures as SVG: stacked columns and lines, with axes, and the numbers where a pointer rests.

Colours are classes, `c0` to `c6`, that the page's style gives values to, by light and dark.

Invariants: a picture has a name for those who do not see it; its numbers are in the page as text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from wakelog.spark.report.markup import Markup, element, joined

WIDTH: Final = 560
HEIGHT: Final = 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 10, 10, 26
_PLOT_WIDTH: Final = WIDTH - _LEFT - _RIGHT
_PLOT_HEIGHT: Final = HEIGHT - _TOP - _BOTTOM
_FLOOR: Final = HEIGHT - _BOTTOM
_GAP_MAX: Final = 2.0
"""Between two columns; of narrow ones a fifth."""

Value = float | None
"""None: nothing is known there."""


class Series(NamedTuple):
    """One colour: its name, a value for each slot, and which colour."""

    name: str
    values: Sequence[Value]
    colour: int


class Axis(NamedTuple):
    """The vertical axis: its ticks from the lowest to the top, and how a value is written."""

    ticks: Sequence[float]
    label: Callable[[float], str]
    is_log: bool = False

    def share(self, value: float) -> float:
        """Return how far up a value is, 0 to 1."""
        top = self.ticks[-1]
        if self.is_log:
            return min(math.log1p(max(value, 0)) / math.log1p(top), 1)
        return min(value / top, 1)

    def y(self, value: float) -> float:
        """Return the height of a value in the picture."""
        return _FLOOR - self.share(value) * _PLOT_HEIGHT


class Slots(NamedTuple):
    """The horizontal axis: a name for each slot, and labels at some places, in slots."""

    names: Sequence[str]
    labels: Sequence[tuple[float, str]]

    def x(self, place: float) -> float:
        """Return where a place is in the picture."""
        return _LEFT + place / max(len(self.names), 1) * _PLOT_WIDTH


def columns(name: str, series: Sequence[Series], slots: Slots, axis: Axis) -> Markup:
    """Draw each slot's values on top of one another."""
    width = slots.x(1) - slots.x(0)
    gap = min(_GAP_MAX, width / 5)
    bars = []
    for slot in range(len(slots.names)):
        below = 0.0
        for each in series:
            value = each.values[slot] or 0.0
            if value > 0:
                top, bottom = axis.y(below + value), axis.y(below)
                bars.append(
                    element(
                        "rect",
                        class_=f"c{each.colour}",
                        x=slots.x(slot) + gap / 2,
                        y=top,
                        width=width - gap,
                        height=max(bottom - top, 0.5),
                    )
                )
            below += value
    return _picture(name, series, slots, axis, joined(*bars))


def lines(name: str, series: Sequence[Series], slots: Slots, axis: Axis) -> Markup:
    """Draw each series as a line through the middles of its slots, broken where nothing is."""
    drawn = []
    for each in series:
        for begin, end in _runs(each.values):
            points = [
                (slots.x(slot + 0.5), axis.y(value))
                for slot in range(begin, end)
                if (value := each.values[slot]) is not None
            ]
            if len(points) == 1:
                [(x, y)] = points
                drawn.append(element("circle", class_=f"c{each.colour}", cx=x, cy=y, r=2.5))
            else:
                path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
                drawn.append(element("polyline", class_=f"l{each.colour}", points=path))
    return _picture(name, series, slots, axis, joined(*drawn))


def legend(series: Sequence[Series]) -> Markup:
    """Say which colour is what."""
    items = [
        element("li", element("i", "\u00a0", class_=f"k{each.colour}"), each.name)
        for each in series
    ]
    return element("ul", *items, class_="legend")


def _runs(values: Sequence[Value]) -> list[tuple[int, int]]:
    """Return the stretches [begin, end) in which every value is known."""
    known = [slot for slot, value in enumerate(values) if value is not None]
    runs: list[tuple[int, int]] = []
    for slot in known:
        if runs and runs[-1][1] == slot:
            runs[-1] = runs[-1][0], slot + 1
        else:
            runs.append((slot, slot + 1))
    return runs


def _picture(
    name: str, series: Sequence[Series], slots: Slots, axis: Axis, drawing: Markup
) -> Markup:
    parts = [element("title", name), *_grid(axis), drawing, *_bottom(slots)]
    parts += [_slot(series, slots, axis, slot) for slot in range(len(slots.names))]
    return element("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=name)


def _grid(axis: Axis) -> list[Markup]:
    parts = []
    for value in axis.ticks:
        y = axis.y(value)
        parts.append(element("line", class_="grid", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y, y2=y))
        label = axis.label(value)
        parts.append(element("text", label, x=_LEFT - 6, y=y + 4, text_anchor="end"))
    return parts


def _bottom(slots: Slots) -> list[Markup]:
    parts = []
    for place, label in slots.labels:
        x = slots.x(place)
        parts.append(element("line", class_="tick", x1=x, x2=x, y1=_FLOOR, y2=_FLOOR + 4))
        parts.append(element("text", label, x=x, y=HEIGHT - 8, text_anchor=_anchor(x)))
    return parts


def _anchor(x: float) -> str:
    """Keep the words of the last tick inside the picture."""
    return "end" if x > WIDTH - _RIGHT - 18 else "middle"


def _slot(series: Sequence[Series], slots: Slots, axis: Axis, slot: int) -> Markup:
    """Return what a pointer rests on, with the slot's numbers as its title."""
    said = [slots.names[slot]]
    for each in series:
        value = each.values[slot]
        if value:
            said.append(f"{each.name}: {axis.label(value)}")
    return element(
        "rect",
        element("title", "\n".join(said)),
        class_="slot",
        x=slots.x(slot),
        y=_TOP,
        width=slots.x(1) - slots.x(0),
        height=_PLOT_HEIGHT,
    )
