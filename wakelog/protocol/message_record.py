"""The stored message record: one entry of the commit log, and one frame of a pull's body.

B is 8, or 20 when sys_flag has MESSAGE_BORN_HOST_V6; S likewise with MESSAGE_STORE_HOST_V6.
All numbers are big endian and signed. These positions are on disk and never change.

    offset    width  field
    0         4      size of the whole record
    4         4      magic: MESSAGE_MAGIC, or BLANK_MAGIC for the end of a file
    8         4      body CRC: CRC-32 of the body as stored, top bit cleared
    12        4      queue id
    16        4      flag, the user's own
    20        8      queue offset
    28        8      physical offset
    36        4      sys_flag
    40        8      born timestamp, ms
    48        B      born host: address bytes, then a 4-byte port
    48+B      8      store timestamp, ms
    56+B      S      store host
    56+B+S    4      reconsume times
    60+B+S    8      prepared transaction offset
    68+B+S    4+n    body
    ..        1+n    topic, UTF-8, at most 127 bytes
    ..        2+n    properties, UTF-8, at most 32767 bytes

Invariants: the two V6 bits of sys_flag and the widths of the hosts always agree; the first
field equals the sum of the widths.

Source: org.apache.rocketmq.store.CommitLog, org.apache.rocketmq.common.message.MessageDecoder
(4.9.3). The same in words: docs/formats/message_record.md
"""

import struct
import zlib
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Final

import crcmod.predefined
import msgspec

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.protocol.sys_flag import MESSAGE_BORN_HOST_V6, MESSAGE_STORE_HOST_V6

Host = tuple[str, int]
"""An address in text and a port."""

MESSAGE_MAGIC: Final = -626843481  # 0xDAA320A7
BLANK_MAGIC: Final = -875286124  # 0xCBD43194
BLANK_BYTES: Final = 8
"""A record is followed by at least this much room in its file, where a blank would start."""

SIZE_OFFSET: Final = 0
MAGIC_OFFSET: Final = 4
BODY_CRC_OFFSET: Final = 8
QUEUE_ID_OFFSET: Final = 12
FLAG_OFFSET: Final = 16
QUEUE_OFFSET_OFFSET: Final = 20
PHYSICAL_OFFSET_OFFSET: Final = 28
SYS_FLAG_OFFSET: Final = 36
BORN_TIMESTAMP_OFFSET: Final = 40
BORN_HOST_OFFSET: Final = 48

# With two v4 hosts, the usual case; each v6 host moves what follows it by V6_EXTRA_BYTES.
STORE_TIMESTAMP_OFFSET_V4: Final = 56
STORE_HOST_OFFSET_V4: Final = 64
RECONSUME_TIMES_OFFSET_V4: Final = 72
PREPARED_TRANSACTION_OFFSET_OFFSET_V4: Final = 76
BODY_SIZE_OFFSET_V4: Final = 84
RECORD_BYTES_MIN: Final = 91
V6_EXTRA_BYTES: Final = 12

TOPIC_BYTES_MAX: Final = 127
"""The record's topic length is a signed byte."""

_HOST_FLAGS = MESSAGE_BORN_HOST_V6 | MESSAGE_STORE_HOST_V6
_HOST_MEMO_ENTRIES_MAX = 4096
_TOPIC_MEMO_ENTRIES_MAX = 1024


def _head(*, born_address_bytes: int, store_address_bytes: int) -> struct.Struct:
    return struct.Struct(f">5i2qiq{born_address_bytes}siq{store_address_bytes}s2iqi")


_HEAD_BY_HOST_FLAGS: Final = {
    0: _head(born_address_bytes=4, store_address_bytes=4),
    MESSAGE_BORN_HOST_V6: _head(born_address_bytes=16, store_address_bytes=4),
    MESSAGE_STORE_HOST_V6: _head(born_address_bytes=4, store_address_bytes=16),
    _HOST_FLAGS: _head(born_address_bytes=16, store_address_bytes=16),
}
_BLANK = struct.Struct(">ii")
_PROPERTIES_SIZE = struct.Struct(">h")
_SYS_FLAG = struct.Struct(">i")
_BODY_SIZE = struct.Struct(">i")

