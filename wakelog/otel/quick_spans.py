"""Spans that the SDK gets once they have ended.

A span of the SDK has a lock, lists of events and links, and attributes that are checked one by one.
To begin and end one takes 15 to 30 µs, more than the client needs for a message among many. A
span of the client itself needs none of that: nobody else writes to it. Here the SDK's sampler
decides, its generator makes the ids, and its processors get a complete `ReadableSpan`. A span that
the user may write to as well is one of `late_spans.py`.

Invariants: an exporter sees what it would see of `start_span` and `end`. Where that is not sure,
`quick_spans` and `usable` say so: for another class of tracer, for limits on attributes, and for
processors that look at spans as they begin.

Source: opentelemetry.sdk.trace.Tracer#start_span, opentelemetry.sdk.trace.Span#end (1.45).
"""

import sys
from collections.abc import Sequence
from time import time_ns
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, TraceFlags

from wakelog.otel.attributes import Attributes
from wakelog.otel.begun import LINKS_MAX, Begun
from wakelog.otel.guarded import log_failure
from wakelog.otel.roots import Root, drawing, ids_of
from wakelog.otel.samplers import IDS_COMPARED, rule_of

ATTRIBUTES_MAX: Final = 64
"""More than any span here has."""
_SAMPLED: Final = TraceFlags.SAMPLED
_RANDOM: Final = getattr(TraceFlags, "RANDOM_TRACE_ID", 0)
UNSET: Final = Status()
"""Of a call without an error."""


class QuickSpans:
    """See the module. Any thread."""

    def __init__(self, tracer: Any, sdk: Any, export: Any) -> None:
        """sdk, export: the SDK's modules `trace` and `trace.export`."""
        self.tracer, self._processor = tracer, tracer.span_processor
        self._sampler, self._rule = tracer.sampler, rule_of(tracer.sampler)
        self._ids = ids_of(tracer.id_generator, sdk.RandomIdGenerator)
        self.span_id = self._ids.span_id
        self._scope, self._info = tracer._instrumentation_scope, tracer.instrumentation_info
        self._readable = sdk.ReadableSpan
        self._dropped = sdk.sampling.Decision.DROP
        self._sampled = sdk.sampling.Decision.RECORD_AND_SAMPLE
        self._known = frozenset({export.BatchSpanProcessor, export.SimpleSpanProcessor})
        is_random = getattr(tracer.id_generator, "is_trace_id_random", None)
        self._random = _RANDOM if is_random is not None and is_random() else 0
        self.draw = drawing(self._ids, self._rule, self._random, self._random | _SAMPLED)
        from wakelog.otel.late_spans import LateSpan  # imports the SDK

        self._late = LateSpan
        self._is_enabled = tracer._is_enabled
        self._processors = self._processor._span_processors
        self._is_usable = self._knows(self._processors)

    def _knows(self, processors: Sequence[Any]) -> bool:
        return all(type(each) in self._known for each in processors)

    @property
    def usable(self) -> bool:
        """Whether nothing looks at spans before they have ended."""
        if self._processor._span_processors is not self._processors:  # the SDK replaces the tuple
            self._processors = self._processor._span_processors
            self._is_usable = self._knows(self._processors)
        found: bool = self._is_usable and self._is_enabled()
        return found

    @property
    def follows_parent(self) -> bool:
        """Whether a span with a parent is certainly recorded as that is."""
        return self._rule is not None and self._rule.follows_parent

    def begin(
        self,
        context: Context,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
        *,
        links: Sequence[Link] = (),
        began_ns: int = 0,
    ) -> Begun:
        """Begin a span in a context. attributes, links: for the sampler. began_ns: 0 for now."""
        parent: SpanContext | None = None
        if context:
            parent = trace.get_current_span(context).get_span_context()
        if parent is None or not parent.is_valid:
            parent, state, flags = None, None, self._random
            trace_id = self._ids.trace_id()
        else:
            trace_id, state = parent.trace_id, parent.trace_state
            flags = parent.trace_flags & _RANDOM
        rule = self._rule
        if rule is None:
            ask, is_sampled, is_recorded = self._sampler.should_sample, False, False
            try:
                result = ask(context, trace_id, name, kind, attributes, links)
                decision, state = result.decision, result.trace_state
                attributes = dict(result.attributes or {})
            except Exception:
                log_failure("sampling")
            else:
                is_sampled = decision is self._sampled
                is_recorded = decision is not self._dropped
        else:
            if parent is None or not rule.follows_parent:
                is_sampled = trace_id & IDS_COMPARED < rule.sampled_below
            else:
                is_sampled = bool(parent.trace_flags & _SAMPLED)
            is_recorded = is_sampled
        if is_sampled:
            flags |= _SAMPLED
        span_id, began_ns = self.span_id(), began_ns or time_ns()
        # Half the time of a call of the class.
        fields = (name, kind, attributes, trace_id, span_id, flags, state, parent, is_recorded)
        return tuple.__new__(Begun, (*fields, began_ns))

    def begin_root(self, root: Root, name: str, kind: SpanKind, attributes: Attributes) -> Begun:
        """Begin a span that was drawn to be recorded."""
        _, trace_id, span_id = root
        flags, began_ns = self._random | _SAMPLED, time_ns()
        fields = (name, kind, attributes, trace_id, span_id, flags, None, None, True, began_ns)
        return tuple.__new__(Begun, fields)

    def late(self, begun: Begun, attributes: Attributes, links: Sequence[Link] = ()) -> Span:
        """Return a recorded span that the user may write to. attributes: all it has."""
        return self._late(self.tracer, self.end, begun, attributes, links)

    def end(
        self,
        begun: Begun,
        attributes: dict[str, Any],
        links: Sequence[Link] = (),
        status: Status = UNSET,
        *,
        context: SpanContext | None = None,
        ended_ns: int | None = None,
    ) -> None:
        """End a recorded span. attributes: all it has, plain values only.

        context: its own, if that was made before. ended_ns: None for now.
        """
        span = self._readable(
            begun.name,
            context=context or begun.context,
            parent=begun.parent,
            resource=self.tracer.resource,
            attributes=attributes,
            links=links,
            kind=begun.kind,
            status=status,
            start_time=begun.began_ns,
            end_time=ended_ns or time_ns(),
            instrumentation_info=self._info,
            instrumentation_scope=self._scope,
        )
        for processor in self._processors:
            processor.on_end(span)


