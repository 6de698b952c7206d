"""Pictures: where columns and lines stand, and what a pointer is told."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from wakelog.spark.report.charts import Axis, Series, Slots, columns, legend, lines
from wakelog.spark.report.scales import compact, ticks

SLOTS = Slots(["one", "two", "three", "four"], [(0.0, "begin"), (4.0, "end")])


def drawn(picture: str, name: str, class_: str) -> list[dict[str, str]]:
    found = ElementTree.fromstring(picture).iter(name)
    return [dict(each.attrib) for each in found if each.get("class") == class_]


def test_columns_stand_on_top_of_one_another() -> None:
    series = [Series("a", [5, 0, 10, None], 0), Series("b", [5, 10, 0, 0], 1)]
    picture = columns("both", series, SLOTS, Axis(ticks(10), compact))
    lower, upper = drawn(picture, "rect", "c0"), drawn(picture, "rect", "c1")
    assert (len(lower), len(upper)) == (2, 2)
    bottom = float(upper[0]["y"]) + float(upper[0]["height"])
    assert bottom == pytest.approx(float(lower[0]["y"]), abs=0.2)
    assert lower[0]["x"] == upper[0]["x"]
    assert float(upper[0]["y"]) == float(lower[1]["y"])  # 5 and 5, as high as 10


def test_a_line_is_broken_where_nothing_is_known() -> None:
    series = [Series("a", [1, None, 10, 100], 2)]
    picture = lines("a line", series, SLOTS, Axis([0, 10, 100], compact, is_log=True))
    [line] = drawn(picture, "polyline", "l2")
    assert len(line["points"].split()) == 2
    assert len(drawn(picture, "circle", "c2")) == 1


def test_every_slot_says_its_numbers() -> None:
    series = [Series("a & b", [1, 0, 2000, None], 0)]
    picture = ElementTree.fromstring(columns("x", series, SLOTS, Axis(ticks(2000), compact)))
    said = [each.findtext("title") for each in picture.iter("rect") if each.get("class") == "slot"]
    assert said == ["one\na & b: 1", "two", "three\na & b: 2k", "four"]
    assert [each.text for each in picture.iter("text")][-2:] == ["begin", "end"]


def test_a_legend_names_the_colours() -> None:
    found = ElementTree.fromstring(legend([Series("a", [], 3), Series("b", [], 6)]))
    assert [each.get("class") for each in found.iter("i")] == ["k3", "k6"]
