"""Many measurements at once are what the SDK makes of them one by one."""

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.metrics.view import (
    ExplicitBucketHistogramAggregation,
    ExponentialBucketHistogramAggregation,
    View,
)

from wakelog.otel.attributes import Attributes
from wakelog.otel.instruments import BOUNDARIES_SECONDS
from wakelog.otel.merged_histogram import record_together

DELTA = {Histogram: AggregationTemporality.DELTA}
VIEWS = [
    [],
    [View(instrument_name="h", attribute_keys={"a"})],
    [
        View(
            instrument_name="h",
            aggregation=ExplicitBucketHistogramAggregation([1.0], record_min_max=False),
        )
    ],
    [View(instrument_name="h", aggregation=ExponentialBucketHistogramAggregation())],
    [View(instrument_name="h", name="g"), View(instrument_name="h")],
    [
        View(instrument_name="h"),
        View(instrument_name="h", name="g", aggregation=ExplicitBucketHistogramAggregation([1.0])),
    ],
]


def sampled(number: int) -> Context:
    context = trace.SpanContext(0xAA, number, False, trace.TraceFlags(1))
    return trace.set_span_in_context(trace.NonRecordingSpan(context), Context())


MEASURED = [
    (0.001, Context()),
    (0.002, sampled(1)),
    (0.003, sampled(2)),
    (0.02, sampled(3)),
    (20.0, Context()),
    (30.0, Context()),
]


@pytest.mark.parametrize("views", VIEWS)
@pytest.mark.parametrize("preferred", [{}, DELTA])
def test_the_points_are_those_of_single_records(
    views: list[View], preferred: dict[type, AggregationTemporality]
) -> None:
    found = []
    for at_once in (True, False):
        readers = [InMemoryMetricReader(preferred_temporality=preferred) for _ in range(2)]
        meters = MeterProvider(readers, views=views, shutdown_on_exit=False)
        histogram: Any = meters.get_meter("m").create_histogram(
            "h", explicit_bucket_boundaries_advisory=BOUNDARIES_SECONDS
        )
        kept = [points_after(histogram, at_once, reader) for reader in (*readers, *readers)]
        meters.shutdown()
        found.append(kept)
    assert found[0] == found[1]
    assert all(map(len, found[0][0]))


def points_after(
    histogram: Histogram, at_once: bool, reader: InMemoryMetricReader
) -> list[dict[str, Any]]:
    """Record, and return the points of a reader without their times."""
    attributes: Attributes = {"b": 1, "a": "x"}
    if at_once:
        record_together(histogram, attributes, *zip(*MEASURED, strict=True))
    else:
        for seconds, context in MEASURED:
            histogram.record(seconds, attributes, context)
    data: Any = reader.get_metrics_data()
    points = [
        (metric.name, point)
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.data.data_points
    ]
    return [
        {
            "name": name,
            "attributes": dict(point.attributes),
            "count": point.count,
            "sum": pytest.approx(point.sum),
            "bounds": (point.min, point.max, getattr(point, "explicit_bounds", None)),
            "counts": str(getattr(point, "bucket_counts", None) or point.positive),
            "exemplars": sorted((x.value, x.span_id) for x in point.exemplars),
        }
        for name, point in points
    ]


def test_most_measurements_do_not_pass_the_instrument(monkeypatch: pytest.MonkeyPatch) -> None:
    meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    histogram = meters.get_meter("m").create_histogram("h")
    record, calls = type(histogram).record, []

    def noted(*given: Any) -> None:
        calls.append(given)
        record(*given)

    monkeypatch.setattr(type(histogram), "record", noted)
    record_together(histogram, {}, [0.001] * 100, [Context()] * 100)
    meters.shutdown()
    assert len(calls) == 1


def test_another_version_of_the_sdk_gets_them_one_by_one() -> None:
    class Another:
        _measurement_consumer = None

        def __init__(self) -> None:
            self.noted: list[float] = []

        def record(self, seconds: float, *_: object) -> None:
            self.noted.append(seconds)

    histogram: Any = Another()
    record_together(histogram, {}, *zip(*MEASURED, strict=True))
    assert histogram.noted == [seconds for seconds, _ in MEASURED]
