"""The picture: well-formed, a mark where the ratio lies, and nothing outside of it."""

from xml.etree import ElementTree

import pytest

from benchmarks.picture import (
    COST_FIGURES,
    LEFT,
    RIGHT,
    SCALE_MAX,
    SCALE_MIN,
    WIDTH,
    place,
    render_picture,
)
from benchmarks.rows import ROWS
from tests.benchmarks.examples import example, row_named

SVG = "{http://www.w3.org/2000/svg}"


def test_it_has_a_name_and_marks_for_each_row() -> None:
    results = {row.name: example(row, 0.5, 2.0, 4.0) for row in ROWS}
    tree = ElementTree.fromstring(render_picture(results))
    texts = [element.text for element in tree.iter(f"{SVG}text")]
    assert [row.name for row in ROWS if row.name not in texts] == []
    circles = [element.get("cx") for element in tree.iter(f"{SVG}circle")]
    at_two = f"{place(2.0):.1f}"
    costs = [figure for row in ROWS for figure in row.figures[1:] if figure.name in COST_FIGURES]
    assert circles.count(at_two) == len(ROWS) + len(costs)


def test_a_row_without_a_ratio_has_a_name_only() -> None:
    row = row_named("sync-1")
    circles = ElementTree.fromstring(render_picture({row.name: example(row)})).iter(f"{SVG}circle")
    assert len(list(circles)) == 2  # those of the legend


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(SCALE_MIN, LEFT), (SCALE_MAX, WIDTH - RIGHT), (0.001, LEFT), (1000.0, WIDTH - RIGHT)],
)
def test_a_mark_stays_inside(ratio: float, expected: float) -> None:
    assert place(ratio) == pytest.approx(expected)


def test_doubling_goes_as_far_as_halving() -> None:
    assert place(2.0) - place(1.0) == pytest.approx(place(1.0) - place(0.5))
