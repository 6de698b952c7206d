"""The layout of a stored message record, and the functions that encode and decode one.

A record is one entry of the commit log and one frame of a pull's body. All numbers are big endian
and signed. B is 8, or 20 if sys_flag has MESSAGE_BORN_HOST_V6. S is 8, or 20 if sys_flag has
MESSAGE_STORE_HOST_V6. These positions are on disk and never change.

    offset    width  field
    0         4      size of the whole record
    4         4      magic: MESSAGE_MAGIC, or BLANK_MAGIC for the end of a file
    8         4      body CRC: CRC-32 of the body as stored, top bit cleared
    12        4      queue id
    16        4      flag, defined by the user
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

This module is the only one that states these numbers, but for `wakelog/compiled/record_layout.h`.

Invariants: the V6 bits of sys_flag agree with the widths of the hosts; the size field equals the
sum of the widths.

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

from wakelog.compiled.library import CHOICE, Library, crc32
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.protocol.sys_flag import MESSAGE_BORN_HOST_V6, MESSAGE_STORE_HOST_V6

Host = tuple[str, int]
"""An address in text and a port."""

MESSAGE_MAGIC: Final = -626843481  # 0xDAA320A7
BLANK_MAGIC: Final = -875286124  # 0xCBD43194
MAGIC_BYTES: Final = MESSAGE_MAGIC.to_bytes(4, "big", signed=True)
BLANK_BYTES: Final = 8
"""A file has at least this much room after each record, for a blank."""

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

# With two v4 hosts, the usual case. Each v6 host moves all later fields by V6_EXTRA_BYTES.
STORE_TIMESTAMP_OFFSET_V4: Final = 56
STORE_HOST_OFFSET_V4: Final = 64
RECONSUME_TIMES_OFFSET_V4: Final = 72
PREPARED_TRANSACTION_OFFSET_OFFSET_V4: Final = 76
BODY_SIZE_OFFSET_V4: Final = 84
HEAD_BYTES_V4: Final = 88
"""Everything before the body."""
HOST_BYTES_V4: Final = 8
V6_EXTRA_BYTES: Final = 12
HEAD_BYTES_MAX: Final = HEAD_BYTES_V4 + 2 * V6_EXTRA_BYTES

TOPIC_LENGTH_BYTES: Final = 1
PROPERTIES_LENGTH_BYTES: Final = 2
TAIL_BYTES_MIN: Final = TOPIC_LENGTH_BYTES + PROPERTIES_LENGTH_BYTES
"""Topic and properties, both empty."""
TOPIC_BYTES_MAX: Final = 127
"""The topic length is a signed byte."""
RECORD_PROPERTIES_BYTES_MAX: Final = (1 << 15) - 1
TAIL_BYTES_MAX: Final = TAIL_BYTES_MIN + TOPIC_BYTES_MAX + RECORD_PROPERTIES_BYTES_MAX
RECORD_BYTES_MIN: Final = HEAD_BYTES_V4 + TAIL_BYTES_MIN

CRC_MASK: Final = 0x7FFFFFFF
"""A record states the CRC of its body without the top bit."""

HOST_FLAGS: Final = MESSAGE_BORN_HOST_V6 | MESSAGE_STORE_HOST_V6
HOST_FLAGS_OFFSET: Final = SYS_FLAG_OFFSET + 3
"""The byte of sys_flag that holds both V6 bits."""

_library: Library | None = CHOICE.library

_HOST_MEMO_ENTRIES_MAX = 4096
_TOPIC_MEMO_ENTRIES_MAX = 1024


def _heads(fields: str) -> dict[int, struct.Struct]:
    """Return a head's struct for each value of the V6 bits; B and S stand for address bytes."""
    return {
        flags: struct.Struct(
            fields.replace("B", f"{16 if flags & MESSAGE_BORN_HOST_V6 else 4}").replace(
                "S", f"{16 if flags & MESSAGE_STORE_HOST_V6 else 4}"
            )
        )
        for flags in (0, MESSAGE_BORN_HOST_V6, MESSAGE_STORE_HOST_V6, HOST_FLAGS)
    }


_FULL_HEADS: Final = _heads(">5i2qiqBsiqSs2iqi")
CHECKED_HEADS: Final = _heads(">2i4xi4xqqi8xBx4xqSx4x4xqi")
"""By the V6 bits: size, magic, queue id, queue offset, physical offset, sys_flag, store timestamp,
prepared transaction offset and body length. The body follows."""
COMMON_HEAD: Final = struct.Struct(">2i20xqi44xi")
"""With two v4 hosts: size, magic, physical offset, sys_flag and body length."""
PROPERTIES_LENGTH: Final = struct.Struct(">h")
SIZE_AND_MAGIC: Final = struct.Struct(">2i")
SIZE_MAGIC_AND_OFFSET: Final = struct.Struct(">2i20xq")
"""What says that a record of a log begins here."""
INT: Final = struct.Struct(">i")


