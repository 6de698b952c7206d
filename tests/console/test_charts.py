"""Small charts: what they draw, and that nothing in them is markup of others."""

import math
import re

from wakelog.console.charts import BAR_WIDTH, LINE_WIDTH, POINTS_MAX, bar, line, thinned


def points(svg: str) -> list[list[tuple[float, float]]]:
    found = re.findall(r'points="([^"]*)"', svg)
    return [
        [(float(x), float(y)) for x, y in (each.split(",") for each in run.split())]
        for run in found
    ]


def test_a_line_rises_from_its_lowest_point() -> None:
    [run] = points(line([0, 1, 2]))
    assert [x for x, _ in run] == sorted(x for x, _ in run)
    assert run[0][0] < 2 and run[-1][0] > LINE_WIDTH - 2
    assert run[0][1] > run[1][1] > run[2][1]


def test_a_line_has_a_gap_where_nothing_is_known() -> None:
    assert len(points(line([1, math.nan, 2, 3]))) == 2


def test_one_point_is_no_line() -> None:
    assert line([5]) == line([math.nan, 5]) == line([]) == ""


def test_a_course_without_height_is_drawn_at_the_bottom() -> None:
    [run] = points(line([0, 0, 0]))
    assert len({y for _, y in run}) == 1


def test_a_long_course_keeps_the_largest_of_each_part() -> None:
    values = [0.0] * 600
    values[305] = 9.0
    found = thinned(values, POINTS_MAX)
    assert len(found) == POINTS_MAX and found.count(9.0) == 1
    assert math.isnan(thinned([math.nan] * 120, POINTS_MAX)[0])


def test_a_bar_is_never_longer_than_its_track() -> None:
    widths = [
        re.findall(r'width="([\d.]+)"', bar(ratio))[-1] for ratio in (-1.0, 0.0, 0.5, 1.0, 7.0)
    ]
    assert [float(x) for x in widths] == [0, 0, BAR_WIDTH / 2, BAR_WIDTH, BAR_WIDTH]
    assert bar(None) == bar(math.nan) == ""


def test_labels_are_shown_as_text() -> None:
    assert "<script>" not in line([1, 2], "<script>") + bar(0.5, '"><script>')
