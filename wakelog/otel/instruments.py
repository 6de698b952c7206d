"""The tracer and the instruments of one instrumentor, and what they are given.

A duration and a count of a producer are of its requests: messages that are sent at the same time
travel together, and so cost one record. Spans are of the user's calls.

Invariants: where nothing records, `tracer` is None and `measures` is false, and nothing is put
together for it.

Source: OpenTelemetry semantic conventions, messaging metrics.
"""

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.semconv._incubating.attributes import messaging_attributes as messaging
from opentelemetry.semconv._incubating.metrics import messaging_metrics as names
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE

from wakelog.otel.attributes import (
    ATTRIBUTES_REMEMBERED_MAX,
    PROCESS,
    RECEIVE,
    SEND,
    SYSTEM,
    Attributes,
    of_address,
)
from wakelog.otel.durations import DURATIONS
from wakelog.otel.quick_spans import QuickSpans, quick_spans
from wakelog.otel.totals import CONSUMED, OVERFLOW, SENT, Labels

now_seconds: Final = time.perf_counter
"""The steady clock."""
SCOPE: Final = "wakelog.otel"
BOUNDARIES_SECONDS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
)  # fmt: skip
"""Of the histograms, as the conventions advise."""
SUPPRESSED: Final = (
    "suppress_instrumentation",
    getattr(contexts, "_SUPPRESS_INSTRUMENTATION_KEY", "suppress_instrumentation"),
)
"""The keys of a context in which OpenTelemetry wants nothing recorded: of users, and of the SDK."""


class Instruments:
    """See the module."""

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None,
        meter_provider: metrics.MeterProvider | None,
    ) -> None:
        """Take None for the global providers."""
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        self._is_global = type(self._tracer) is trace.ProxyTracer
        self._known: trace.Tracer | None = None
        self._quick: QuickSpans | None = None
        self._measures: bool | None = None  # not known before there is a provider
        DURATIONS.begin_again()
        meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
        self.operation_duration = meter.create_histogram(
            names.MESSAGING_CLIENT_OPERATION_DURATION,
            unit="s",
            description="Duration of a request of a producer, or of a call that receives.",
            explicit_bucket_boundaries_advisory=BOUNDARIES_SECONDS,
        )
        self.process_duration = meter.create_histogram(
            names.MESSAGING_PROCESS_DURATION,
            unit="s",
            description="Duration of the work on messages.",
            explicit_bucket_boundaries_advisory=BOUNDARIES_SECONDS,
        )
        meter.create_observable_counter(
            names.MESSAGING_CLIENT_SENT_MESSAGES,
            [SENT.observer(_labels, DURATIONS.record_all)],
            unit="{message}",
            description="Messages that a producer has tried to send.",
        )
        meter.create_observable_counter(
            names.MESSAGING_CLIENT_CONSUMED_MESSAGES,
            [CONSUMED.observer(_labels, DURATIONS.record_all)],
            unit="{message}",
            description="Messages that were given to the application.",
        )

    @property
    def tracer(self) -> trace.Tracer | None:
        """What makes spans; None while no span of it would be recorded."""
        if self._known is not None:
            return self._known
        # The API's own stands for that of a global provider, which may come at any time.
        if self._is_global and getattr(trace, "_TRACER_PROVIDER", trace) is None:
            return None
        found = getattr(self._tracer, "_tracer", self._tracer)
        if isinstance(found, trace.NoOpTracer):
            return None
        self._known, self._quick = found, quick_spans(found)
        return self._known

    @property
    def quick(self) -> QuickSpans | None:
        """What makes spans that nobody else writes to, at less cost. Ask `tracer` first."""
        quick = self._quick
        return quick if quick is not None and quick.usable else None

    @property
    def measures(self) -> bool:
        """Whether metrics are recorded."""
        if self._measures is None:
            histogram: Any = self.operation_duration
            # The API's own instrument stands for that of a global provider, which may come.
            found = getattr(histogram, "_real_instrument", histogram)
            if found is None:
                return False
            self._measures = not isinstance(found, metrics.NoOpHistogram)
        return self._measures

    def requested(
        self, topic: str, address: str, count: int, began: float, error: str = ""
    ) -> None:
        """Record a request of a producer with `count` messages. began: by `now_seconds`."""
        labels = _of(SEND, topic, address, "", error)
        _record(self.operation_duration, labels, began, sent_count=count)

    def received(self, topics: Sequence[tuple[str, int]], group: str, began: float | None) -> None:
        """Record messages that the user was given, by topic. began: of a call that waited."""
        name = PROCESS if began is None else RECEIVE
        for topic, count in topics:
            CONSUMED.add(_of(name, topic, "", group), count)
        if began is not None:
            labels = _of(RECEIVE, topics[0][0] if len(topics) == 1 else "", "", group)
            _record(self.operation_duration, labels, began)

    def processed(
        self, topic: str, group: str, began: float, error: str, context: Context | None
    ) -> None:
        """Record the end of the work on messages. context: of its span."""
        labels = _of(PROCESS, topic, "", group, error)
        _record(self.process_duration, labels, began, context)


def is_suppressed(context: Context) -> bool:
    """Return whether nothing is to be recorded in a context."""
    return bool(context) and any(map(context.get, SUPPRESSED))


def _record(
    histogram: metrics.Histogram,
    labels: Labels,
    began: float,
    context: Context | None = None,
    sent_count: int = 0,
) -> None:
    seconds = now_seconds() - began
    DURATIONS.column(histogram, labels, _labels).add(seconds, context, sent_count)


@lru_cache(maxsize=ATTRIBUTES_REMEMBERED_MAX)
def _of(name: str, topic: str, address: str, group: str, error: str = "") -> Labels:
    """Return the labels of an operation: one object, which is found again quickly."""
    return Labels(name, topic, address, group, error)


@lru_cache(maxsize=ATTRIBUTES_REMEMBERED_MAX)
def _labels(labels: Labels) -> Attributes:
    """Return the attributes of a metric; they are shared, and not to be changed."""
    if labels == OVERFLOW:
        return {labels.error: True}
    found: Attributes = {
        messaging.MESSAGING_SYSTEM: SYSTEM,
        messaging.MESSAGING_OPERATION_NAME: labels.name,
        messaging.MESSAGING_OPERATION_TYPE: labels.name,
    }
    if labels.topic:
        found[messaging.MESSAGING_DESTINATION_NAME] = labels.topic
    if labels.group:
        found[messaging.MESSAGING_CONSUMER_GROUP_NAME] = labels.group
    if labels.error:
        found[ERROR_TYPE] = labels.error
    return found | of_address(labels.address)
