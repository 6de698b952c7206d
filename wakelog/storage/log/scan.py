"""Scan a stretch of the log into dispatch requests, up to the first place without a sound record.

Two ways give the same result. This module is plain Python, for small steps and without the compiled
library. When much of the log waits, the library fills the columns of `columns/scan_columns.py`
instead, and leaves rare records to `entry_tags_code`.

Invariants:
- Both ways agree on any bytes, damaged ones included (`test_scan_columns`).
- Only sound records are returned, as `record_check.check_record` judges them.

Source: org.apache.rocketmq.store.CommitLog#checkMessageAndReturnSize,
org.apache.rocketmq.store.schedule.ScheduleMessageService#parseDelayLevel,
#computeDeliverTimestamp (4.9.3). There a DELAY property that is no number makes the whole record
bad. Here such a record keeps the tags code of its tags.
"""

from typing import NamedTuple

from wakelog.protocol.java import LONG_MAX, parse_integer
from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.protocol.properties import DELAY, KEYS, TAGS, UNIQ_KEY, decode_properties
from wakelog.protocol.tags import tags_code
from wakelog.storage.log.dispatch_request import DispatchRequest
from wakelog.storage.log.record_check import Buffer, CheckKind, RecordCheck, check_record
from wakelog.storage.log.record_walk import walk_records


class PlainScan(NamedTuple):
    """Sound records in order, and why the scan stopped (None: at the buffer's end exactly)."""

    requests: list[DispatchRequest]
    next_physical_offset: int
    stopped_by: RecordCheck | None


def scan_plain(
    buffer: Buffer, physical_offset: int, segment_end: int, delays_ms: tuple[int, ...]
) -> PlainScan:
    """Scan a buffer, whose begin lies at `physical_offset`, up to the first bytes without a record.

    delays_ms: of `StoreConfig.delays_ms`.
    """
    requests: list[DispatchRequest] = []
    stop, end = 0, len(buffer)
    for (
        at,
        stop,
        _,
        body_end,
        topic_end,
        queue_id,
        queue_offset,
        stated_offset,
        sys_flag,
        store_timestamp_ms,
        prepared_transaction_offset,
    ) in walk_records(buffer, 0, end, physical_offset):
        topic = str(buffer[body_end + 1 : topic_end], "utf-8", "replace")
        properties = decode_properties(str(buffer[topic_end + 2 : stop], "utf-8", "replace"))
        requests.append(
            DispatchRequest(
                topic,
                queue_id,
                queue_offset,
                stated_offset,
                stop - at,
                entry_tags_code(topic, properties, store_timestamp_ms, delays_ms),
                store_timestamp_ms,
                sys_flag,
                prepared_transaction_offset,
                properties.get(KEYS),
                properties.get(UNIQ_KEY),
                properties,
            )
        )
    next_offset = physical_offset + stop
    if stop == end:
        return PlainScan(requests, next_offset, None)
    check = check_record(buffer, stop, next_offset, end, segment_end=segment_end)
    assert check.kind is not CheckKind.SOUND, next_offset
    return PlainScan(requests, next_offset, check)


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