def _field(offset: int, width_bytes: int) -> int:
    """Return what a field reads from a head whose bytes are their own positions."""
    return int.from_bytes(bytes(range(offset, offset + width_bytes)))


_POSITIONS: Final = bytes(range(HEAD_BYTES_V4))
assert CHECKED_HEADS[0].unpack(_POSITIONS) == (
    _field(SIZE_OFFSET, 4),
    _field(MAGIC_OFFSET, 4),
    _field(QUEUE_ID_OFFSET, 4),
    _field(QUEUE_OFFSET_OFFSET, 8),
    _field(PHYSICAL_OFFSET_OFFSET, 8),
    _field(SYS_FLAG_OFFSET, 4),
    _field(STORE_TIMESTAMP_OFFSET_V4, 8),
    _field(PREPARED_TRANSACTION_OFFSET_OFFSET_V4, 8),
    _field(BODY_SIZE_OFFSET_V4, 4),
)
assert COMMON_HEAD.unpack(_POSITIONS) == (
    _field(SIZE_OFFSET, 4),
    _field(MAGIC_OFFSET, 4),
    _field(PHYSICAL_OFFSET_OFFSET, 8),
    _field(SYS_FLAG_OFFSET, 4),
    _field(BODY_SIZE_OFFSET_V4, 4),
)
assert SIZE_MAGIC_AND_OFFSET.unpack(_POSITIONS[: SIZE_MAGIC_AND_OFFSET.size]) == (
    _field(SIZE_OFFSET, 4),
    _field(MAGIC_OFFSET, 4),
    _field(PHYSICAL_OFFSET_OFFSET, 8),
)
_FULL: Final = _FULL_HEADS[0].unpack(_POSITIONS)
assert (_FULL[2], _FULL[4], _FULL[8]) == (
    _field(BODY_CRC_OFFSET, 4),
    _field(FLAG_OFFSET, 4),
    _field(BORN_TIMESTAMP_OFFSET, 8),
)
assert (_FULL[9], _FULL[12], _FULL[14]) == (
    _POSITIONS[BORN_HOST_OFFSET:][:4],
    _POSITIONS[STORE_HOST_OFFSET_V4:][:4],
    _field(RECONSUME_TIMES_OFFSET_V4, 4),
)
assert _FULL_HEADS[HOST_FLAGS].size == CHECKED_HEADS[HOST_FLAGS].size == HEAD_BYTES_MAX
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
    """Return the checksum that a record states for `body`."""
    return crc32(body) & CRC_MASK


def record_bytes(
    *, body_bytes: int, topic_bytes: int, properties_bytes: int, host_flags: int = 0
) -> int:
    """Return the size of a record; `host_flags` is sys_flag or its two V6 bits."""
    head = _FULL_HEADS[host_flags & HOST_FLAGS]
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
    """Encode a record. The hosts decide the V6 bits of `sys_flag`.

    Args:
        properties: the properties string in UTF-8, as stored.
        crc: body_crc(body), if the caller has it already.

    Raises:
        LocalProtocolError: if a field does not fit its width or a host is not an address.
    """
    return record_encoder(born_host, store_host).encode(
        topic,
        queue_id,
        queue_offset,
        physical_offset,
        body,
        properties,
        flag,
        sys_flag,
        born_timestamp_ms,
        store_timestamp_ms,
        reconsume_times,
        prepared_transaction_offset,
        crc,
    )


class RecordEncoder:
    """Encodes the records of messages from one host, stored at another."""

    __slots__ = ("_born", "_head", "_host_flags", "_store", "head")

    def __init__(self, born_host: Host, store_host: Host) -> None:
        """Raise LocalProtocolError if a host is not an address."""
        self._born = host_address(born_host[0]), born_host[1]
        self._store = host_address(store_host[0]), store_host[1]
        # They replace the bits of a peer: a record with wrong ones cannot be decoded.
        self._host_flags = 0
        if len(self._born[0]) != 4:
            self._host_flags |= MESSAGE_BORN_HOST_V6
        if len(self._store[0]) != 4:
            self._host_flags |= MESSAGE_STORE_HOST_V6
        self._head = _FULL_HEADS[self._host_flags]
        # What all records have in common, for who fills in the rest: see `compiled_run`.
        hosts = (0, *self._born, 0, *self._store, 0, 0, 0)
        self.head = self._head.pack(0, MESSAGE_MAGIC, 0, 0, 0, 0, 0, self._host_flags, *hosts)

    def encode(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        physical_offset: int,
        body: bytes | memoryview,
        properties: bytes,
        flag: int,
        sys_flag: int,
        born_timestamp_ms: int,
        store_timestamp_ms: int,
        reconsume_times: int,
        prepared_transaction_offset: int = 0,
        crc: int | None = None,
    ) -> bytes:
        """Encode a record; see `encode_record`. Raises: LocalProtocolError."""
        head, topic_block = self._head, _topic_block(topic)
        try:
            return b"".join(
                (
                    head.pack(
                        head.size + len(body) + len(topic_block) + 2 + len(properties),
                        MESSAGE_MAGIC,
                        crc32(body) & CRC_MASK if crc is None else crc,
                        queue_id,
                        flag,
                        queue_offset,
                        physical_offset,
                        sys_flag & ~HOST_FLAGS | self._host_flags,
                        born_timestamp_ms,
                        *self._born,
                        store_timestamp_ms,
                        *self._store,
                        reconsume_times,
                        prepared_transaction_offset,
                        len(body),
                    ),
                    body,
                    topic_block,
                    PROPERTIES_LENGTH.pack(len(properties)),
                    properties,
                )
            )
        except struct.error as error:
            raise LocalProtocolError(f"a field does not fit the record: {error}") from error


