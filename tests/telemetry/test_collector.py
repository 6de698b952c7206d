"""Paths through statistics, as tables, and the families made of what they find."""

from typing import Any

import pytest

from wakelog.telemetry.collector import SeriesReader, find_series
from wakelog.telemetry.histogram import LATENCY_BOUNDS_SECONDS, Histogram
from wakelog.telemetry.metric_spec import Kind, MetricSpec, Path
from wakelog.telemetry.text_format import Series, write_family

VALUES: dict[str, Any] = {
    "brokers": {
        "a": {"depth": {"send": 1, "pull": 2}, "traffic": {"T": [10, 1_000]}, "level": {3: 7}},
        "b": {"depth": {"send": 5}, "traffic": {}},
    },
    "names": {"T": 1, "%RETRY%g": 2, "%DLQ%g": 4},
    "absent": None,
    "flat": 9,
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("flat",), {(): 9}),
        (("absent",), {}),
        (("nowhere", "x"), {}),
        (("flat", "deeper"), {}),
        (("brokers", "a", "depth", "send"), {(): 1}),
        (
            ("brokers", "{broker}", "depth", "{lane}"),
            {("a", "send"): 1, ("a", "pull"): 2, ("b", "send"): 5},
        ),
        (("brokers", "{broker}", "traffic", "{topic}", "0"), {("a", "T"): 10}),
        (("brokers", "{broker}", "traffic", "{topic}", "1"), {("a", "T"): 1_000}),
        (("brokers", "{broker}", "traffic", "{topic}", "2"), {}),
        (("brokers", "{broker}", "level", "{level}"), {("a", "3"): 7}),
        (("role=broker", "broker=", "flat"), {("broker", ""): 9}),
        (("brokers", "{broker}", "depth", "*"), {("a",): 3, ("b",): 5}),
        (("names", "{topic:!%}"), {("T",): 1}),
        (("names", "{topic:%RETRY%}"), {("%RETRY%g",): 2}),
        (("names", "%DLQ%{group}"), {("g",): 4}),
    ],
)
def test_a_path_finds(path: Path, expected: Series) -> None:
    assert find_series(path, VALUES) == expected


def expose(values: Any, *specs: MetricSpec, series_max: int = 100) -> list[str]:
    families = SeriesReader(specs, series_max=series_max).read(values)
    texts = [write_family(*each, is_openmetrics=False) for each in families]
    lines = "".join(texts).splitlines()
    return [line for line in lines if "dropped_series" not in line or not line.startswith("#")]


def test_kinds_are_written_as_prometheus_reads_them() -> None:
    histogram = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.5, 0.5, 7.0):
        histogram.observe(seconds)
    values = {"g": 1.5, "c": {"x": 2}, "h": histogram.statistics(), "i": {"version": "1"}}
    lines = expose(
        values,
        MetricSpec("a_gauge", Kind.GAUGE, "G.", (("g",),)),
        MetricSpec("a_counter", Kind.COUNTER, "C.", (("c", "{key}"),)),
        MetricSpec("a_seconds", Kind.HISTOGRAM, "H.", (("h",),)),
        MetricSpec("a_build", Kind.INFO, "I.", (("i",),)),
    )
    assert [line for line in lines if not line.startswith("#")] == [
        "a_gauge 1.5",
        'a_counter_total{key="x"} 2.0',
        'a_seconds_bucket{le="0.1"} 1.0',
        'a_seconds_bucket{le="1.0"} 3.0',
        'a_seconds_bucket{le="+Inf"} 4.0',
        "a_seconds_count 4.0",
        "a_seconds_sum 8.05",
        'a_build_info{version="1"} 1.0',
    ]
    assert "# TYPE a_counter_total counter" in lines
    assert "# HELP a_gauge G." in lines


def gauge(*sources: Path, minus: Path = (), scale: float = 1.0) -> MetricSpec:
    return MetricSpec("m", Kind.GAUGE, "M.", sources, minus, scale)