_TRIED: Final = Begun("", SpanKind.INTERNAL, {}, 1, 1, 0, None, None, True, 1)
"""A span that is never ended: whether the SDK builds one as expected is tried with it."""
_WITHOUT_METRICS: Final = frozenset({"NoneType", "NoOpTracerMetrics"})
"""The SDK counts spans itself if an environment variable asks for that."""


def quick_spans(tracer: Any) -> QuickSpans | None:
    """Return what makes the spans of a tracer; None if that may differ from what it makes."""
    # A tracer of the SDK has imported it; without one this package imports no SDK.
    sdk = sys.modules.get("opentelemetry.sdk.trace")
    export = sys.modules.get("opentelemetry.sdk.trace.export")
    if sdk is None or export is None or type(tracer) is not sdk.Tracer:
        return None
    try:
        limits, processor = tracer._span_limits, tracer.span_processor
        if (
            type(processor) is not sdk.SynchronousMultiSpanProcessor
            or limits.max_span_attribute_length is not None
            or not _allows(limits.max_span_attributes, ATTRIBUTES_MAX)
            or not _allows(limits.max_links, LINKS_MAX)
            or type(getattr(tracer, "_tracer_metrics", None)).__name__ not in _WITHOUT_METRICS
        ):
            return None
        found = QuickSpans(tracer, sdk, export)
        _ = found.late(_TRIED, {}).is_recording(), found.late(_TRIED, {}).kind  # type: ignore[attr-defined]
    except (AttributeError, ImportError, TypeError):  # another version of the SDK
        return None
    return found


def _allows(limit: int | None, count: int) -> bool:
    return limit is None or limit >= count