@lru_cache(maxsize=_HOST_MEMO_ENTRIES_MAX)
def record_encoder(born_host: Host, store_host: Host) -> RecordEncoder:
    """Return the encoder for two hosts. Raises: LocalProtocolError, if one is not an address."""
    return RecordEncoder(born_host, store_host)


def decode_record(buffer: bytes | bytearray | memoryview, position: int = 0) -> MessageRecord:
    """Decode the record at `position`. The body's CRC is returned, not checked.

    Text that is not UTF-8 gets replacement characters, as in Java.

    Raises:
        RemoteProtocolError: if it is no message, or its lengths do not add up.
    """
    if _library is not None and (fields := _library.decode_record(buffer, position, host_text)):
        return MessageRecord(*fields)
    view = memoryview(buffer)
    left_bytes = len(view) - position
    if left_bytes < RECORD_BYTES_MIN:
        raise _malformed(f"{left_bytes} bytes are no record")
    (sys_flag,) = INT.unpack_from(view, position + SYS_FLAG_OFFSET)
    head = _FULL_HEADS[sys_flag & HOST_FLAGS]
    if left_bytes < head.size + TAIL_BYTES_MIN:
        raise _malformed(f"{left_bytes} bytes are no record")
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
    ) = head.unpack_from(view, position)
    if magic != MESSAGE_MAGIC:
        raise _malformed(f"magic {magic & 0xFFFFFFFF:#010x} is no message's")
    if not head.size + TAIL_BYTES_MIN <= size_bytes <= left_bytes:
        raise _malformed(f"size {size_bytes} of {left_bytes} bytes")
    tail = view[position + head.size : position + size_bytes]
    body, topic, properties_text = _decode_tail(tail, body_bytes)
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
    """Return the properties text of a whole record; decode nothing else.

    Raises:
        RemoteProtocolError: if its lengths do not add up.
    """
    try:
        (sys_flag,) = INT.unpack_from(record, SYS_FLAG_OFFSET)
        topic_at = _FULL_HEADS[sys_flag & HOST_FLAGS].size
        (body_bytes,) = INT.unpack_from(record, topic_at - INT.size)
        if body_bytes < 0:
            raise _malformed(f"body length {body_bytes}")
        topic_at += body_bytes
        properties_at = topic_at + 1 + record[topic_at] + PROPERTIES_LENGTH.size
        (properties_bytes,) = PROPERTIES_LENGTH.unpack_from(
            record, properties_at - PROPERTIES_LENGTH.size
        )
    except (struct.error, IndexError):
        raise _malformed(f"{len(record)} bytes are no record") from None
    if properties_bytes < 0 or properties_at + properties_bytes != len(record):
        raise _malformed(f"properties length {properties_bytes}")
    return str(record[properties_at:], "utf-8", "replace")


def _decode_tail(tail: memoryview, body_bytes: int) -> tuple[bytes, str, str]:
    # Each length is checked before it is used: a damaged length could point outside the tail.
    if not 0 <= body_bytes <= len(tail) - TAIL_BYTES_MIN:
        raise _malformed(f"body length {body_bytes}")
    topic_begin = body_bytes + 1
    topic_end = topic_begin + tail[body_bytes]
    if tail[body_bytes] > TOPIC_BYTES_MAX or topic_end + 2 > len(tail):
        raise _malformed(f"topic length {tail[body_bytes]}")
    (properties_bytes,) = PROPERTIES_LENGTH.unpack_from(tail, topic_end)
    properties_begin = topic_end + 2
    if properties_bytes < 0 or properties_begin + properties_bytes != len(tail):
        raise _malformed(f"properties length {properties_bytes}")
    return (
        bytes(tail[:body_bytes]),
        str(tail[topic_begin:topic_end], "utf-8", "replace"),
        str(tail[properties_begin:], "utf-8", "replace"),
    )


def encode_blank(remaining: int) -> bytes:
    """Encode the 8 bytes that end a file with `remaining` unused bytes."""
    assert remaining >= BLANK_BYTES
    return SIZE_AND_MAGIC.pack(remaining, BLANK_MAGIC)


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