assert _HEAD_BY_HOST_FLAGS[0].size == BODY_SIZE_OFFSET_V4 + 4 == RECORD_BYTES_MIN - 3
assert _HEAD_BY_HOST_FLAGS[_HOST_FLAGS].size == BODY_SIZE_OFFSET_V4 + 4 + 2 * V6_EXTRA_BYTES
# Two implementations of the polynomial have to agree before either may write to a disk.
assert zlib.crc32(b"123456789") == crcmod.predefined.mkPredefinedCrcFun("crc-32")(b"123456789")


class MessageRecord(msgspec.Struct, frozen=True, gc=False):
    """One record, decoded."""

    size_bytes: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: Host
    store_timestamp_ms: int
    store_host: Host
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    topic: str
    properties_text: str


def body_crc(body: bytes | memoryview) -> int:
    """Return the checksum a record carries for `body`."""
    return zlib.crc32(body) & 0x7FFFFFFF


def record_bytes(
    *, body_bytes: int, topic_bytes: int, properties_bytes: int, host_flags: int = 0
) -> int:
    """Return the size of a record; `host_flags` is sys_flag or its two V6 bits."""
    head = _HEAD_BY_HOST_FLAGS[host_flags & _HOST_FLAGS]
    return head.size + body_bytes + 1 + topic_bytes + 2 + properties_bytes


def encode_record(
    *,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: Host,
    store_timestamp_ms: int,
    store_host: Host,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body: bytes,
    topic: str,
    properties: bytes,
    crc: int | None = None,
) -> bytes:
    """Build a record. The V6 bits of `sys_flag` are set from the hosts, whatever they were.

    Args:
        properties: the properties string in UTF-8, as stored.
        crc: body_crc(body), when the caller has it already.

    Raises:
        LocalProtocolError: if a field does not fit its width or a host is not an address.
    """
    born_address = host_address(born_host[0])
    store_address = host_address(store_host[0])
    # A peer may send these bits as it likes; a record whose bits lie cannot be read back.
    sys_flag &= ~_HOST_FLAGS
    if len(born_address) != 4:
        sys_flag |= MESSAGE_BORN_HOST_V6
    if len(store_address) != 4:
        sys_flag |= MESSAGE_STORE_HOST_V6
    head = _HEAD_BY_HOST_FLAGS[sys_flag & _HOST_FLAGS]
    topic_block = _topic_block(topic)
    try:
        return b"".join(
            (
                head.pack(
                    head.size + len(body) + len(topic_block) + 2 + len(properties),
                    MESSAGE_MAGIC,
                    zlib.crc32(body) & 0x7FFFFFFF if crc is None else crc,
                    queue_id,
                    flag,
                    queue_offset,
                    physical_offset,
                    sys_flag,
                    born_timestamp_ms,
                    born_address,
                    born_host[1],
                    store_timestamp_ms,
                    store_address,
                    store_host[1],
                    reconsume_times,
                    prepared_transaction_offset,
                    len(body),
                ),
                body,
                topic_block,
                _PROPERTIES_SIZE.pack(len(properties)),
                properties,
            )
        )
    except struct.error as error:
        raise LocalProtocolError(f"a field does not fit the record: {error}") from error


def decode_record(buffer: bytes | bytearray | memoryview, position: int = 0) -> MessageRecord:
    """Read the record at `position`; the body's CRC is returned, not checked.

    Text that is not UTF-8 is read with replacement characters, as Java reads it.

    Raises:
        RemoteProtocolError: if it is not a message, or its lengths do not add up.
    """
    view = memoryview(buffer)[position:]
    if len(view) < RECORD_BYTES_MIN:
        raise _malformed(f"{len(view)} bytes are no record")
    (sys_flag,) = _SYS_FLAG.unpack_from(view, SYS_FLAG_OFFSET)
    head = _HEAD_BY_HOST_FLAGS[sys_flag & _HOST_FLAGS]
    if len(view) < head.size + 3:
        raise _malformed(f"{len(view)} bytes are no record")
    (
        size_bytes,
        magic,
        crc,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        _,
        born_timestamp_ms,
        born_address,
        born_port,
        store_timestamp_ms,
        store_address,
        store_port,
        reconsume_times,
        prepared_transaction_offset,
        body_bytes,
    ) = head.unpack_from(view)
    if magic != MESSAGE_MAGIC:
        raise _malformed(f"magic {magic & 0xFFFFFFFF:#010x} is no message's")
    if not head.size + 3 <= size_bytes <= len(view):
        raise _malformed(f"size {size_bytes} of {len(view)} bytes")
    body, topic, properties_text = _decode_tail(view[head.size : size_bytes], body_bytes)
    return MessageRecord(
        size_bytes,
        crc,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_timestamp_ms,
        (host_text(born_address), born_port),
        store_timestamp_ms,
        (host_text(store_address), store_port),
        reconsume_times,
        prepared_transaction_offset,
        body,
        topic,
        properties_text,
    )


