"""Multiples, verdicts, tables and the picture of the curves, made from their results alone.

A multiple is a cost at a point by the same cost at the first point of the curve, of the same side
in the same round. A curve bends up at a point if wakelog's multiple is over 4.9.3's by more than
the spread, and over the least that it has been before: a cost that has only fallen bends nowhere.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.curve_rows import CURVES, Curve, size_text
from benchmarks.pairs import Pair
from benchmarks.picture import ABOUT, COST, OPEN
from benchmarks.rows import Figure
from benchmarks.sides import OWN_NAME, RocketMQ

PICTURE_NAME = "curves.svg"
SIDES = {OWN_NAME: ("wakelog", ABOUT), RocketMQ.name: ("4.9.3", COST)}

SPREAD_LEAST = 0.1
"""Of a multiple: what one run differs from the next by, if there were no rounds to say so."""

BENDS, WITHIN, STRAIGHT, UNKNOWN = "bends up", "within the spread", "no", "not measured"

Points = Mapping[str, Sequence[Pair]]
"""The size of a point, as text, to its rounds; a round that failed is empty."""

PANEL_WIDTH, PANEL_HEIGHT = 215, 170
LEFT, TOP, GAP_X, GAP_Y = 40, 76, 46, 64
PANELS_IN_ROW = 4

TEXT = """`./dev bench curves`: what a size costs as it grows. A value is the median of the rounds.
In brackets stands its multiple of the same side's first point, with the least and the greatest of
the rounds. A curve *bends up* at a point if two things hold of wakelog's multiple there. It is over
that of RocketMQ 4.9.3 by more than the spread. It is over the least that it has been before. The
spread is the widest of both sides' rounds there, and 10 % at least. *Within the spread* says: over
it, by less than that.
[How to read them](../README.md#curves)."""


class Multiple(NamedTuple):
    """Of the first point, over the rounds."""

    median: float
    least: float
    greatest: float

    @property
    def spread(self) -> float:
        """How far the rounds lie apart."""
        return self.greatest - self.least


def values(points: Points, size: int, side: str, figure: Figure) -> list[float]:
    """Return a figure of a side at a point, round by round."""
    return [pair[side][figure.name] for pair in points.get(str(size), ()) if pair]


def multiple(curve: Curve, points: Points, size: int, side: str, figure: Figure) -> Multiple | None:
    """Return a point's multiple of the first, None if no round has both."""
    rounds = zip(points.get(str(curve.sizes[0]), ()), points.get(str(size), ()), strict=False)
    found = [
        here[side][figure.name] / first[side][figure.name]
        for first, here in rounds
        if first and here
    ]
    return Multiple(statistics.median(found), min(found), max(found)) if found else None


def verdict(curve: Curve, points: Points, size: int, figure: Figure) -> str:
    """Say whether a cost of wakelog bends up at a point where that of 4.9.3 does not."""
    own, other = (multiple(curve, points, size, side, figure) for side in SIDES)
    if own is None or other is None:
        return UNKNOWN
    before = [
        found.median
        for earlier in curve.sizes[: curve.sizes.index(size)]
        if (found := multiple(curve, points, earlier, OWN_NAME, figure))
    ]
    over = own.median - other.median
    least_spread = SPREAD_LEAST * other.median
    if over <= least_spread or own.median <= min(before, default=1.0) * (1 + SPREAD_LEAST):
        return STRAIGHT
    return BENDS if over > max(own.spread, other.spread, least_spread) else WITHIN


def bends(curve: Curve, points: Points) -> list[str]:
    """Return where a curve bends up, in words."""
    return [
        f"{figure.unit}, at {size_text(curve, size)}"
        for figure in curve.costs
        for size in sizes_of(curve, points)[1:]
        if verdict(curve, points, size, figure) == BENDS
    ]


def sizes_of(curve: Curve, points: Points) -> tuple[int, ...]:
    """Return the sizes that were measured, which the log's option may change."""
    return tuple(sorted(int(size) for size in points)) or curve.sizes


def render_page(results: Mapping[str, Any]) -> str:
    """Return the page."""
    lines = ["# Curves", "", TEXT, "", f"![Multiples of each curve]({PICTURE_NAME})", ""]
    lines += ["| curve | points | bends up |", "| --- | --- | --- |"]
    measured = _measured(results)
    for curve in measured:
        found = "; ".join(bends(curve, results[curve.name]["points"])) or "nowhere"
        ends = " to ".join(size_text(curve, size) for size in (curve.sizes[0], curve.sizes[-1]))
        lines.append(f"| {curve.name} | {ends} {curve.unit} | {found} |")
    waiting = [curve.name for curve in CURVES if curve.name not in results]
    if waiting:
        lines += ["", f"Not measured yet: {', '.join(waiting)}."]
    for curve in measured:
        lines += ["", f"## {curve.name}", "", curve.about, "", *_machine(results[curve.name]), ""]
        lines += table(curve, results[curve.name]["points"])
    return "\n".join(lines) + "\n"


def table(curve: Curve, points: Points) -> Iterator[str]:
    """Yield the lines of a curve's table."""
    names = [name for name, _ in SIDES.values()]
    heads = [f"{figure.unit}: {names[0]} | {names[1]} | bends up" for figure in curve.costs]
    heads += [f"{figure.unit}: {names[0]} | {names[1]}" for figure in curve.shown]
    cells_count = 3 * len(curve.costs) + 2 * len(curve.shown)
    yield f"| {curve.unit} | {' | '.join(heads)} |"
    yield f"| ---: |{' ---: |' * cells_count}"
    for size in curve.sizes:
        cells = [size_text(curve, size)]
        for figure in curve.costs:
            cells += [_cell(curve, points, size, side, figure) for side in SIDES]
            cells.append("" if size == curve.sizes[0] else verdict(curve, points, size, figure))
        for figure in curve.shown:
            for side in SIDES:
                found = values(points, size, side, figure)
                cells.append(_number(statistics.median(found)) if found else "")
        yield f"| {' | '.join(cells)} |"


def _cell(curve: Curve, points: Points, size: int, side: str, figure: Figure) -> str:
    found = values(points, size, side, figure)
    times = multiple(curve, points, size, side, figure)
    if not found or times is None:
        return ""
    shown = _number(statistics.median(found))
    if size == curve.sizes[0]:
        return f"{shown} (1)"
    spread = f" [{times.least:.2f}, {times.greatest:.2f}]" if times.spread else ""
    return f"{shown} ({times.median:.2f}{spread})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _measured(results: Mapping[str, Any]) -> list[Curve]:
    """Return the curves that were measured, with the sizes of that."""
    return [
        curve._replace(sizes=sizes_of(curve, results[curve.name]["points"]))
        for curve in CURVES
        if curve.name in results
    ]


def _machine(result: Mapping[str, Any]) -> Iterator[str]:
    machine, load = result["machine"], result["load"]
    rounds = max(map(len, result["points"].values()), default=0)
    yield (
        f"{result['measured']}, {rounds} rounds, {len(result['void'])} void points. "
        f"{machine['cores']} cores of {machine['processor']}, {machine['file_system']}, Linux "
        f"{machine['kernel']}, Python {machine['python']} ({machine['python_build']}) with "
        f"{machine['twin']}, Ray {machine['ray']}, {machine['java']}. Load of the machine before: "
        f"{load['before']:.2f}; {load['busy_percent']:.0f} % of a core was taken by other programs."
    )


def render_picture(results: Mapping[str, Any]) -> str:
    """Return the picture as SVG: a panel for each cost of each curve, multiples over sizes."""
    panels = [
        (curve, figure, results[curve.name]["points"])
        for curve in _measured(results)
        for figure in curve.costs
    ]
    rows_count = math.ceil(len(panels) / PANELS_IN_ROW)
    width = LEFT + PANELS_IN_ROW * (PANEL_WIDTH + GAP_X)
    lines = [
        OPEN.format(width=width, height=TOP + rows_count * (PANEL_HEIGHT + GAP_Y)),
        "<title>What a size costs as it grows, wakelog and RocketMQ 4.9.3</title>",
        f'<rect width="{width}" height="{TOP + rows_count * (PANEL_HEIGHT + GAP_Y)}" '
        'fill="#ffffff"/>',
        '<text x="20" y="22">Multiples of the first point; both axes are logarithmic, lower is '
        "better, a line up and down goes from the least round to the greatest</text>",
    ]
    for number, (name, colour) in enumerate(SIDES.values()):
        x = LEFT + 110 * number
        lines.append(f'<circle cx="{x}" cy="40" r="4" fill="{colour}"/>')
        lines.append(f'<text x="{x + 10}" y="44">{name}</text>')
    for number, (curve, figure, points) in enumerate(panels):
        row, column = divmod(number, PANELS_IN_ROW)
        x = LEFT + column * (PANEL_WIDTH + GAP_X)
        y = TOP + row * (PANEL_HEIGHT + GAP_Y)
        lines += _panel(curve, figure, points, x, y)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(curve: Curve, figure: Figure, points: Points, x: float, y: float) -> Iterator[str]:
    """Yield one panel, whose corner is at x and y."""
    found = {
        side: {
            size: times
            for size in curve.sizes
            if (times := multiple(curve, points, size, side, figure))
        }
        for side in SIDES
    }
    every = [times for by_size in found.values() for times in by_size.values()]
    low = min([0.5, *(times.least for times in every)])
    high = max([2.0, *(times.greatest for times in every)])
    yield f'<text x="{x}" y="{y - 8}" font-size="12">{curve.name}: {figure.unit}</text>'
    yield (
        f'<rect x="{x}" y="{y}" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}" fill="none" '
        'stroke="#dddddd"/>'
    )

    def down(value: float) -> float:
        return y + PANEL_HEIGHT * (1 - math.log(value / low) / math.log(high / low))

    def right(size: int) -> float:
        first, last = curve.sizes[0], curve.sizes[-1]
        share = math.log(size / first) / math.log(last / first) if last > first else 0.0
        return x + 8 + share * (PANEL_WIDTH - 16)

    for value in sorted({low, 1.0, high}):
        yield (
            f'<line x1="{x}" y1="{down(value):.1f}" x2="{x + PANEL_WIDTH}" y2="{down(value):.1f}" '
            'stroke="#dddddd"/>'
        )
        yield (
            f'<text x="{x - 4}" y="{down(value) + 4:.1f}" font-size="10" text-anchor="end">'
            f"{value:.3g}</text>"
        )
    for size in curve.sizes:
        yield (
            f'<text x="{right(size):.1f}" y="{y + PANEL_HEIGHT + 14}" font-size="10" '
            f'text-anchor="middle">{size_text(curve, size)}</text>'
        )
    for side, (_, colour) in SIDES.items():
        places = [(right(size), times) for size, times in found[side].items()]
        line = " ".join(f"{at:.1f},{down(times.median):.1f}" for at, times in places)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for at, times in places:
            yield (
                f'<line x1="{at:.1f}" y1="{down(times.least):.1f}" x2="{at:.1f}" '
                f'y2="{down(times.greatest):.1f}" stroke="{colour}" stroke-opacity="0.45"/>'
            )
            yield f'<circle cx="{at:.1f}" cy="{down(times.median):.1f}" r="3" fill="{colour}"/>'
