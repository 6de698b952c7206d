"""JSON bodies to Structs and back, by one pair of functions for all of them.

Most bodies are plain JSON. msgspec reads them in one pass, strings in place of numbers included
(the Go client's code sets). Bodies that it refuses are read again by the rules of fastjson.py:
unquoted and object keys, and null fields, which count as absent. The only object that 4.9.3 uses as
a key is a MessageQueue.

Invariants: `decode_body` raises nothing but RemoteProtocolError.

Source: org.apache.rocketmq.remoting.protocol.RemotingSerializable (4.9.3)
"""

from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from wakelog.protocol import fastjson
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.ext_fields import Int32
from wakelog.protocol.fastjson import ENTRIES_MAX, FILE_ENTRIES_MAX, RESPONSE_ENTRIES_MAX
from wakelog.protocol.steps import Steps, finish
from wakelog.typed_values import convert, json_decoder

PARTS_PER_STEP: Final = 2_048
"""Of one object or array: some 0.3 ms."""

BodyType = TypeVar("BodyType", bound=msgspec.Struct)

_JSON_EXCEPTION: Final = "com.alibaba.fastjson.JSONException"


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """One queue of one topic at one broker; a key of maps, ordered as in Java."""

    topic: str = ""
    broker_name: str = ""
    queue_id: Int32 = 0


def decode_body(body_type: type[BodyType], data: bytes) -> BodyType:
    """Read a body; unknown fields are ignored, absent ones have their default.

    A body that is not ordinary JSON may have ENTRIES_MAX entries.

    Raises:
        RemoteProtocolError: SYSTEM_ERROR, if it is not JSON or a field has a wrong type.
    """
    return _decode(body_type, data, ENTRIES_MAX)


def decode_response(body_type: type[BodyType], data: bytes) -> BodyType:
    """Read what a client asked a server for: `decode_body` with RESPONSE_ENTRIES_MAX entries.

    Raises: RemoteProtocolError as `decode_body` does.
    """
    return _decode(body_type, data, RESPONSE_ENTRIES_MAX)


def decode_body_in_steps(body_type: type[BodyType], data: bytes) -> Steps[BodyType]:
    """Read a body; no step if it is ordinary JSON. Raises: RemoteProtocolError as `decode_body`."""
    try:
        body: BodyType = _decoder(body_type).decode(data)
    except (ValueError, RecursionError):
        body = yield from decode_tolerantly(body_type, data)
    return body


def decode_file(body_type: type[BodyType], text: str) -> BodyType:
    """Read the text of a configuration file, which may be longer than a peer's body.

    Raises: ValueError with the cause of `decode_body`, without what is for a peer.
    """
    try:
        return _decode(body_type, text.encode(), FILE_ENTRIES_MAX)
    except RemoteProtocolError as error:
        raise ValueError(error.remark.removeprefix(f"{_JSON_EXCEPTION}: ")) from None


def encode_body(body: msgspec.Struct) -> bytes:
    """Write a body as fastjson does."""
    return fastjson.dumps(body)


def _decode(body_type: type[BodyType], data: bytes, entries_max: int) -> BodyType:
    try:
        body: BodyType = _decoder(body_type).decode(data)
    except (ValueError, RecursionError):
        body = finish(decode_tolerantly(body_type, data, entries_max))
    return body


def decode_tolerantly(
    body_type: type[BodyType], data: bytes, entries_max: int = ENTRIES_MAX
) -> Steps[BodyType]:
    """Read a body that msgspec alone has refused. Raises: RemoteProtocolError."""
    try:
        value = yield from fastjson.loads_in_steps(data, entries_max=entries_max)
        bound = yield from _bind(value)
        return convert(bound, body_type, strict=False)
    except ValueError as error:
        remark = f"{_JSON_EXCEPTION}: {error}"
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark) from error


@cache
def _decoder(body_type: type[BodyType]) -> "msgspec.json.Decoder[BodyType]":
    return json_decoder(body_type, strict=False)


def _bind(value: Any) -> Steps[Any]:
    # Recursion is bounded by the reader's own limit on nesting.
    if isinstance(value, dict):
        table = {}
        for number, (key, part) in enumerate(value.items(), 1):
            if part is not None:
                is_plain = not isinstance(part, dict | list)
                table[_bind_key(key)] = part if is_plain else (yield from _bind(part))
            if not number % PARTS_PER_STEP:
                yield
        return table
    if isinstance(value, list):
        parts = []
        for number, part in enumerate(value, 1):
            parts.append((yield from _bind(part)) if isinstance(part, dict | list) else part)
            if not number % PARTS_PER_STEP:
                yield
        return parts
    return value


def _bind_key(key: object) -> object:
    if isinstance(key, tuple):
        return convert(dict(key), MessageQueue, strict=False)
    return key
