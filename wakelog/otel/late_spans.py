"""Spans of the SDK that are built once somebody looks at them, and of which most never are.

The span of the work on a message is its user's, too: it is the current one, and may get attributes,
events and another name. To build it takes the SDK 40 µs or more, and most users never touch it. So
it knows its context here, and becomes a whole span of the SDK at the first look at anything else.
One that ends untouched is exported as a quick span.

Invariants: an exporter and a user see what they would see of `start_span`. This module imports the
SDK, and `quick_spans.py` imports it where there is one.

Source: opentelemetry.sdk.trace.Span (1.45).
"""

import os
import threading
from collections.abc import Callable, Sequence
from time import time_ns
from typing import Any, Final

from opentelemetry.sdk.trace import Span, Tracer, _Span
from opentelemetry.trace import Link

from wakelog.otel.attributes import Attributes
from wakelog.otel.begun import Begun

_BUILT: Final = "_attributes"
"""A field that only a whole span has."""
_BEGUN: Final = "_late"
"""A field that every span here has from its begin on; a copy has none at first."""


class _Building:
    """The lock that is held while a span becomes a whole one, or ends without.

    Threads may share a span. Garbage that is collected meanwhile may end another, or the same one.
    """

    def __init__(self) -> None:
        """Have it free; a forked process does so again, since no other thread holds it there."""
        self.lock = threading.RLock()


_building: Final = _Building()
os.register_at_fork(after_in_child=_building.__init__)  # type: ignore[misc]


class LateSpan(Span):
    """See the module. Any thread."""

    def __init__(
        self,
        tracer: Tracer,
        end: Callable[..., None],
        begun: Begun,
        attributes: Attributes,
        links: Sequence[Link],
    ) -> None:
        """Take a span that is recorded. attributes: all it has, plain values only.

        end: `QuickSpans.end`, for a span that ends untouched.
        """
        self._context = begun.context
        self._late = tracer, end, begun, attributes, links
        self._ended_ns: int | None = None

    def __getattr__(self, name: str) -> Any:
        """Become a whole span, and return what it has."""
        if _BUILT not in self.__dict__ and _BEGUN in self.__dict__:
            self._build()
            return getattr(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _build(self) -> None:
        with _building.lock:
            if _BUILT in self.__dict__:
                return
            tracer, _, begun, attributes, links = self._late
            fields = _whole(tracer, begun, attributes, links).__dict__
            if _BUILT not in self.__dict__:  # garbage collected just now may have ended it
                fields.update(_context=self._context, _end_time=self._ended_ns)
                self.__dict__.update(fields)  # at once: other threads see none or all

    def is_recording(self) -> bool:
        """Return whether it has not ended."""
        return super().is_recording() if _BUILT in self.__dict__ else self._ended_ns is None

    def end(self, end_time: int | None = None) -> None:
        """End it. end_time: nanoseconds, None for now."""
        with _building.lock:
            is_untouched = _BUILT not in self.__dict__ and self._ended_ns is None
            if is_untouched:
                self._ended_ns = end_time or time_ns()
        if not is_untouched:
            super().end(end_time)
            return
        _, end, begun, attributes, links = self._late
        end(begun, attributes, links, context=self._context, ended_ns=self._ended_ns)


def _whole(tracer: Tracer, begun: Begun, attributes: Attributes, links: Sequence[Link]) -> _Span:
    """Return what the SDK would have made when the span began."""
    span = _Span(
        begun.name,
        begun.context,
        begun.parent,
        sampler=tracer.sampler,
        resource=tracer.resource,
        attributes=attributes,
        links=links,
        kind=begun.kind,
        span_processor=tracer.span_processor,
        instrumentation_info=tracer.instrumentation_info,
        limits=tracer._span_limits,
        instrumentation_scope=tracer._instrumentation_scope,
    )
    span._start_time = begun.began_ns  # its processors do not look at a begin
    return span
