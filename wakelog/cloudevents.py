"""CloudEvents as messages, and messages as CloudEvents, for the package `cloudevents`.

    mode        properties                                         body
    binary      `CE_` and the name of each attribute; the content  the data; one byte 0 for none
                type of the data in `CE_contenttype`
    structured  `CE_contenttype`: application/cloudevents+json     the event as JSON

These are the properties of the CloudEvents SDK for Java. That one writes extensions without `CE_`,
and does not find them again; here they have it.

Invariants: an event comes back as it was, but that binary mode has texts in extensions. What is no
event is an error, never half an event.

Source: io.cloudevents.rocketmq.{RocketmqConstants, RocketmqMessageWriter,
RocketmqBinaryMessageReader}; the RocketMQ transport binding of rocketmq-externals.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Unpack

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from wakelog.client import ClientError, InvalidArgument, Message, ReceivedMessage
from wakelog.client.messages import MessageFields, message_of
from wakelog.client.plain import not_accepted

PREFIX: Final = "CE_"
CONTENT_TYPE: Final = "CE_contenttype"
SPEC_VERSION: Final = "1.0"
STRUCTURED: Final = "application/cloudevents"
STRUCTURED_JSON: Final = "application/cloudevents+json"
NO_DATA: Final = b"\0"
"""The body of an event without data: RocketMQ has no empty bodies."""

_FORMAT: Final = JSONFormat()
_JSON: Final = re.compile(r"[\w.-]+/([\w.-]+\+)?json\s*(;.*)?", re.ASCII | re.IGNORECASE)
_NAME: Final = re.compile("[a-z0-9]+")


class NotAnEvent(ClientError):
    """A message is no CloudEvent, or a damaged one."""


def to_binary(event: BaseCloudEvent, topic: str, **fields: Unpack[MessageFields]) -> Message:
    """Return a message with the attributes as properties, and the data as its body.

    fields: more of the message, as `Message` has them.
    Raises: InvalidArgument for an event that binary mode cannot have.
    """
    attributes = _attributes_of(event)
    kind = attributes.pop("datacontenttype", None)
    properties = {f"{PREFIX}{name}": _text(name, value) for name, value in attributes.items()}
    if kind is not None:
        properties[CONTENT_TYPE] = _text("datacontenttype", kind)
        if str(kind).lower().startswith(STRUCTURED):
            raise InvalidArgument(f"data of {kind} would read as an event", "Use `to_structured`")
    data = event.get_data()
    body = _data_body(data)
    if data is not None and body in (b"", NO_DATA):
        cause = "binary mode cannot tell this data from none"
        raise InvalidArgument(cause, "Use `to_structured`, or an event without data")
    return _message(topic, body, properties, fields)


def to_structured(event: BaseCloudEvent, topic: str, **fields: Unpack[MessageFields]) -> Message:
    """Return a message with the whole event as JSON. Raises: InvalidArgument."""
    kind, data = _attributes_of(event).get("datacontenttype"), event.get_data()
    is_text = data is None or isinstance(data, str | bytes | bytearray)
    if not is_text and kind is not None and not _JSON.fullmatch(str(kind)):
        # The package would write its `repr`.
        cause = f"data of type {type(data).__name__} is no text, and {kind} no JSON"
        raise InvalidArgument(cause, "Give data as bytes or a text")
    try:
        body = _FORMAT.write(event)
    except (TypeError, ValueError) as error:
        raise _no_json("event", error) from error
    return _message(topic, body, {CONTENT_TYPE: STRUCTURED_JSON}, fields)


def from_message(message: ReceivedMessage) -> CloudEvent:
    """Return the event of a message, in whichever mode it is.

    Raises: NotAnEvent; InvalidArgument for what is no message.
    """
    properties = getattr(message, "properties", None)
    if properties is None:
        raise not_accepted("message", message, "a message that a consumer gave")
    kind = properties.get(CONTENT_TYPE, "")
    try:
        if kind.lower().startswith(STRUCTURED):
            return _from_structured(message.body, kind)
        if f"{PREFIX}specversion" not in properties:
            raise ValueError(f"it has neither {PREFIX}specversion nor {CONTENT_TYPE} of an event")
        return _from_binary(message.body, properties)
    except ClientError:
        raise
    except Exception as error:
        said = " ".join(str(error).split()).rstrip(".")
        cause = f"{message!r} at {message.place} is no CloudEvent: {said}"
        raise NotAnEvent(cause, "Look at how it was sent") from error


def _from_structured(body: bytes, kind: str) -> CloudEvent:
    form = kind.partition(";")[0].strip().lower()
    if form != STRUCTURED_JSON:
        raise ValueError(f"its form {form} is not {STRUCTURED_JSON}")
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError("its body is no JSON object")
    _check_own(found)
    if "data" in found and "data_base64" in found:
        raise ValueError("it has both data and data_base64")
    event = _FORMAT.read(CloudEvent, body)
    assert isinstance(event, CloudEvent)
    return _without_new_time(event, found)


def _from_binary(body: bytes, properties: Mapping[str, str]) -> CloudEvent:
    attributes: dict[str, Any] = {}
    for name, value in properties.items():
        if name.startswith(PREFIX) and name != CONTENT_TYPE:
            attribute = name.removeprefix(PREFIX)
            if not _NAME.fullmatch(attribute):
                raise ValueError(f"{attribute!r} is no name of an attribute")
            attributes[attribute] = value
    _check_own(attributes)
    if "time" in attributes:
        attributes["time"] = datetime.fromisoformat(attributes["time"])
    kind = properties.get(CONTENT_TYPE)
    if kind is not None:
        attributes["datacontenttype"] = kind
        if body != NO_DATA and _JSON.fullmatch(kind):
            json.loads(body)  # the package would take damaged JSON for a text
    data = None if body == NO_DATA else _FORMAT.read_data(body, kind)
    return _without_new_time(CloudEvent(dict(attributes), data), attributes)


def _without_new_time(event: CloudEvent, attributes: Mapping[str, Any]) -> CloudEvent:
    """Return an event without the present time, which the package gives to one without a time."""
    if "time" not in attributes:
        del event.get_attributes()["time"]
    return event


def _attributes_of(event: object) -> dict[str, Any]:
    """Return the attributes that are set. Raises: InvalidArgument."""
    if not isinstance(event, CloudEvent):
        cause = f"event is of type {type(event).__name__}"
        raise InvalidArgument(cause, f"Give a CloudEvent {SPEC_VERSION} of the package cloudevents")
    return {name: value for name, value in event.get_attributes().items() if value is not None}


def _text(name: str, value: object) -> str:
    """Return the value of an attribute as the conventions write it. Raises: InvalidArgument."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value.isoformat() if isinstance(value, datetime) else value
    if isinstance(text, int):
        return str(text)
    if not isinstance(text, str) or not text:
        raise InvalidArgument(f"attribute {name} is {value!r}", "Give a text that is not empty")
    return text


