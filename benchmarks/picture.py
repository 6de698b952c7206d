"""The picture of the results: the ratio of each row on a logarithmic scale, with its spread.

A row has a mark for what it is about, throughput or time, and one for the CPU of the broker's own
processes. Right of the line at 1 wakelog is better. Plain SVG, made from the results' files.
"""

import math
from collections.abc import Iterator, Mapping

from benchmarks.results import Result
from benchmarks.rows import ROWS, Figure, Row

WIDTH, LEFT, RIGHT = 860, 130, 70
TOP, ROW_HEIGHT, BOTTOM = 64, 26, 40
SCALE_MIN, SCALE_MAX = 0.25, 16.0
TICKS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
ABOUT, COST = "#1f6feb", "#b35900"
COST_FIGURES = ("broker_cpu", "broker_cpu_seconds", "ready_cpu_seconds")
OPEN = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
    'font-family="sans-serif" font-size="13" role="img">'
)

_END = 'text-anchor="end"'
_TITLE = (
    "Ratio of wakelog to RocketMQ 4.9.3, right of 1 wakelog is better; "
    "a line goes from the least pair to the greatest"
)


def render_picture(results: Mapping[str, Result]) -> str:
    """Return the picture as SVG."""
    rows = [row for row in ROWS if row.name in results]
    height = TOP + ROW_HEIGHT * len(rows) + BOTTOM
    bottom = height - BOTTOM
    lines = [
        OPEN.format(width=WIDTH, height=height),
        "<title>wakelog against RocketMQ 4.9.3: ratio of each row</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        *_legend(),
        *_axis(bottom),
    ]
    for number, row in enumerate(rows):
        y = TOP + ROW_HEIGHT * number + ROW_HEIGHT / 2
        lines.append(f'<text x="{LEFT - 10}" y="{y + 4:.1f}" {_END}>{row.name}</text>')
        for figure, colour, shift in _marks(row):
            ratio = results[row.name]["summary"].get(figure.name, {}).get("ratio")
            if ratio:
                lines += _mark(ratio, y + shift, colour)
            if ratio and figure is row.figures[0]:
                median = f"{ratio['median']:.2f}"
                lines.append(f'<text x="{WIDTH - 15}" y="{y + 4:.1f}" {_END}>{median}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def place(ratio: float) -> float:
    """Return where a ratio lies from the left, kept inside the picture."""
    share = math.log(ratio / SCALE_MIN) / math.log(SCALE_MAX / SCALE_MIN)
    return LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT)


def _marks(row: Row) -> Iterator[tuple[Figure, str, float]]:
    yield row.figures[0], ABOUT, -4.0
    for figure in row.figures[1:]:
        if figure.name in COST_FIGURES:
            yield figure, COST, 5.0


def _mark(ratio: Mapping[str, float], y: float, colour: str) -> Iterator[str]:
    begin, middle, end = (place(ratio[name]) for name in ("min", "median", "max"))
    yield (
        f'<line x1="{begin:.1f}" y1="{y:.1f}" x2="{end:.1f}" y2="{y:.1f}" stroke="{colour}" '
        'stroke-width="2" stroke-opacity="0.45"/>'
    )
    yield f'<circle cx="{middle:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'


def _axis(bottom: float) -> Iterator[str]:
    for tick in TICKS:
        x = place(tick)
        colour, width = ("#333333", 1.5) if tick == 1 else ("#dddddd", 1)
        yield (
            f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}" '
            f'stroke-width="{width}"/>'
        )
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>'


def _legend() -> Iterator[str]:
    yield f'<text x="20" y="22">{_TITLE}</text>'
    for x, colour, text in (
        (LEFT, ABOUT, "throughput or time (its median stands at the right)"),
        (LEFT + 380, COST, "CPU of the broker's own processes"),
    ):
        yield f'<circle cx="{x + 5}" cy="40" r="4" fill="{colour}"/>'
        yield f'<text x="{x + 16}" y="44">{text}</text>'