def decode_properties_text(record: bytes) -> str:
    """Return the properties of a whole record, and decode nothing else of it.

    Raises:
        RemoteProtocolError: if its lengths do not add up.
    """
    try:
        (sys_flag,) = _SYS_FLAG.unpack_from(record, SYS_FLAG_OFFSET)
        topic_at = _HEAD_BY_HOST_FLAGS[sys_flag & _HOST_FLAGS].size
        (body_bytes,) = _BODY_SIZE.unpack_from(record, topic_at - _BODY_SIZE.size)
        if body_bytes < 0:
            raise _malformed(f"body length {body_bytes}")
        topic_at += body_bytes
        properties_at = topic_at + 1 + record[topic_at] + _PROPERTIES_SIZE.size
        (properties_bytes,) = _PROPERTIES_SIZE.unpack_from(
            record, properties_at - _PROPERTIES_SIZE.size
        )
    except (struct.error, IndexError):
        raise _malformed(f"{len(record)} bytes are no record") from None
    if properties_bytes < 0 or properties_at + properties_bytes != len(record):
        raise _malformed(f"properties length {properties_bytes}")
    return str(record[properties_at:], "utf-8", "replace")


def _decode_tail(tail: memoryview, body_bytes: int) -> tuple[bytes, str, str]:
    # Lengths are checked one after the other, each against what is left: all of them come
    # from the same bytes that they describe.
    if not 0 <= body_bytes <= len(tail) - 3:
        raise _malformed(f"body length {body_bytes}")
    topic_begin = body_bytes + 1
    topic_end = topic_begin + tail[body_bytes]
    if tail[body_bytes] > TOPIC_BYTES_MAX or topic_end + 2 > len(tail):
        raise _malformed(f"topic length {tail[body_bytes]}")
    (properties_bytes,) = _PROPERTIES_SIZE.unpack_from(tail, topic_end)
    properties_begin = topic_end + 2
    if properties_bytes < 0 or properties_begin + properties_bytes != len(tail):
        raise _malformed(f"properties length {properties_bytes}")
    return (
        bytes(tail[:body_bytes]),
        str(tail[topic_begin:topic_end], "utf-8", "replace"),
        str(tail[properties_begin:], "utf-8", "replace"),
    )


def encode_blank(remaining: int) -> bytes:
    """Build the 8 bytes that end a file of which `remaining` bytes are left over."""
    assert remaining >= BLANK_BYTES
    return _BLANK.pack(remaining, BLANK_MAGIC)


@lru_cache(maxsize=_HOST_MEMO_ENTRIES_MAX)
def host_address(host: str) -> bytes:
    """Return the 4 or 16 bytes of an address; a v4 address in v6 form becomes v4, as in Java.

    Raises:
        LocalProtocolError: if `host` is not an address.
    """
    try:
        if ":" not in host:
            return IPv4Address(host).packed
        address = IPv6Address(host.partition("%")[0])  # Java's address drops the scope here
    except ValueError as error:
        raise LocalProtocolError(f"{host!r} is not an address") from error
    mapped = address.ipv4_mapped
    return address.packed if mapped is None else mapped.packed


@lru_cache(maxsize=_HOST_MEMO_ENTRIES_MAX)
def host_text(address: bytes) -> str:
    """Write the 4 or 16 bytes of an address as text."""
    if len(address) == 4:
        return "{}.{}.{}.{}".format(*address)
    return str(IPv6Address(address))


@lru_cache(maxsize=_TOPIC_MEMO_ENTRIES_MAX)
def _topic_block(topic: str) -> bytes:
    encoded = topic.encode("utf-8")
    if len(encoded) > TOPIC_BYTES_MAX:
        raise LocalProtocolError(f"a topic of {len(encoded)} bytes does not fit the record")
    return bytes((len(encoded),)) + encoded


def _malformed(reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.SYSTEM_ERROR, f"malformed message record: {reason}")
