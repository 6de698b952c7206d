"""The context among the properties of a message."""

from typing import Any

import pytest
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tests.fakes.records import record
from wakelog.client.appended import APPENDED_BYTES_MAX
from wakelog.client.messages import Message, encode
from wakelog.client.received import ReceivedMessage
from wakelog.otel.begun import LINKS_MAX
from wakelog.otel.propagation import (
    context_of,
    has_context,
    is_unsampled,
    links_to,
    properties_of,
    properties_within,
)
from wakelog.otel.quick_spans import quick_spans
from wakelog.protocol.properties import PROPERTIES_BYTES_MAX, decode_properties
from wakelog.protocol.record import decode_record

PARENT = "00-000000000000000000000000000000aa-00000000000000bb-01"


def injected(message: Message, user: str = "7") -> dict[str, str]:
    """Return the properties of a message that was sent within a span with baggage."""
    span = NonRecordingSpan(SpanContext(0xAA, 0xBB, False, TraceFlags(1)))
    inside = baggage.set_baggage("user", user, trace.set_span_in_context(span))
    token = context.attach(inside)
    try:
        return decode_properties(
            encode(message, "ID", appended=properties_of(context.get_current())).properties
        )
    finally:
        context.detach(token)


def received(properties: str) -> ReceivedMessage:
    return ReceivedMessage(decode_record(record(0, properties.encode())))


def test_the_names_are_those_of_the_java_agent() -> None:
    found = injected(Message("T", b"x", tags="t"))
    assert (found["traceparent"], found["baggage"], found["TAGS"]) == (PARENT, "user=7", "t")


def test_a_message_keeps_the_context_that_it_has() -> None:
    message = Message("T", b"x", properties={"traceparent": "mine"})
    assert injected(message)["traceparent"] == "mine"
    assert "baggage" not in injected(message)


@pytest.mark.parametrize(("left", "has"), [(len(PARENT) + 40, True), (20, False)])
def test_properties_that_would_become_too_long_stay(left: int, has: bool) -> None:
    plain = encode(Message("T", b"x", properties={"a": "1"}), "ID").properties
    long = "1" * (PROPERTIES_BYTES_MAX - len(plain.encode()) - left)
    found = injected(Message("T", b"x", properties={"a": "1" + long}))
    assert ("traceparent" in found) is has
    assert found["a"] == "1" + long


def test_outside_of_a_span_nothing_is_added() -> None:
    assert properties_of(context.Context()) == ""
    assert properties_of(context.set_value("other", 1, context.Context())) == ""


def test_a_context_that_is_too_long_stays_here() -> None:
    message = Message("T", b"x")
    assert "traceparent" in injected(message, "7" * 4_000)
    many = {f"n{n}": "7" * 200 for n in range(60)}
    token = context.attach(context.Context())
    for name, value in many.items():
        context.attach(baggage.set_baggage(name, value))
    found = properties_of(context.get_current())
    context.detach(token)
    assert len(found) <= APPENDED_BYTES_MAX


def test_a_context_comes_back_with_its_baggage() -> None:
    found = context_of(received(f"traceparent\x01{PARENT}\x02baggage\x01user=7"))
    span = trace.get_current_span(found).get_span_context()
    assert (span.trace_id, span.span_id, span.is_remote) == (0xAA, 0xBB, True)
    assert baggage.get_baggage("user", found) == "7"


@pytest.mark.parametrize(
    "text", ["", "TAGS\x01t", "traceparent\x01no\x02TAGS\x01t", "xtraceparent\x01"]
)
def test_without_a_context_there_is_no_link(text: str) -> None:
    message = received(text)
    assert links_to([message]) == []
    assert not trace.get_current_span(context_of(message)).get_span_context().is_valid


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("{}00", True),
        ("{}02\x02TAGS\x01t", True),
        ("TAGS\x01t\x02{}0e", True),
        ("{}01", False),
        ("{}0f", False),
        ("{}00\x02baggage\x01user=7", False),
        ("{}00\x02tracestate\x01a=b", False),
        ("x{}00", False),
        ("", False),
        ("traceparent\x0100-" + "0" * 32 + "-00000000000000bb-00", False),
        ("traceparent\x0100-000000000000000000000000000000aa-" + "0" * 16 + "-00", False),
    ],
)
def test_a_context_that_is_not_sampled_is_known_by_its_flags(text: str, is_one: bool) -> None:
    assert is_unsampled(text.format(f"traceparent\x01{PARENT[:-2]}")) is is_one


def test_links_are_few_and_different() -> None:
    one = received(f"traceparent\x01{PARENT}")
    several = [
        received(f"TAGS\x01t\x02traceparent\x0100-{n:032x}-00000000000000bb-01\x02x\x01y")
        for n in range(1, 2 * LINKS_MAX)
    ]
    assert len(links_to([one, one, one])) == 1
    assert len(links_to(several)) == LINKS_MAX


def test_a_plain_context_is_written_as_the_propagator_does() -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    spans = quick_spans(provider.get_tracer("scope"))
    assert spans is not None
    with_baggage = baggage.set_baggage("user", "7", context.Context())
    remote = SpanContext(0xAA, 0xBB, True, TraceFlags(1), TraceState([("a", "b")]))
    with_state = trace.set_span_in_context(NonRecordingSpan(remote), context.Context())
    for inside in (context.Context(), with_baggage, with_state):
        begun = spans.begin(inside, "name", trace.SpanKind.PRODUCER, {})
        wanted = properties_of(trace.set_span_in_context(begun.span, inside))
        assert properties_within(begun, inside) == wanted != ""


def test_other_propagators_are_asked() -> None:
    class Own(TraceContextTextMapPropagator):
        def inject(self, carrier: Any, *given: Any, **named: Any) -> None:
            carrier["own"] = "1"

        @property
        def fields(self) -> set[str]:
            return {"own"}

    provider, before = TracerProvider(shutdown_on_exit=False), propagate.get_global_textmap()
    spans = quick_spans(provider.get_tracer("scope"))
    assert spans is not None
    begun = spans.begin(context.Context(), "name", trace.SpanKind.PRODUCER, {})
    propagate.set_global_textmap(Own())
    try:
        assert properties_within(begun, context.Context()) == "\x02own\x011"
        assert has_context(received("own\x011"))
        assert not has_context(received(f"traceparent\x01{PARENT}"))
    finally:
        propagate.set_global_textmap(before)
    assert has_context(received(f"traceparent\x01{PARENT}"))