def _check_own(attributes: Mapping[str, Any]) -> None:
    """Check what an event has of its own; the package would make up some of it."""
    version = attributes.get("specversion")
    if version != SPEC_VERSION:
        raise ValueError(f"its specversion is {version!r}, not {SPEC_VERSION!r}")
    if missing := [name for name in ("id", "source", "type") if name not in attributes]:
        raise ValueError(f"it has no {', '.join(missing)}")


def _data_body(data: object) -> bytes:
    """Return the body of data: bytes and texts as they are, the rest as JSON.

    Raises: InvalidArgument for what JSON has not; the package would write its `repr`.
    """
    if data is None:
        return NO_DATA
    if isinstance(data, str | bytes | bytearray):
        return data.encode() if isinstance(data, str) else bytes(data)
    try:
        if isinstance(data, dict):
            return _FORMAT.write_data(data, None)  # which knows datetimes
        return json.dumps(data).encode()
    except (TypeError, ValueError) as error:
        raise _no_json("data", error) from error


def _no_json(what: str, error: Exception) -> InvalidArgument:
    cause = f"the {what} cannot be written as JSON: {error}"
    return InvalidArgument(cause, "Give data and attributes that JSON has")


def _message(topic: str, body: bytes, properties: dict[str, str], fields: MessageFields) -> Message:
    given = fields.get("properties") or {}
    taken = sorted(name for name in given if name.startswith(PREFIX))
    if taken:
        raise InvalidArgument(f"{', '.join(taken)} are of the event", "Give the event these")
    return message_of(topic, body, fields)._replace(properties={**given, **properties})
