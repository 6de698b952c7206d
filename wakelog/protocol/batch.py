"""The body of a batch send: several messages of one topic and queue in a row.

For each message, big endian:

    offset  width  field
    0       4      size of this message in the batch
    4       4      magic, 0
    8       4      CRC, 0
    12      4      flag
    16      4+n    body
    ..      2+n    properties

4.9.3 writes the first three fields and does not read them. Neither does this module. The request's
properties apply to every message, and are appended to each block.

Invariants: decode_batch_body returns exactly the bytes of its argument, split into messages.

Source: org.apache.rocketmq.common.message.MessageDecoder.encodeMessage,
org.apache.rocketmq.store.CommitLog.MessageExtBatchEncoder (4.9.3)
"""

import struct
from collections.abc import Iterable
from typing import Final

import msgspec

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.protocol.properties import (
    CLUSTER,
    PROPERTIES_BYTES_MAX,
    PROPERTY_SEPARATOR,
    decode_properties,
    encode_properties,
)

_HEAD = struct.Struct(">5i")
_PROPERTIES_SIZE = struct.Struct(">h")
_SEPARATOR: Final = PROPERTY_SEPARATOR.encode("ascii")
MESSAGE_BYTES_MIN: Final = _HEAD.size + _PROPERTIES_SIZE.size


class BatchedMessage(msgspec.Struct, frozen=True, gc=False):
    """One message of a batch; `properties` is its block as the client wrote it."""

    flag: int
    body: bytes
    properties: bytes


def decode_batch_body(body: bytes) -> list[BatchedMessage]:
    """Split a batch.

    Raises:
        RemoteProtocolError: SYSTEM_ERROR, if a length is wrong or bytes are left over.
    """
    messages: list[BatchedMessage] = []
    position, end = 0, len(body)
    while position < end:
        if end - position < MESSAGE_BYTES_MIN:
            raise _malformed(f"{end - position} bytes are no message")
        _, _, _, flag, body_bytes = _HEAD.unpack_from(body, position)
        body_begin = position + _HEAD.size
        properties_begin = body_begin + body_bytes + _PROPERTIES_SIZE.size
        if body_bytes < 0 or properties_begin > end:
            raise _malformed(f"a body of {body_bytes} bytes")
        (properties_bytes,) = _PROPERTIES_SIZE.unpack_from(body, body_begin + body_bytes)
        position = properties_begin + properties_bytes
        if properties_bytes < 0 or position > end:
            raise _malformed(f"properties of {properties_bytes} bytes")
        messages.append(
            BatchedMessage(
                flag,
                body[body_begin : body_begin + body_bytes],
                body[properties_begin:position],
            )
        )
    return messages


def encode_batch_body(messages: Iterable[BatchedMessage]) -> bytes:
    """Write a batch.

    Raises:
        LocalProtocolError: if properties are too long.
    """
    parts: list[bytes] = []
    for message in messages:
        if len(message.properties) > PROPERTIES_BYTES_MAX:
            raise LocalProtocolError(f"properties of {len(message.properties)} bytes")
        size_bytes = MESSAGE_BYTES_MIN + len(message.body) + len(message.properties)
        parts += (
            _HEAD.pack(size_bytes, 0, 0, message.flag, len(message.body)),
            message.body,
            _PROPERTIES_SIZE.pack(len(message.properties)),
            message.properties,
        )
    return b"".join(parts)


def batch_properties(text: str | None, cluster_name: str) -> bytes:
    """Encode the request's properties as the block that every message gets."""
    properties = decode_properties(text)
    properties[CLUSTER] = cluster_name
    return encode_properties(properties).encode("utf-8")


def append_properties(inner: bytes, outer: bytes) -> bytes:
    """Append the batch's block to a message's own, separated once."""
    if inner and outer and not inner.endswith(_SEPARATOR):
        return inner + _SEPARATOR + outer
    return inner + outer


def _malformed(reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.SYSTEM_ERROR, f"malformed batch: {reason}")
