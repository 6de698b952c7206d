"""Is there a sound record at this place? The one question that recovery, reput and verify ask.

    first 8 bytes               rest                                   answer
    magic of a blank            not looked at                          END_OF_FILE
    any other wrong magic       not looked at                          BAD
    size below the least, or    not looked at                          BAD
    past the segment's end
    fine, the buffer ends       not there                              INCOMPLETE
    fine                        another physical offset                BAD
    fine                        lengths do not add up to the size      SIZE_MISMATCH
    fine                        the body's CRC differs, if asked       BAD
    fine                        fine                                   SOUND

As in 4.9.3, a body or properties length below zero counts as zero and a topic length below zero
is bad. We are stricter in three points, each of which 4.9.3 lets pass: a size is compared with the
segment's end before anything else is read, a size below the smallest record is bad, and so is a
record that states another physical offset than its own place.

Invariants: nothing outside buffer[position:end] is read and nothing is copied but for the CRC.

Source: org.apache.rocketmq.store.CommitLog#checkMessageAndReturnSize, #calMsgLength (4.9.3).
"""

from __future__ import annotations

import enum
import struct
from typing import Final, NamedTuple

from wakelog.protocol.message_record import (
    BLANK_MAGIC,
    BODY_CRC_OFFSET,
    BODY_SIZE_OFFSET_V4,
    MESSAGE_MAGIC,
    RECORD_BYTES_MIN,
    SYS_FLAG_OFFSET,
    TOPIC_BYTES_MAX,
    V6_EXTRA_BYTES,
    body_crc,
)
from wakelog.protocol.sys_flag import MESSAGE_BORN_HOST_V6, MESSAGE_STORE_HOST_V6

Buffer = bytes | bytearray | memoryview

HOST_FLAGS: Final = MESSAGE_BORN_HOST_V6 | MESSAGE_STORE_HOST_V6
HOST_FLAGS_OFFSET: Final = SYS_FLAG_OFFSET + 3
"""The byte of sys_flag that holds both V6 bits."""


def _head(sys_flag: int) -> struct.Struct:
    born = 8 + (V6_EXTRA_BYTES if sys_flag & MESSAGE_BORN_HOST_V6 else 0)
    store = 8 + (V6_EXTRA_BYTES if sys_flag & MESSAGE_STORE_HOST_V6 else 0)
    return struct.Struct(f">2i4xi4xqqi8x{born}xq{store}x4xqi")


HEAD_BY_HOST_FLAGS: Final = {
    flags: _head(flags) for flags in (0, MESSAGE_BORN_HOST_V6, MESSAGE_STORE_HOST_V6, HOST_FLAGS)
}
"""Size, magic, queue id, queue offset, physical offset, sys_flag, store timestamp, prepared
transaction offset and body length; the last of them ends the fixed part."""

SECTOR_BYTES: Final = 512
"""What a disk writes whole or not at all; the smallest there is."""

PROPERTIES_LENGTH: Final = struct.Struct(">h")
_SIZE_AND_MAGIC = struct.Struct(">2i")
_SIZE = struct.Struct(">i")
_CRC = struct.Struct(">i")

assert HEAD_BY_HOST_FLAGS[0].size == BODY_SIZE_OFFSET_V4 + 4 == RECORD_BYTES_MIN - 3


class CheckKind(enum.Enum):
    """What stands at a place of the log."""

    SOUND = "sound"
    END_OF_FILE = "end of file"  # the blank: go on at the next segment
    SIZE_MISMATCH = "size mismatch"  # a plausible total size that its parts do not add up to
    BAD = "bad"
    INCOMPLETE = "incomplete"  # the buffer ends first; only if more of the segment lies behind it


class RecordCheck(NamedTuple):
    """The answer; `size_bytes` is the stated size, 0 for END_OF_FILE, BAD or if not known."""

    kind: CheckKind
    size_bytes: int = 0
    store_timestamp_ms: int = 0
    reason: str = ""


_END_OF_FILE = RecordCheck(CheckKind.END_OF_FILE)
_HEAD_INCOMPLETE = RecordCheck(CheckKind.INCOMPLETE, reason="the head is cut off")


