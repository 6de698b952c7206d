"""Check whether a sound record begins at a place, and if not, name the reason.

`record_walk.py` is the fast way, without a reason.

    first 8 bytes               rest                                   answer
    magic of a blank            not read                               END_OF_FILE
    any other wrong magic       not read                               BAD
    size below the least, or    not read                               BAD
    past the segment's end
    fine, the buffer ends       not there                              INCOMPLETE
    fine                        another physical offset                BAD
    fine                        lengths do not add up to the size      SIZE_MISMATCH
    fine                        the body's CRC differs, if asked       BAD
    fine                        fine                                   SOUND

As in 4.9.3, a negative body or properties length counts as zero. A negative topic length is bad.
Three checks are stricter than 4.9.3's. The size must fit the segment before anything else is read.
The size must reach the smallest record. The record must state the physical offset at which it lies.

Invariants: nothing outside buffer[position:end] is read, and only the CRC copies bytes.

Source: org.apache.rocketmq.store.CommitLog#checkMessageAndReturnSize, #calMsgLength (4.9.3).
"""

import enum
from typing import Final, NamedTuple

from wakelog.protocol import record

Buffer = bytes | bytearray | memoryview

SECTOR_BYTES: Final = 512
"""The smallest unit that a disk writes completely or not at all."""


class CheckKind(enum.Enum):
    """What stands at a place of the log."""

    SOUND = "sound"
    END_OF_FILE = "end of file"  # the blank: go on at the next segment
    SIZE_MISMATCH = "size mismatch"  # a plausible size that is not the sum of the parts
    BAD = "bad"
    INCOMPLETE = "incomplete"  # the buffer ends before the record, but the segment does not


class RecordCheck(NamedTuple):
    """The answer. `size_bytes` is the stated size, or 0 for END_OF_FILE, BAD and a cut head."""

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
    """Check the record that begins at buffer[position], which lies at `physical_offset`.

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
    (size,) = record.INT.unpack_from(buffer, position)
    head = record.CHECKED_HEADS[buffer[position + record.HOST_FLAGS_OFFSET] & record.HOST_FLAGS]
    if size < head.size + record.TAIL_BYTES_MIN:
        return _bad(f"size {size} is less than its own head's")
    fields = head.unpack_from(buffer, position)
    if fields[4] != physical_offset:
        return _bad(f"it says that it lies at {fields[4]}")
    body_begin = position + head.size
    body_end = body_begin + max(fields[8], 0)
    reason = tail_mismatch(buffer, body_end, position + size)
    if reason is not None:
        if reason == _NEGATIVE_TOPIC:
            return _bad(reason)
        return RecordCheck(CheckKind.SIZE_MISMATCH, size, fields[6], reason)
    if check_body and body_end > body_begin:
        (crc,) = record.INT.unpack_from(buffer, position + record.BODY_CRC_OFFSET)
        if crc != record.body_crc(memoryview(buffer)[body_begin:body_end]):
            return _bad("the body's CRC differs")
    return RecordCheck(CheckKind.SOUND, size, fields[6])


def is_torn_after_body(buffer: Buffer, body_end: int, record_end: int, shift: int) -> bool:
    """Return whether a sector of the topic or the properties was never written.

    The CRC covers only the body. A power failure during a write leaves sectors of zeros in a new
    segment. Such a sector can lie after the body of a record whose lengths add up. Topics have no
    zeros, and properties never have zeros that fill their part of a sector.

    buffer[body_end] is the topic's length, buffer[record_end] the first byte after the record.
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
    # The size must fit the segment and the buffer before anything after these 8 bytes is read.
    if there < record.SIZE_AND_MAGIC.size:
        return _HEAD_INCOMPLETE if there < room else _bad(f"{there} bytes are no record")
    size, magic = record.SIZE_AND_MAGIC.unpack_from(buffer, position)
    if magic == record.BLANK_MAGIC:
        return _END_OF_FILE
    if magic != record.MESSAGE_MAGIC:
        return _bad(f"magic {magic & 0xFFFFFFFF:#010x}")
    if not record.RECORD_BYTES_MIN <= size <= room:
        return _bad(f"size {size} with {room} bytes left in the segment")
    if size > there:
        return RecordCheck(CheckKind.INCOMPLETE, size, reason="the record is cut off")
    return None


_NEGATIVE_TOPIC = "a topic length below zero"


def tail_mismatch(buffer: Buffer, body_end: int, record_end: int) -> str | None:
    """Return why topic and properties do not fill [body_end, record_end); None if they do."""
    # Each length is used only if it lies inside the record.
    if body_end + record.TAIL_BYTES_MIN > record_end:
        return "the body is longer than the record"
    topic_bytes = buffer[body_end]
    if topic_bytes > record.TOPIC_BYTES_MAX:
        return _NEGATIVE_TOPIC
    topic_end = body_end + 1 + topic_bytes
    if topic_end + 2 > record_end:
        return "the topic is longer than the record"
    properties_bytes = max(record.PROPERTIES_LENGTH.unpack_from(buffer, topic_end)[0], 0)
    parts = topic_end + 2 + properties_bytes
    if parts == record_end:
        return None
    length = "longer" if parts > record_end else "shorter"
    return f"its parts are {abs(parts - record_end)} bytes {length} than itself"


def _bad(reason: str) -> RecordCheck:
    return RecordCheck(CheckKind.BAD, reason=reason)
