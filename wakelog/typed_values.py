"""Values of a known type, read from JSON, MessagePack and plain objects in any thread.

msgspec describes a type when it first meets it, and keeps the description. A second thread that
meets the type meanwhile is given the half that is there, and the process dies of it. So a type is
described here first, by one thread at a time. After that msgspec's functions are safe.

A fork waits for it, too: the child has no thread that would complete a half.

Invariants: outside this module nothing makes a decoder of a type or converts to one.
"""

import os
import threading
from typing import Any, Final, TypeVar

import msgspec

Value = TypeVar("Value")

_describing: Final = threading.RLock()  # garbage that is collected meanwhile may read a type
_described: Final[set[Any]] = set()  # only what the code of wakelog names: a few hundred types

os.register_at_fork(
    before=_describing.acquire,
    after_in_parent=_describing.release,
    after_in_child=_describing.release,
)


def json_decoder(kind: type[Value], *, strict: bool = True) -> "msgspec.json.Decoder[Value]":
    """Return what reads a type from JSON. Raises: TypeError for a type that JSON cannot have."""
    with _describing:
        return msgspec.json.Decoder(kind, strict=strict)


def msgpack_decoder(kind: type[Value]) -> "msgspec.msgpack.Decoder[Value]":
    """Return what reads a type from MessagePack. Raises: TypeError for one that it cannot have."""
    with _describing:
        return msgspec.msgpack.Decoder(kind)


def decode_json(data: bytes | str, kind: type[Value]) -> Value:
    """Read one value from JSON. Raises: msgspec.DecodeError, also where the type is another."""
    if kind not in _described:
        _describe(kind)
    return msgspec.json.decode(data, type=kind)


def decode_msgpack(data: bytes, kind: type[Value]) -> Value:
    """Read one value from MessagePack. Raises: msgspec.DecodeError as `decode_json` does."""
    if kind not in _described:
        _describe(kind)
    return msgspec.msgpack.decode(data, type=kind)


def convert(value: object, kind: type[Value], *, strict: bool = True) -> Value:
    """Return a plain value as a type; numbers may be texts if not strict.

    Raises: msgspec.ValidationError.
    """
    if kind not in _described:
        _describe(kind)
    return msgspec.convert(value, kind, strict=strict)


def _describe(kind: type[Any]) -> None:
    with _describing:
        msgspec.msgpack.Decoder(kind)  # which takes every type, and every key of a map
        _described.add(kind)
