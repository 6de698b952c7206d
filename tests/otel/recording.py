"""A recording of the spans and metrics of a block, with the client instrumented."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler
from opentelemetry.trace import NoOpTracerProvider

from wakelog.otel import RocketMQInstrumentor


class Recording(NamedTuple):
    """What was recorded. tracers: for spans of the test itself."""

    tracers: TracerProvider
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    def spans(self, name: str = "") -> list[ReadableSpan]:
        """Return the ended spans with this name, or all, in the order of their ends."""
        return [x for x in self.exporter.get_finished_spans() if not name or x.name == name]

    def points(self, name: str) -> list[Any]:
        """Return the points of a metric."""
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@contextmanager
def recorded(sampler: Sampler = ALWAYS_ON) -> Iterator[Recording]:
    """Instrument the client until the end of the block."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    RocketMQInstrumentor().instrument(tracer_provider=tracers, meter_provider=meters)
    try:
        yield Recording(tracers, exporter, reader)
    finally:
        RocketMQInstrumentor().uninstrument()
        meters.shutdown()
        tracers.shutdown()


@contextmanager
def unrecorded() -> Iterator[None]:
    """Instrument the client where nothing records, until the end of the block."""
    RocketMQInstrumentor().instrument(
        tracer_provider=NoOpTracerProvider(), meter_provider=NoOpMeterProvider()
    )
    try:
        yield
    finally:
        RocketMQInstrumentor().uninstrument()


def trace_id(span: ReadableSpan) -> int:
    """Return the id of a span's trace."""
    assert span.context is not None
    found: int = span.context.trace_id
    return found


def span_id(span: ReadableSpan) -> int:
    """Return the id of a span."""
    assert span.context is not None
    found: int = span.context.span_id
    return found


def parent_id(span: ReadableSpan) -> int | None:
    """Return the id of a span's parent."""
    return None if span.parent is None else span.parent.span_id


def values(span: ReadableSpan) -> dict[str, Any]:
    """Return the attributes of a span without their first word."""
    return {name.removeprefix("messaging."): x for name, x in (span.attributes or {}).items()}
