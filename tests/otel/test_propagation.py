"""The context among the properties of a message."""

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from tests.fakes.records import record
from wakelog.client.appended import APPENDED_BYTES_MAX
from wakelog.client.messages import Message, encode
from wakelog.client.received import ReceivedMessage
from wakelog.otel.propagation import LINKS_MAX, context_of, current_properties, links_to
from wakelog.protocol.properties import PROPERTIES_BYTES_MAX, decode_properties
from wakelog.protocol.record import decode_record

PARENT = "00-000000000000000000000000000000aa-00000000000000bb-01"


def injected(message: Message, user: str = "7") -> dict[str, str]:
    """Return the properties of a message that was sent within a span with baggage."""
    span = NonRecordingSpan(SpanContext(0xAA, 0xBB, False, TraceFlags(1)))
    inside = baggage.set_baggage("user", user, trace.set_span_in_context(span))
    token = context.attach(inside)
    try:
        return decode_properties(encode(message, "ID", appended=current_properties()).properties)
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
    assert current_properties() == ""


def test_a_context_that_is_too_long_stays_here() -> None:
    message = Message("T", b"x")
    assert "traceparent" in injected(message, "7" * 4_000)
    many = {f"n{n}": "7" * 200 for n in range(60)}
    token = context.attach(context.Context())
    for name, value in many.items():
        context.attach(baggage.set_baggage(name, value))
    found = current_properties()
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


def test_links_are_few_and_different() -> None:
    one = received(f"traceparent\x01{PARENT}")
    several = [
        received(f"TAGS\x01t\x02traceparent\x0100-{n:032x}-00000000000000bb-01\x02x\x01y")
        for n in range(1, 2 * LINKS_MAX)
    ]
    assert len(links_to([one, one, one])) == 1
    assert len(links_to(several)) == LINKS_MAX
