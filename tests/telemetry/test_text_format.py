"""The text of families: the bytes that prometheus-client writes for the same series."""

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from wakelog.telemetry.collector import SeriesReader
from wakelog.telemetry.metric_spec import Kind, MetricSpec
from wakelog.telemetry.metrics import NAME_SETS, specs_of
from wakelog.telemetry.text_format import Series, write_family

ACCEPTED = {False: "", True: "application/openmetrics-text;version=1.0.0"}
FAMILY_OF_KIND: Mapping[Kind, Callable[..., Any]] = {
    Kind.GAUGE: GaugeMetricFamily,
    Kind.COUNTER: CounterMetricFamily,
    Kind.HISTOGRAM: HistogramMetricFamily,
    Kind.INFO: InfoMetricFamily,
}


def make_family(spec: MetricSpec, series: Series) -> Metric:
    """Return the family of a row, with these series, as prometheus-client has it."""
    family: Any = FAMILY_OF_KIND[spec.kind](spec.name, spec.help, labels=spec.labels)
    for labels, value in series.items():
        match spec.kind:
            case Kind.HISTOGRAM:
                bounds = [*map(repr, value["bounds_seconds"]), "+Inf"]
                buckets = list(zip(bounds, accumulate(value["counts"]), strict=True))
                family.add_metric(labels, buckets, value["sum_seconds"])
            case Kind.INFO:
                family.add_metric(labels, {key: str(text) for key, text in value.items()})
            case _:
                family.add_metric(labels, float(value) * spec.scale)
    return cast(Metric, family)


class Given(Collector):
    """Families that are there already."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def written_by_client(families: list[Metric], *, is_openmetrics: bool) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Given(families))
    encode, _ = choose_encoder(ACCEPTED[is_openmetrics])
    return encode(registry).decode().removesuffix("# EOF\n")


@pytest.mark.parametrize("is_openmetrics", [False, True], ids=["0.0.4", "OpenMetrics"])
@pytest.mark.parametrize(
    ("spec", "series"),
    [
        (MetricSpec("m", Kind.GAUGE, "M.", (("x",),)), {(): 1.5}),
        (MetricSpec("m", Kind.GAUGE, 'A "word" \\ and\na line.', (("x",),)), {(): 1}),
        (
            MetricSpec("m", Kind.COUNTER, "M.", (("{b}", "{a}"),)),
            {('q"uote', "back\\slash"): 10_000_000, ("line\nbreak", "ä%s"): float("inf")},
        ),
        (MetricSpec("m", Kind.GAUGE, "M.", (("{k}",),), scale=0.01), {("a",): 75}),
        (
            MetricSpec("m_seconds", Kind.HISTOGRAM, "M.", (("{z}", "{a}"),)),
            {("b", "c"): {"bounds_seconds": [0.1, 1.0], "counts": [1, 2, 1], "sum_seconds": 8.05}},
        ),
        (
            MetricSpec("m", Kind.INFO, "M.", (("{k}",),)),
            {("x",): {"version": "1", "aim": 'a "b"', "count": 3}},
        ),
        (MetricSpec("m_total", Kind.GAUGE, "M.", (("x",),)), {(): float("nan")}),
        (MetricSpec("m", Kind.COUNTER, "M.", (("{k}",),)), {}),
    ],
    ids=["plain", "help", "labels", "scale", "histogram", "info", "as a counter", "none"],
)
def test_a_family_is_written_as_the_client_writes_it(
    spec: MetricSpec, series: Series, is_openmetrics: bool
) -> None:
    expected = written_by_client([make_family(spec, series)], is_openmetrics=is_openmetrics)
    assert write_family(spec, series, is_openmetrics=is_openmetrics) == expected


@pytest.mark.slow
@pytest.mark.parametrize("is_openmetrics", [False, True], ids=["0.0.4", "OpenMetrics"])
def test_a_broker_is_written_as_the_client_writes_it(
    statistics: dict[str, Any], is_openmetrics: bool
) -> None:
    found = list(SeriesReader(specs_of(NAME_SETS)).read(statistics))
    text = "".join(write_family(*each, is_openmetrics=is_openmetrics) for each in found)
    families = [make_family(*each) for each in found]
    assert text == written_by_client(families, is_openmetrics=is_openmetrics)
    assert text.count("# TYPE") > 100
