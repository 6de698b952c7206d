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

Invariants: decode_batch_body returns exactly the bytes of its argument, split into messages, unless
there are too many.

Source: org.apache.rocketmq.common.message.MessageDecoder.encodeMessage,
org.apache.rocketmq.store.CommitLog.MessageExtBatchEncoder (4.9.3)
"""

import struct
import zlib
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
from wakelog.protocol.record import (
    CRC_MASK,
    FLAG_OFFSET,
    HEAD_BYTES_V4,
    HOST_FLAGS,
    INT,
    MAGIC_BYTES,
    QUEUE_ID_OFFSET,
    SYS_FLAG_OFFSET,
    V6_EXTRA_BYTES,
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


def decode_batch_body(body: bytes, messages_max: int) -> list[BatchedMessage]:
    """Split a batch; of one with more messages than may be, return one more and look no further.

    Raises:
        RemoteProtocolError: SYSTEM_ERROR, if a length is wrong or bytes are left over.
    """
    messages: list[BatchedMessage] = []
    position, end = 0, len(body)
    while position < end and len(messages) <= messages_max:
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


def encode_batch_body(messages: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """Write a batch of messages: flag, body and properties of each.

    Raises:
        LocalProtocolError: if properties are too long.
    """
    parts: list[bytes] = []
    sizes, head, end = None, b"", b""
    for flag, body, properties in messages:
        body_bytes, properties_bytes = len(body), len(properties)
        if sizes != (flag, body_bytes, properties_bytes):  # those of a batch are often alike
            sizes = (flag, body_bytes, properties_bytes)
            if properties_bytes > PROPERTIES_BYTES_MAX:
                raise LocalProtocolError(f"properties of {properties_bytes} bytes")
            size_bytes = MESSAGE_BYTES_MIN + body_bytes + properties_bytes
            head = _HEAD.pack(size_bytes, 0, 0, flag, body_bytes)
            end = _PROPERTIES_SIZE.pack(properties_bytes)
        parts += (head, body, end, properties)
    return b"".join(parts)


def encode_records(
    messages: Iterable[BatchedMessage],
    empty: bytes,
    outer: bytes,
    *,
    queue_offset: int,
    physical_offset: int,
) -> tuple[bytes, list[int]]:
    """Return the records that store a batch, one after the other, and the size of each.

    empty: the record of a message of this batch without body and properties; the others differ from
    it by these, the flag, the CRC and the offsets. outer: the block that every message gets.

    Raises:
        LocalProtocolError: if a field does not fit the record.
    """
    (sys_flag,) = INT.unpack_from(empty, SYS_FLAG_OFFSET)
    head_bytes = HEAD_BYTES_V4 + V6_EXTRA_BYTES * (sys_flag & HOST_FLAGS).bit_count()
    shared, topic_block = empty[SYS_FLAG_OFFSET : head_bytes - INT.size], empty[head_bytes:-2]
    queue_id = empty[QUEUE_ID_OFFSET:FLAG_OFFSET]
    pack = struct.Struct(f">i4sI4si2q{len(shared)}si").pack
    separated, crc32 = _SEPARATOR + outer, zlib.crc32
    parts: list[bytes] = []
    sizes: list[int] = []
    tails: dict[int, bytes] = {}  # the topic and the length of properties, by that length
    try:
        for message in messages:
            body, inner = message.body, message.properties
            end = separated if outer and inner and inner[-1] != _SEPARATOR[0] else outer
            properties_bytes = len(inner) + len(end)
            tail = tails.get(properties_bytes)
            if tail is None:
                tail = topic_block + _PROPERTIES_SIZE.pack(properties_bytes)
                tails[properties_bytes] = tail
            size_bytes = len(empty) + len(body) + properties_bytes
            crc = crc32(body) & CRC_MASK
            offsets = queue_offset + len(sizes), physical_offset
            head = pack(
                size_bytes, MAGIC_BYTES, crc, queue_id, message.flag, *offsets, shared, len(body)
            )
            parts += (head, body, tail, inner, end)
            sizes.append(size_bytes)
            physical_offset += size_bytes
    except struct.error as error:
        raise LocalProtocolError(f"a field does not fit the record: {error}") from error
    return b"".join(parts), sizes


def batch_properties(text: str | None, cluster_name: str) -> bytes:
    """Encode the request's properties as the block that every message gets."""
    properties = decode_properties(text)
    properties[CLUSTER] = cluster_name
    return encode_properties(properties).encode("utf-8")


def _malformed(reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.SYSTEM_ERROR, f"malformed batch: {reason}")
