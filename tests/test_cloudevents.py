"""CloudEvents as messages and back, with the properties of the SDK for Java."""

from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.v1.event import CloudEvent

from tests.fakes.records import record
from wakelog.client import InvalidArgument, Message, ReceivedMessage
from wakelog.client.messages import encode
from wakelog.cloudevents import NO_DATA, NotAnEvent, from_message, to_binary, to_structured
from wakelog.protocol.record import decode_record

TIME = datetime(2026, 11, 29, 12, 0, 0, 250_000, tzinfo=UTC)
BINARY = {
    "CE_specversion": "1.0",
    "CE_id": "1",
    "CE_source": "/shop",
    "CE_type": "paid",
}


def event(data: Any = None, **more: Any) -> CloudEvent:
    """Return an event with the attributes that each has, and more."""
    own = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "paid"}
    return CloudEvent({**own, **more}, data)


def received(properties: dict[str, str], body: bytes) -> ReceivedMessage:
    text = "\x02".join(f"{name}\x01{value}" for name, value in properties.items())
    return ReceivedMessage(decode_record(record(0, text.encode(), topic="T", body=body)))


def through(message: Message) -> CloudEvent:
    """Return what a consumer makes of a message."""
    encoded = encode(message, "ID")
    stored = record(0, encoded.properties.encode(), topic="T", body=encoded.body)
    return from_message(ReceivedMessage(decode_record(stored)))


EVENTS = [
    event(),
    event({"number": 4711, "name": "ä"}, datacontenttype="application/json"),
    event("a text", datacontenttype="text/plain", subject="4711", time=TIME),
    event(b"\xff\x00", datacontenttype="application/octet-stream", dataschema="urn:x", tenant="a"),
    event({"a": [1, None]}),
    event([1, "a", None, True], datacontenttype="application/json"),
]


@pytest.mark.parametrize("write", [to_binary, to_structured])
@pytest.mark.parametrize("given", EVENTS, ids=lambda x: str(x.get_datacontenttype()))
def test_an_event_comes_back_as_it_was(write: Any, given: CloudEvent) -> None:
    found = through(write(given, "T", keys="k"))
    assert found.get_data() == given.get_data()
    assert found.get_attributes() == given.get_attributes()


def test_the_properties_are_those_of_the_sdk_for_java() -> None:
    given = event("x", datacontenttype="text/plain", time=TIME, tenant="a")
    binary = to_binary(given, "T", tags="t", properties={"mine": "1"})
    assert (binary.topic, binary.body, binary.tags) == ("T", b"x", "t")
    assert binary.properties == {
        **BINARY,
        "CE_contenttype": "text/plain",
        "CE_time": "2026-11-29T12:00:00.250000+00:00",
        "CE_tenant": "a",
        "mine": "1",
    }
    assert to_binary(event(), "T").body == NO_DATA
    structured = to_structured(given, "T")
    assert structured.properties == {"CE_contenttype": "application/cloudevents+json"}
    assert b'"data": "x"' in (structured.body if isinstance(structured.body, bytes) else b"")


def test_a_message_of_java_is_read() -> None:
    found = from_message(
        received({**BINARY, "CE_time": "2026-11-29T12:00:00Z", "KEYS": "k"}, b"\0")
    )
    assert found.get_time() == datetime(2026, 11, 29, 12, tzinfo=UTC)
    assert found.get_data() is None
    assert "time" not in from_message(received(BINARY, b"x")).get_attributes()
    body = b'{"specversion":"1.0","id":"1","source":"/","type":"t","data_base64":"/w=="}'
    kind = {"CE_contenttype": "application/cloudevents+json; charset=utf-8"}
    assert from_message(received(kind, body)).get_data() == b"\xff"


STRUCTURED = {"CE_contenttype": "application/cloudevents+json"}


@pytest.mark.parametrize(
    ("properties", "body", "reason"),
    [
        ({}, b"x", "neither CE_specversion nor CE_contenttype"),
        ({**BINARY, "CE_specversion": "2.0"}, b"x", "its specversion is '2.0', not '1.0'"),
        ({"CE_specversion": "1.0"}, b"x", "it has no id, source, type"),
        ({**BINARY, "CE_time": "today"}, b"x", "today"),
        ({**BINARY, "CE_Odd": "1"}, b"x", "'Odd' is no name of an attribute"),
        ({**BINARY, "CE_contenttype": "application/json"}, b"{", "Expecting"),
        ({"CE_contenttype": "application/cloudevents+avro"}, b"x", "is not application/cloud"),
        (STRUCTURED, b"{", "Expecting"),
        (STRUCTURED, b"[]", "no JSON object"),
        (STRUCTURED, b"{}", "its specversion is None"),
        (STRUCTURED, b'{"specversion":"1.0","type":"t","source":"s"}', "it has no id"),
        (
            STRUCTURED,
            b'{"specversion":"1.0","type":"t","source":"s","id":"1","data":1,"data_base64":""}',
            "both data",
        ),
        (STRUCTURED, b"\xff", "codec can't decode"),
    ],
)
def test_what_is_no_event_is_an_error_with_its_place(
    properties: dict[str, str], body: bytes, reason: str
) -> None:
    with pytest.raises(NotAnEvent) as caught:
        from_message(received(properties, body))
    assert reason in caught.value.cause
    assert "offset 0 of queue 0 of topic" in caught.value.cause


@pytest.mark.parametrize(
    ("given", "fields", "reason"),
    [
        (event(b""), {}, "cannot tell this data from none"),
        (event(b"\0"), {}, "cannot tell this data from none"),
        (event(b"x", datacontenttype="application/cloudevents+json"), {}, "read as an event"),
        (event(tenant=""), {}, "attribute tenant is ''"),
        (event(), {"properties": {"CE_id": "2"}}, "CE_id are of the event"),
        ({"id": "1"}, {}, "event is of type dict"),
        (event(object()), {}, "data cannot be written as JSON: Object of type object"),
        (event({"a": {1}}, datacontenttype="application/x-own"), {}, "Object of type set"),
        (event(), {"tag": "paid"}, "unknown fields tag. Perhaps tags"),
    ],
)
def test_what_binary_mode_cannot_have_is_refused(given: Any, fields: Any, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        to_binary(given, "T", **fields)


def test_what_json_cannot_have_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="cannot be written as JSON"):
        to_structured(event({"a": {1}}), "T")
    with pytest.raises(InvalidArgument, match="data of type list is no text, and text/plain no"):
        to_structured(event([1], datacontenttype="text/plain"), "T")
    with pytest.raises(InvalidArgument, match="event is of type int"):
        to_structured(7, "T")  # type: ignore[arg-type]


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="Give a message that a consumer gave"):
        from_message(b"body")  # type: ignore[arg-type]


def test_numbers_and_flags_are_texts_in_binary_mode() -> None:
    found = through(to_binary(event(sequence=7, urgent=True), "T"))
    assert (found.get_extension("sequence"), found.get_extension("urgent")) == ("7", "true")
