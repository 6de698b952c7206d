"""The tracer and the instruments of one instrumentor, and what they are given.

A duration and a count of a producer are of its requests: messages that are sent at the same time
travel together, and so cost one record. Spans are of the user's calls.

Source: OpenTelemetry semantic conventions, messaging metrics.
"""

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.semconv._incubating.attributes import messaging_attributes as messaging
from opentelemetry.semconv._incubating.metrics import messaging_metrics as names

from wakelog.otel.attributes import PROCESS, RECEIVE, SEND, SYSTEM, Attributes, of_address

SCOPE: Final = "wakelog.otel"
BOUNDARIES_SECONDS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
)  # fmt: skip
"""Of the histograms, as the conventions advise."""
ATTRIBUTES_REMEMBERED_MAX: Final = 1_024
"""Pairs of topic and server whose attributes are not put together again."""
SUPPRESSED: Final = "suppress_instrumentation"
"""The key of a context in which OpenTelemetry wants nothing recorded."""


class Instruments:
    """See the module."""

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None,
        meter_provider: metrics.MeterProvider | None,
    ) -> None:
        """Take None for the global providers."""
        self.tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
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
        self.sent = meter.create_counter(
            names.MESSAGING_CLIENT_SENT_MESSAGES,
            unit="{message}",
            description="Messages that a producer has tried to send.",
        )
        self.consumed = meter.create_counter(
            names.MESSAGING_CLIENT_CONSUMED_MESSAGES,
            unit="{message}",
            description="Messages that were given to the application.",
        )

    def requested(
        self, topic: str, address: str, count: int, began: float, failed: Attributes | None = None
    ) -> None:
        """Record a request of a producer with `count` messages. began: by `now_seconds`."""
        labels = _labels(SEND, topic, address, "")
        if failed:
            labels = labels | failed
        self.operation_duration.record(now_seconds() - began, labels)
        self.sent.add(count, labels)

    def received(self, topics: Sequence[tuple[str, int]], group: str, began: float | None) -> None:
        """Record messages that the user was given, by topic. began: of a call that waited."""
        for topic, count in topics:
            name = PROCESS if began is None else RECEIVE
            self.consumed.add(count, _labels(name, topic, "", group))
        if began is not None:
            labels = _labels(RECEIVE, topics[0][0] if len(topics) == 1 else "", "", group)
            self.operation_duration.record(now_seconds() - began, labels)

    def processed(self, topic: str, group: str, began: float, failed: Attributes | None) -> None:
        """Record the end of the work on messages."""
        labels = _labels(PROCESS, topic, "", group)
        self.process_duration.record(now_seconds() - began, labels | (failed or {}))


def now_seconds() -> float:
    """Return the steady clock's time."""
    return time.perf_counter()


def is_suppressed() -> bool:
    """Return whether nothing is to be recorded here."""
    return bool(contexts.get_value(SUPPRESSED))


@lru_cache(maxsize=ATTRIBUTES_REMEMBERED_MAX)
def _labels(name: str, topic: str, address: str, group: str) -> Attributes:
    """Return the attributes of a metric; they are shared, and not to be changed."""
    found: Attributes = {
        messaging.MESSAGING_SYSTEM: SYSTEM,
        messaging.MESSAGING_OPERATION_NAME: name,
        messaging.MESSAGING_OPERATION_TYPE: name,
    }
    if topic:
        found[messaging.MESSAGING_DESTINATION_NAME] = topic
    if group:
        found[messaging.MESSAGING_CONSUMER_GROUP_NAME] = group
    return found | of_address(address)
