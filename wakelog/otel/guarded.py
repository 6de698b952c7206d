"""Calls of what may be a user's own and may raise: the client's user gets no error.

A sampler, a processor, a propagator or a generator of ids may be the user's own. What it raises is
a line in the log, and the message is sent or consumed as without telemetry.

Invariants: a failure is logged with its stack once in `LOG_SECONDS`, whatever comes between.
"""

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, Tracer

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
