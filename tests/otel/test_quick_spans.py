"""Quick spans beside those of the SDK."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
)
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
)

from wakelog.otel.attributes import Attributes
from wakelog.otel.quick_spans import QuickSpans, quick_spans

KIND = SpanKind.PRODUCER
ELSEWHERE = SpanContext(0xAA, 0xBB, True, TraceFlags(1), TraceState([("a", "b")]))
UNSAMPLED = SpanContext(0xAC, 0xBD, True, TraceFlags(2))
CONTEXTS = {
    "none": Context(),
    "sampled": trace.set_span_in_context(NonRecordingSpan(ELSEWHERE), Context()),
    "unsampled": trace.set_span_in_context(NonRecordingSpan(UNSAMPLED), Context()),
    "invalid": trace.set_span_in_context(trace.INVALID_SPAN, Context()),
}


class Counting(IdGenerator):
    """Ids that two tracers have the same."""

    def generate_span_id(self) -> int:
        """Return one of its own."""
        return 0x77

    def generate_trace_id(self) -> int:
        """Return one of its own."""
        return 0x88

    def is_trace_id_random(self) -> bool:
        """Say so."""
        return True


class Noting(Sampler):
    """A sampler that keeps what it was asked, and adds an attribute and a state."""

    def __init__(self) -> None:
        """Have been asked nothing."""
        self.asked: list[tuple[Any, ...]] = []

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Any = None,
        links: Any = None,
        trace_state: Any = None,
    ) -> SamplingResult:
        """Keep it."""
        self.asked.append((trace_id, name, kind, dict(attributes), tuple(links)))
        added = {**attributes, "added": 1}
        return SamplingResult(Decision.RECORD_AND_SAMPLE, added, TraceState([("c", "d")]))

    def get_description(self) -> str:
        """Return its name."""
        return "noting"


def provider(sampler: Sampler = ALWAYS_ON, **more: Any) -> tuple[TracerProvider, Any]:
    exporter = InMemorySpanExporter()
    found = TracerProvider(sampler=sampler, id_generator=Counting(), shutdown_on_exit=False, **more)
    found.add_span_processor(SimpleSpanProcessor(exporter))
    return found, exporter


def quick(found: TracerProvider) -> QuickSpans:
    spans = quick_spans(found.get_tracer("scope", "1"))
    assert spans is not None and spans.usable
    return spans


def shown(span: ReadableSpan) -> dict[str, Any]:
    """Return all that an exporter may look at, without the times."""
    found: dict[str, Any] = json.loads(span.to_json())
    assert span.start_time is not None and span.end_time is not None
    assert 0 < span.start_time <= span.end_time
    del found["start_time"], found["end_time"]
    more = span.instrumentation_scope, span.context, span.parent, span.dropped_attributes
    return found | {"more": more, "dropped": (span.dropped_links, span.dropped_events)}


@pytest.mark.parametrize("place", CONTEXTS)
@pytest.mark.parametrize(
    "make", [lambda: ALWAYS_ON, lambda: ParentBased(ALWAYS_ON), lambda: ALWAYS_OFF, Noting]
)
def test_a_quick_span_is_what_the_sdk_makes(make: Callable[[], Sampler], place: str) -> None:
    samplers = make(), make()
    (own, seen), (other, wanted) = provider(samplers[0]), provider(samplers[1])
    context = CONTEXTS[place]
    given: Attributes = {"a": "b"}
    link = Link(ELSEWHERE, {})
    begun = quick(own).begin(context, "name", KIND, given, links=[link])
    if begun.is_recorded:
        status = Status(StatusCode.ERROR, "why")
        found = {**(begun.attributes or {}), "n": 1, "several": ("x", "y")}
        quick(own).end(begun, found, [link], status)
    span = other.get_tracer("scope", "1").start_span("name", context, KIND, given, [link])
    assert begun.context == span.get_span_context()
    assert begun.is_recorded == span.is_recording()
    span.set_attributes({"n": 1, "several": ["x", "y"]})
    span.set_status(Status(StatusCode.ERROR, "why"))
    span.end()
    assert list(map(shown, seen.get_finished_spans())) == [
        shown(x) for x in wanted.get_finished_spans()
    ]
    if isinstance(samplers[0], Noting):
        assert samplers[0].asked == samplers[1].asked  # type: ignore[attr-defined]


@pytest.mark.parametrize("place", CONTEXTS)
@pytest.mark.parametrize("sampler", [ALWAYS_ON, ParentBased(ALWAYS_ON), Noting()])
def test_a_span_is_recorded_as_its_parent_is(sampler: Sampler, place: str) -> None:
    spans = quick(provider(sampler)[0])
    assert spans.follows_parent is isinstance(sampler, ParentBased)
    is_dropped = spans.follows_parent and place == "unsampled"
    assert spans.begin(CONTEXTS[place], "name", KIND, {}).is_recorded is not is_dropped


class Looking(SpanProcessor):
    """A processor that looks at spans as they begin."""


def test_where_processors_see_the_begin_there_is_none() -> None:
    found, _ = provider()
    spans = quick(found)
    found.add_span_processor(Looking())
    assert not spans.usable


@pytest.mark.parametrize(
    "limits",
    [
        SpanLimits(max_span_attributes=3),
        SpanLimits(max_span_attributes=0),
        SpanLimits(max_span_attribute_length=9),
        SpanLimits(max_links=1),
    ],
)
def test_where_the_sdk_has_limits_there_is_none(limits: SpanLimits) -> None:
    found, _ = provider(span_limits=limits)
    assert quick_spans(found.get_tracer("scope")) is None


def test_where_the_sdk_counts_its_spans_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "true")
    found, _ = provider()
    assert quick_spans(found.get_tracer("scope")) is None


def test_of_other_tracers_there_is_none() -> None:
    assert quick_spans(trace.NoOpTracer()) is None
    assert quick_spans(trace.ProxyTracer("scope")) is None
    found, _ = provider()
    tracer = found.get_tracer("scope")
    del tracer._instrumentation_scope  # type: ignore[attr-defined]
    assert quick_spans(tracer) is None