def check_record(
    buffer: Buffer,
    position: int,
    physical_offset: int,
    end: int,
    *,
    segment_end: int | None = None,
    check_body: bool = False,
) -> RecordCheck:
    """Check the record whose first byte is buffer[position] and lies at `physical_offset`.

    end: position in `buffer` after the last byte that may be read.
    segment_end: physical offset at which the segment ends; None if that is at `end`.
    check_body: also compare the CRC of the body.
    """
    there = end - position
    room = there if segment_end is None else segment_end - physical_offset
    assert 0 <= there <= room, (position, end, room)
    unfit = _check_size(buffer, position, there=there, room=room)
    if unfit is not None:
        return unfit
    (size,) = _SIZE.unpack_from(buffer, position)
    head = HEAD_BY_HOST_FLAGS[buffer[position + HOST_FLAGS_OFFSET] & HOST_FLAGS]
    if size < head.size + 3:
        return _bad(f"size {size} is less than its own head's")
    fields = head.unpack_from(buffer, position)
    if fields[4] != physical_offset:
        return _bad(f"it says that it lies at {fields[4]}")
    body_begin = position + head.size
    body_end = body_begin + max(fields[8], 0)
    mismatch = _tail_mismatch(buffer, body_end, position + size)
    if mismatch is not None:
        if mismatch == _NEGATIVE_TOPIC:
            return _bad(mismatch)
        return RecordCheck(CheckKind.SIZE_MISMATCH, size, fields[6], mismatch)
    if check_body and body_end > body_begin:
        (crc,) = _CRC.unpack_from(buffer, position + BODY_CRC_OFFSET)
        if crc != body_crc(bytes(buffer[body_begin:body_end])):
            return _bad("the body's CRC differs")
    return RecordCheck(CheckKind.SOUND, size, fields[6])


def is_torn_behind_body(buffer: Buffer, body_end: int, record_end: int, shift: int) -> bool:
    """Tell whether a sector of the topic or the properties was never written.

    The CRC covers the body alone. A disk that went down in the middle of a write leaves sectors of
    zeros in a new segment, and a record whose parts add up can have one behind its body. Topics
    have no zeros, and properties none that fill just what a sector holds of them.

    buffer[body_end] is the topic's length, buffer[record_end] the first byte behind the record.
    shift: physical offset of buffer[0].
    """
    topic_end = body_end + 1 + buffer[body_end]
    first_border = shift + body_end + 1
    first_border += -first_border % SECTOR_BYTES
    if first_border >= shift + record_end:
        return False
    borders = [body_end + 1, *range(first_border - shift, record_end, SECTOR_BYTES), record_end]
    for i, begin in enumerate(borders[:-1]):
        end = borders[i + 1]
        topic = bytes(buffer[begin : min(end, topic_end)])
        properties = bytes(buffer[max(begin, topic_end + 2) : end])
        text = topic + properties
        if text and not text.strip(b"\0"):
            return True
    return False


def _check_size(buffer: Buffer, position: int, *, there: int, room: int) -> RecordCheck | None:
    # Nothing behind the first 8 bytes is read before the size fits the segment and the buffer.
    if there < _SIZE_AND_MAGIC.size:
        return _HEAD_INCOMPLETE if there < room else _bad(f"{there} bytes are no record")
    size, magic = _SIZE_AND_MAGIC.unpack_from(buffer, position)
    if magic == BLANK_MAGIC:
        return _END_OF_FILE
    if magic != MESSAGE_MAGIC:
        return _bad(f"magic {magic & 0xFFFFFFFF:#010x}")
    if not RECORD_BYTES_MIN <= size <= room:
        return _bad(f"size {size} with {room} bytes left in the segment")
    if size > there:
        return RecordCheck(CheckKind.INCOMPLETE, size, reason="the record is cut off")
    return None


_NEGATIVE_TOPIC = "a topic length below zero"


def _tail_mismatch(buffer: Buffer, body_end: int, record_end: int) -> str | None:
    # Lengths are followed one after the other, each only while it lies inside the record.
    if body_end + 3 > record_end:
        return "the body is longer than the record"
    topic_bytes = buffer[body_end]
    if topic_bytes > TOPIC_BYTES_MAX:
        return _NEGATIVE_TOPIC
    topic_end = body_end + 1 + topic_bytes
    if topic_end + 2 > record_end:
        return "the topic is longer than the record"
    properties_bytes = max(PROPERTIES_LENGTH.unpack_from(buffer, topic_end)[0], 0)
    parts = topic_end + 2 + properties_bytes
    if parts == record_end:
        return None
    length = "longer" if parts > record_end else "shorter"
    return f"its parts are {abs(parts - record_end)} bytes {length} than itself"


def _bad(reason: str) -> RecordCheck:
    return RecordCheck(CheckKind.BAD, reason=reason)
