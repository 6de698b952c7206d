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
from typing import Final, TypeAlias

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.protocol.properties import (
    PROPERTIES_BYTES_MAX,
    PROPERTY_SEPARATOR,
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
_HEAD_READ = struct.Struct(">12xii")  # without what is not read
_PROPERTIES_SIZE = struct.Struct(">h")
_SEPARATOR: Final = PROPERTY_SEPARATOR.encode("ascii")
_HEAD_BYTES: Final = _HEAD.size
_SIZE_BYTES: Final = _PROPERTIES_SIZE.size
MESSAGE_BYTES_MIN: Final = _HEAD_BYTES + _SIZE_BYTES

BatchedMessage: TypeAlias = tuple[int, bytes, bytes]
"""One message of a batch: flag, body, and the block of its properties as the client wrote it.

No class: to make and to read a plain tuple takes half as long.
"""


def decode_batch_body(body: bytes, messages_max: int) -> list[BatchedMessage]:
    """Split a batch; of one with more messages than may be, return one more and look no further.

    Raises:
        RemoteProtocolError: SYSTEM_ERROR, if a length is wrong or bytes are left over.
    """
    messages, _ = decode_messages(body, 0, messages_max + 1)
    return messages


def decode_messages(body: bytes, position: int, count_max: int) -> tuple[list[BatchedMessage], int]:
    """Split so many messages from a position of a batch on; return the position after them, too.

    Raises: as `decode_batch_body`.
    """
    messages: list[BatchedMessage] = []
    read_head, read_size = _HEAD_READ.unpack_from, _PROPERTIES_SIZE.unpack_from
    end = len(body)
    while position < end and len(messages) < count_max:
        if end - position < MESSAGE_BYTES_MIN:
            raise _malformed(f"{end - position} bytes are no message")
        flag, body_bytes = read_head(body, position)
        body_begin = position + _HEAD_BYTES
        body_end = body_begin + body_bytes
        properties_begin = body_end + _SIZE_BYTES
        if body_bytes < 0 or properties_begin > end:
            raise _malformed(f"a body of {body_bytes} bytes")
        (properties_bytes,) = read_size(body, body_end)
        position = properties_begin + properties_bytes
        if properties_bytes < 0 or position > end:
            raise _malformed(f"properties of {properties_bytes} bytes")
        messages.append((flag, body[body_begin:body_end], body[properties_begin:position]))
    return messages, position


def encode_batch_body(messages: Iterable[BatchedMessage]) -> bytes:
    """Write a batch of messages.

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
) -> tuple[bytearray, list[int]]:
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
    separated, separator, crc32 = _SEPARATOR + outer, _SEPARATOR[0], zlib.crc32
    parts: list[bytes] = []
    sizes: list[int] = []
    tail_bytes, tail = -1, b""  # the topic and the length of properties, of the message before
    empty_bytes = len(empty)
    try:
        for flag, body, inner in messages:
            end = separated if outer and inner and inner[-1] != separator else outer
            properties_bytes, body_bytes = len(inner) + len(end), len(body)
            if properties_bytes != tail_bytes:
                tail = topic_block + _PROPERTIES_SIZE.pack(properties_bytes)
                tail_bytes = properties_bytes
            size_bytes = empty_bytes + body_bytes + properties_bytes
            crc = crc32(body) & CRC_MASK
            head = pack(
                size_bytes,
                MAGIC_BYTES,
                crc,
                queue_id,
                flag,
                queue_offset,
                physical_offset,
                shared,
                body_bytes,
            )
            parts += (head, body, tail, inner, end)
            sizes.append(size_bytes)
            queue_offset += 1
            physical_offset += size_bytes
    except struct.error as error:
        raise LocalProtocolError(f"a field does not fit the record: {error}") from error
    return bytearray().join(parts), sizes


def _malformed(reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.SYSTEM_ERROR, f"malformed batch: {reason}")
