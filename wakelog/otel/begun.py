"""Begun: a span of the client from its begin to its end, before the SDK has it."""

from typing import Final, NamedTuple

from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, TraceState

from wakelog.otel.attributes import Attributes

LINKS_MAX: Final = 128
"""Links of one span: as many as a span of the SDK keeps."""
_FLAGS: Final = tuple(map(TraceFlags, range(4)))
"""Every combination of the two flags there are."""


class Begun(NamedTuple):
    """A span that has begun; one that is not recorded is only passed on.

    attributes, state: as the sampler wants them. flags: for its own context.
    """

    name: str
    kind: SpanKind
    attributes: Attributes
    trace_id: int
    span_id: int
    flags: int
    state: TraceState | None
    parent: SpanContext | None
    is_recorded: bool
    began_ns: int

    @property
    def context(self) -> SpanContext:
        """What its children and its messages know of it."""
        return SpanContext(self.trace_id, self.span_id, False, _FLAGS[self.flags], self.state)

    @property
    def span(self) -> NonRecordingSpan:
        """A span with this context, for a propagator."""
        return NonRecordingSpan(self.context)
