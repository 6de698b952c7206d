"""Calls of what may be a user's own and may raise: the client's user gets no error.

A sampler, a processor, a propagator, a generator of ids or a filter of exemplars may be the user's
own. What it raises is a line in the log. The message is sent or consumed as without telemetry.

Invariants: a failure is logged with its stack once in `LOG_SECONDS`, whatever comes between.
"""

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.trace import NonRecordingSpan, Span, Status, StatusCode, Tracer

from wakelog.otel.attributes import Attributes, of_error

LOG_SECONDS: Final = 60.0
"""After a line, so many seconds pass until the next one."""

logger = logging.getLogger("wakelog.otel")

_logged_seconds: Final[list[float]] = []
"""When the newest line was written, by the steady clock; none at first."""


def log_failure(work: str) -> None:
    """Log the error that is handled now, unless another one was logged just before."""
    now = time.monotonic()
    if _logged_seconds and now - _logged_seconds[0] < LOG_SECONDS:
        return
    _logged_seconds[:] = [now]
    text = "%s failed; the client goes on. Further failures are not logged for a minute"
    logger.exception(text, work)


def start_span(tracer: Tracer, name: str, context: Context | None = None, **fields: Any) -> Span:
    """Return a new span; after an error one that records nothing, and passes its parent on."""
    try:
        return tracer.start_span(name, context, **fields)
    except Exception:
        log_failure("beginning a span")
        return NonRecordingSpan(trace.get_current_span(context).get_span_context())


def add_attributes(span: Span, found: Attributes) -> None:
    """Give a span more attributes."""
    try:
        span.set_attributes(found)
    except Exception:
        log_failure("describing a span")


def add_error(span: Span, error: BaseException) -> None:
    """Have a span that is recorded say with which error its call ended."""
    try:
        if span.is_recording():
            span.set_attributes(of_error(error))
            span.set_status(Status(StatusCode.ERROR, str(error)))
    except Exception:
        log_failure("describing an error")


def add_error_type(span: Span, name: str) -> None:
    """Have a span that is recorded say which type of error there was, and no more."""
    try:
        if span.is_recording():
            span.set_attribute(ERROR_TYPE, name)
            span.set_status(Status(StatusCode.ERROR))
    except Exception:
        log_failure("describing an error")


def add_exception(span: Span, error: BaseException) -> None:
    """Give a span the stack of an error, whose own text may raise."""
    try:
        span.record_exception(error)
    except Exception:
        log_failure("recording an exception")


def end_span(span: Span) -> None:
    """End a span."""
    try:
        span.end()
    except Exception:
        log_failure("ending a span")


def inject(carrier: dict[str, str], context: Context) -> None:
    """Write a context into a carrier; nothing more after an error."""
    try:
        propagate.inject(carrier, context)
    except Exception:
        log_failure("writing the context of a trace")


def extract(carrier: Mapping[str, str]) -> Context:
    """Return the context in a carrier; an empty one after an error."""
    try:
        return propagate.extract(carrier, context=Context())
    except Exception:
        log_failure("reading the context of a trace")
        return Context()
