"""Scan a stretch of the log into dispatch requests, until something is not a sound record.

Reput reads the log in steps; each step is one scan of what it read. Two ways give one result:
this one in plain Python, for small steps and while nothing is compiled, and the columns of
`kernels/columns.py`, which a compiled kernel fills when there is much to catch up with.

The kernel leaves to Python what is rare: `refine` is shared by both.

Invariants:
- Both ways agree on any bytes whatever, damaged ones included (`test_columns`).
- Only sound records are returned, as `record_check.check_record` judges them.

Source: org.apache.rocketmq.store.CommitLog#checkMessageAndReturnSize,
org.apache.rocketmq.store.schedule.ScheduleMessageService#parseDelayLevel,
#computeDeliverTimestamp (4.9.3). There a DELAY property that is no number makes the whole record
bad; here such a record keeps the tags code of its tags.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from wakelog.protocol.java import LONG_MAX, parse_integer
from wakelog.protocol.message_record import MESSAGE_MAGIC, RECORD_BYTES_MIN, TOPIC_BYTES_MAX
from wakelog.protocol.properties import DELAY, KEYS, TAGS, UNIQ_KEY, decode_properties
from wakelog.protocol.tags import tags_code
from wakelog.storage.log.dispatch_request import DispatchRequest
from wakelog.storage.log.record_check import (
    HEAD_BY_HOST_FLAGS,
    HOST_FLAGS,
    HOST_FLAGS_OFFSET,
    PROPERTIES_LENGTH,
    Buffer,
    CheckKind,
    RecordCheck,
    check_record,
)

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class ScanSpan(NamedTuple):
    """Where to scan: buffer[begin:end]; buffer[begin] lies at `physical_offset`.

    segment_end: physical offset at which the segment ends.
    """

    buffer: Buffer
    begin: int
    end: int
    physical_offset: int
    segment_end: int


class PlainScan(NamedTuple):
    """Sound records in order, and what came after them (None: `end` was reached exactly)."""

    requests: list[DispatchRequest]
    next_physical_offset: int
    stopped_by: RecordCheck | None


def delay_levels_ms(text: str) -> tuple[int, ...]:
    """Read `messageDelayLevel`, "1s 5s ...": element i is the delay of level i + 1.

    Raises: ValueError if a level is not a number and a unit.
    """
    levels = []
    for word in text.split(" "):
        unit = _UNIT_MS.get(word[-1:])
        if unit is None:
            raise ValueError(f"{word!r} in messageDelayLevel has no unit of s, m, h, d")
        levels.append(unit * parse_integer(word[:-1], maximum=LONG_MAX))
    return tuple(levels)


def scan_plain(span: ScanSpan, delays_ms: tuple[int, ...]) -> PlainScan:
    """Scan until `span.end` or the first thing that is not a sound record.

    delays_ms: of `delay_levels_ms`.
    """
    buffer, position, end = span.buffer, span.begin, span.end
    shift = span.physical_offset - position
    requests: list[DispatchRequest] = []
    while position < end:
        request = _sound_request(buffer, position, end, position + shift, delays_ms)
        if request is None:
            check = check_record(
                buffer, position, position + shift, end, segment_end=span.segment_end
            )
            assert check.kind is not CheckKind.SOUND, position + shift
            return PlainScan(requests, position + shift, check)
        requests.append(request)
        position += request.size_bytes
    return PlainScan(requests, position + shift, None)


def _sound_request(
    buffer: Buffer, position: int, end: int, physical_offset: int, delays_ms: tuple[int, ...]
) -> DispatchRequest | None:
    # The same conditions as check_record's, without the reasons: this is the hot path of a
    # broker under small load, and check_record is asked only about what is not sound.
    if end - position < RECORD_BYTES_MIN:
        return None
    head = HEAD_BY_HOST_FLAGS[buffer[position + HOST_FLAGS_OFFSET] & HOST_FLAGS]
    if end - position < head.size + 3:
        return None
    (
        size,
        magic,
        queue_id,
        queue_offset,
        stated_offset,
        sys_flag,
        store_timestamp_ms,
        prepared,
        body_bytes,
    ) = head.unpack_from(buffer, position)
    body_end = position + head.size + (body_bytes if body_bytes > 0 else 0)
    record_end = position + size
    if (
        magic != MESSAGE_MAGIC
        or stated_offset != physical_offset
        or record_end > end
        or body_end + 3 > record_end
    ):
        return None
    topic_end = body_end + 1 + buffer[body_end]
    if buffer[body_end] > TOPIC_BYTES_MAX or topic_end + 2 > record_end:
        return None
    properties_bytes = PROPERTIES_LENGTH.unpack_from(buffer, topic_end)[0]
    if topic_end + 2 + (properties_bytes if properties_bytes > 0 else 0) != record_end:
        return None
    topic = str(buffer[body_end + 1 : topic_end], "utf-8", "replace")
    properties = decode_properties(str(buffer[topic_end + 2 : record_end], "utf-8", "replace"))
    return DispatchRequest(
        topic,
        queue_id,
        queue_offset,
        physical_offset,
        size,
        entry_tags_code(topic, properties, store_timestamp_ms, delays_ms),
        store_timestamp_ms,
        sys_flag,
        prepared,
        properties.get(KEYS),
        properties.get(UNIQ_KEY),
        properties,
    )


def entry_tags_code(
    topic: str, properties: dict[str, str], store_timestamp_ms: int, delays_ms: tuple[int, ...]
) -> int:
    """Return the tags code of a record's queue entry: of the tags, or the time of delivery."""
    if topic == SCHEDULE_TOPIC and DELAY in properties:
        try:
            level = min(parse_integer(properties[DELAY]), len(delays_ms))
        except ValueError:
            level = 0
        if level > 0:
            due_ms = store_timestamp_ms + delays_ms[level - 1]
            return due_ms if due_ms <= LONG_MAX else due_ms - (1 << 64)  # a Java long wraps
    return tags_code(properties.get(TAGS))