HIGH, LOW = ("{k}", "high"), ("{k}", "low")


@pytest.mark.parametrize(
    ("spec", "values", "expected"),
    [
        (gauge(("k=a", "x"), ("k=b", "y")), {"x": 1, "y": 2}, {"a": 1.0, "b": 2.0}),
        (gauge(HIGH, minus=LOW), {"a": {"high": 5, "low": 3}}, {"a": 2.0}),
        (gauge(HIGH, minus=LOW), {"a": {"high": 3, "low": 5}}, {"a": 0.0}),
        (gauge(HIGH, minus=LOW), {"a": {"high": 3}}, {}),
        (
            gauge(("k=a", "high"), ("k=b", "lag"), minus=("k=a", "low")),
            {"high": 5, "low": 3, "lag": 9},
            {"a": 2.0, "b": 9.0},
        ),
        (gauge(("k=log", "x"), scale=0.01), {"x": 75}, {"log": 0.75}),
        (gauge(("k=log", "nowhere")), {}, {}),
    ],
    ids=["sources", "difference", "never negative", "one side", "first source", "scale", "nothing"],
)
def test_a_row_has_the_values_of_its_paths(
    spec: MetricSpec, values: Any, expected: dict[str, float]
) -> None:
    lines = expose(values, spec)
    rows = [f'm{{k="{label}"}} {value}' for label, value in expected.items()]
    assert lines == (["# HELP m M.", "# TYPE m gauge", *rows] if rows else [])


def test_a_family_is_capped_and_says_so() -> None:
    spec = MetricSpec("m", Kind.COUNTER, "M.", (("{k}",),))
    lines = expose({str(key): key for key in range(10)}, spec, series_max=4)
    assert sum(line.startswith("m_total{") for line in lines) == 4
    assert 'rocketmq_metrics_dropped_series_total{family="m_total"} 6.0' in lines


@pytest.mark.parametrize("path", [("{t}", "{g}", "0"), ("{t}", "{g}"), ("{t}", "{g}", "*")])
def test_what_is_left_out_of_pairs_is_counted_as_well(path: Path) -> None:
    spec = MetricSpec("m", Kind.COUNTER, "M.", (path,))
    value: Any = {"0": [1], "*": {"x": 1}}.get(path[-1], 1)
    values = {topic: {str(group): value for group in range(3)} for topic in "abcd"}
    lines = expose(values, spec, series_max=4)
    assert [line for line in lines if line.startswith("m_total{")] == [
        'm_total{g="0",t="a"} 1.0',
        'm_total{g="1",t="a"} 1.0',
        'm_total{g="2",t="a"} 1.0',
        'm_total{g="0",t="b"} 1.0',
    ]
    assert 'rocketmq_metrics_dropped_series_total{family="m_total"} 8.0' in lines


@pytest.mark.parametrize(
    ("seconds", "place"),
    [(0.0, 0), (0.1, 0), (0.1000001, 1), (1.0, 1), (2.0, 2), (2.5, 3), (1e9, 3)],
)
def test_a_bound_includes_its_own_value(seconds: float, place: int) -> None:
    histogram = Histogram((0.1, 1.0, 2.0))
    histogram.observe(seconds)
    assert histogram.statistics()["counts"] == [int(index == place) for index in range(4)]
    assert histogram.statistics()["sum_seconds"] == seconds


def test_statistics_are_a_copy() -> None:
    histogram = Histogram()
    before = histogram.statistics()
    histogram.observe(0.001)
    assert sum(before["counts"]) == 0
    assert sum(histogram.statistics()["counts"]) == 1
    assert before["bounds_seconds"] == list(LATENCY_BOUNDS_SECONDS)


def test_bounds_have_to_increase() -> None:
    with pytest.raises(AssertionError):
        Histogram((1.0, 1.0))
