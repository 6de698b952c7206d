"""Curves: multiples within a round, a verdict by the spread, the table and the picture."""

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.curve_page import (
    BENDS,
    PANEL_HEIGHT,
    STRAIGHT,
    TOP,
    UNKNOWN,
    WITHIN,
    Multiple,
    bends,
    multiple,
    render_page,
    render_picture,
    table,
    verdict,
)
from benchmarks.curve_rows import CURVES, Curve, layout, size_text
from benchmarks.pairs import Pair
from benchmarks.rows import Figure
from tests.benchmarks.examples import MACHINE

COST = Figure("us_each", "time a message, us")
RATE = Figure("per_second", "messages/s", less_is_better=False)
CURVE = Curve("queues", "queues", (1, 10, 100), "About it.", (COST,), (RATE,))
SVG = "{http://www.w3.org/2000/svg}"


def points(*costs: tuple[Sequence[float], Sequence[float]]) -> dict[str, list[Pair]]:
    """Return the points of CURVE: of each the rounds of wakelog, then those of 4.9.3."""

    def run(us_each: float) -> dict[str, float]:
        return {"us_each": us_each, "broker_cpu": 1.0, "per_second": 1e6 / us_each, "p50_ms": 1.0}

    return {
        str(size): [
            {"wakelog": run(own), "rocketmq": run(other)} for own, other in zip(*found, strict=True)
        ]
        for size, found in zip(CURVE.sizes, costs, strict=False)
    }


def result(found: dict[str, list[Pair]]) -> dict[str, Any]:
    machine = {**MACHINE, "python_build": "optimised", "twin": "C"}
    load = {"before": 0.25, "busy_percent": 3.0}
    return {
        "measured": "2026-11-30",
        "machine": machine,
        "load": load,
        "void": ["10: rocketmq: 2 client errors"],
        "points": found,
    }


def test_a_multiple_is_taken_within_a_round() -> None:
    found = points(([10, 20, 40], [1, 1, 1]), ([20, 30, 80], [3, 1, 2]))
    assert multiple(CURVE, found, 10, "wakelog", COST) == Multiple(2.0, 1.5, 2.0)
    assert multiple(CURVE, found, 10, "rocketmq", COST) == Multiple(2.0, 1.0, 3.0)


def test_a_round_without_a_first_point_has_no_multiple() -> None:
    found = points(([10, 20], [1, 1]), ([30, 30], [1, 1]))
    found["1"][0] = {}
    assert multiple(CURVE, found, 10, "wakelog", COST) == Multiple(1.5, 1.5, 1.5)
    found["1"][1] = {}
    assert verdict(CURVE, found, 10, COST) == UNKNOWN


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        ([30, 30, 30], [20, 20, 20], BENDS),
        ([30, 30, 30], [20, 20, 32], WITHIN),
        ([30, 30, 45], [20, 20, 20], WITHIN),
        ([21, 21, 21], [20, 20, 20], STRAIGHT),
        ([15, 15, 15], [20, 20, 20], STRAIGHT),
    ],
)
def test_a_curve_bends_where_it_is_over_the_other_by_more_than_the_spread(
    own: list[float], other: list[float], expected: str
) -> None:
    found = points(([10] * 3, [10] * 3), (own, other))
    assert verdict(CURVE, found, 10, COST) == expected


def test_a_cost_that_has_only_fallen_bends_nowhere_but_one_that_rises_again_does() -> None:
    falling = points(([10], [10]), ([6], [3]), ([5], [2]))
    assert bends(CURVE, falling) == []
    rising = points(([10], [10]), ([3], [3]), ([8], [2]))
    assert bends(CURVE, rising) == ["time a message, us, at 100"]


def test_a_table_has_values_multiples_and_a_verdict() -> None:
    found = points(([10, 12], [20, 20]), ([40, 36], [20, 24]), ([5000, 4800], [20, 20]))
    head, rule, *lines = table(CURVE, found)
    assert head == (
        "| queues | time a message, us: wakelog | 4.9.3 | bends up | messages/s: wakelog | 4.9.3 |"
    )
    assert rule.count("|") == head.count("|")
    assert lines == [
        "| 1 | 11 (1) | 20 (1) |  | 91,667 | 50,000 |",
        "| 10 | 38 (3.50 [3.00, 4.00]) | 22 (1.10 [1.00, 1.20]) | bends up | 26,389 | 45,833 |",
        "| 100 | 4,900 (450.00 [400.00, 500.00]) | 20 (1.00) | bends up | 204 | 50,000 |",
    ]


def test_the_page_says_where_curves_bend_and_what_is_not_measured() -> None:
    found = {"queues": result(points(([10], [10]), ([40], [10])))}
    page = render_page(found)
    head = "time a message, us, at 10"
    assert f"| queues | 1 to 10 queues | {head}" in page
    assert "2 cores of a processor" in page and "3 % of a core was taken" in page
    waiting = ", ".join(curve.name for curve in CURVES if curve.name != "queues")
    assert f"Not measured yet: {waiting}." in page


def test_the_picture_has_a_panel_for_each_cost_and_a_line_for_each_side() -> None:
    found = points(([1], [1]), ([4], [4]), ([16], [16]))
    drawn = ElementTree.fromstring(render_picture({"queues": result(found)}))
    lines = [each.get("points", "").split() for each in drawn.iter(f"{SVG}polyline")]
    assert [len(each) for each in lines] == [3, 3, 3, 3]
    heights = [float(place.split(",")[1]) for place in lines[0]]
    # From half the first point to the greatest: 1, 4 and 16 lie evenly from the lower fifth up.
    assert heights == pytest.approx(
        [TOP + PANEL_HEIGHT * share for share in (0.8, 0.4, 0.0)], abs=0.06
    )
    titles = [each.text for each in drawn.iter(f"{SVG}text")]
    assert "queues: time a message, us" in titles
    assert "queues: broker's CPU a message, us" in titles


def test_sizes_are_shown_as_one_says_them() -> None:
    [bodies] = [curve for curve in CURVES if curve.name == "bodies"]
    assert [size_text(bodies, size) for size in bodies.sizes] == [
        "100 B",
        "1 KiB",
        "10 KiB",
        "100 KiB",
        "1 MiB",
    ]
    assert [size_text(CURVE, size) for size in (1, 10_000)] == ["1", "10,000"]


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_sizes_of_a_curve_rise(curve: Curve) -> None:
    assert list(curve.sizes) == sorted(set(curve.sizes))
    assert all(figure.less_is_better for figure in curve.costs)


@pytest.mark.parametrize("count", [1, 10, 100, 1_000, 10_000])
def test_topics_have_so_many_queues_together(count: int) -> None:
    topics, each = layout(count)
    assert topics * each == count
