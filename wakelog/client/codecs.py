"""Codecs: values of a type to bodies of messages, and back.

JSON and MessagePack come with the client, for structs of msgspec, dataclasses, TypedDicts and what
else msgspec knows; JSON also for models of pydantic. Any object with `encode` and `decode` is a
codec, such as one of Avro or Protobuf.

Invariants: no package is imported for a codec; a model of pydantic is known by its methods.
"""

from typing import Any, Generic, Protocol, TypeVar

import msgspec

from wakelog.client.errors import InvalidArgument
from wakelog.typed_values import json_decoder, msgpack_decoder

Value = TypeVar("Value")


class Codec(Protocol[Value]):
    """What turns values into bodies, and back. Either may raise any Exception."""

    def encode(self, value: Value, /) -> bytes:
        """Return the body of a value; it must not be empty."""
        ...

    def decode(self, body: bytes, /) -> Value:
        """Return the value of a body."""
        ...


class JsonCodec(Generic[Value]):
    """JSON, checked against a type."""

    def __init__(self, kind: type[Value]) -> None:
        """kind: of the values. Raises: InvalidArgument for one that JSON cannot have."""
        self.kind = kind
        self._is_model = hasattr(kind, "model_validate_json") and hasattr(kind, "model_dump_json")
        if not self._is_model:
            try:
                self._decoder = json_decoder(kind)
            except TypeError as error:
                raise _no_kind("JSON", error) from error

    def encode(self, value: Value, /) -> bytes:
        """Return the body of a value. Raises: TypeError for one of another type."""
        _check_kind(value, self.kind)
        if self._is_model:
            model: Any = value
            text: str = model.model_dump_json()
            return text.encode()
        return msgspec.json.encode(value)

    def decode(self, body: bytes, /) -> Value:
        """Return the value of a body. Raises: ValueError."""
        if self._is_model:
            model: Any = self.kind
            value: Value = model.model_validate_json(body)
            return value
        return self._decoder.decode(body)


class MsgpackCodec(Generic[Value]):
    """MessagePack, checked against a type."""

    def __init__(self, kind: type[Value]) -> None:
        """kind: of the values. Raises: InvalidArgument for one that MessagePack cannot have."""
        self.kind = kind
        try:
            self._decoder = msgpack_decoder(kind)
        except TypeError as error:
            raise _no_kind("MessagePack", error) from error

    def encode(self, value: Value, /) -> bytes:
        """Return the body of a value. Raises: TypeError for one of another type."""
        _check_kind(value, self.kind)
        return msgspec.msgpack.encode(value)

    def decode(self, body: bytes, /) -> Value:
        """Return the value of a body. Raises: ValueError."""
        return self._decoder.decode(body)


def _check_kind(value: object, kind: object) -> None:
    if isinstance(kind, type) and getattr(kind, "__total__", None) is None:  # else a TypedDict
        try:
            fits = isinstance(value, kind)
        except TypeError:  # such as list[int]: the consumer checks it
            return
        if not fits:
            raise TypeError(f"it is of type {type(value).__name__}, not {kind.__name__}")


def _no_kind(form: str, error: TypeError) -> InvalidArgument:
    remedy = "Give a Struct of msgspec, a dataclass, a TypedDict, or a model of pydantic for JSON"
    return InvalidArgument(f"{form} has no values of this type: {error}", remedy)
