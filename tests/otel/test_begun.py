"""What children and messages of a span know of it before it has ended."""

from opentelemetry.trace import SpanKind, TraceFlags
from opentelemetry.trace.span import TraceState

from wakelog.otel.begun import Begun

STATE = TraceState([("vendor", "7")])


def test_a_span_that_has_begun_has_a_context_of_its_own_process() -> None:
    begun = Begun("send orders", SpanKind.PRODUCER, {}, 5, 6, 3, STATE, None, True, 1)
    context = begun.context
    assert (context.trace_id, context.span_id, context.is_remote) == (5, 6, False)
    assert (int(context.trace_flags), context.trace_state) == (3, STATE)
    assert type(context.trace_flags) is TraceFlags
    assert begun.span.get_span_context() == context
    assert not begun.span.is_recording()
