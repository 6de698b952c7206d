"""Rows and damage of a log in plain Python, to compare the compiled code with.

Slow and obvious: every record is decoded by `protocol.record`, and after damage every
place is tried.
"""

import json
import zlib
from collections.abc import Iterator
from typing import Any

from wakelog.protocol.message_id import create_message_id
from wakelog.protocol.properties import decode_properties
from wakelog.protocol.record import MessageRecord, body_crc, decode_record
from wakelog.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_NOT, transaction_type
from wakelog.spark.records.column_walk import Damage
from wakelog.storage.log.record_check import CheckKind, check_record

TIME_MS_MAX = (2**63 - 1) // 1000
Row = dict[str, Any]
"""Column name to value; times are microseconds, since Python has no date for any long."""


def plain_steps(data: bytes, segment_end: int) -> Iterator[int | Damage]:
    """Yield where each sound record begins, and the damage between, of a segment from 0."""
    position, end = 0, len(data)

    def is_sound(place: int, kinds: tuple[CheckKind, ...] = (CheckKind.SOUND,)) -> bool:
        return check_record(data, place, place, end, segment_end=segment_end).kind in kinds

    while position < end:
        check = check_record(data, position, position, end, segment_end=segment_end)
        if check.kind is CheckKind.SOUND:
            yield position
            position += check.size_bytes
        elif check.kind is CheckKind.END_OF_FILE:
            return
        else:
            behind = position + check.size_bytes
            follows = behind == end or (
                behind < end and is_sound(behind, (CheckKind.SOUND, CheckKind.END_OF_FILE))
            )
            if check.kind is not CheckKind.SIZE_MISMATCH or not follows:
                places = range(position + 1, end)
                behind = next((place for place in places if is_sound(place)), end)
            yield Damage(position, behind, check.reason)
            position = behind


def plain_table(
    data: bytes, segment_end: int, *, broker: str = "", verify_crc: bool = False
) -> tuple[list[Row], list[tuple[int, int]]]:
    """Return all rows of a segment, and where its damage lies."""
    rows, damage = [], []
    for step in plain_steps(data, segment_end):
        if isinstance(step, Damage):
            damage.append((step.begin, step.end))
            continue
        record = decode_tolerantly(data, step)
        if transaction_type(record.sys_flag) not in (TRANSACTION_NOT, TRANSACTION_COMMIT):
            continue
        sound = not record.body or body_crc(record.body) == record.body_crc
        body = record.body if sound or not verify_crc else None
        if body is not None and record.sys_flag & 1:
            body = inflated(body)
        if body is None:
            damage.append((step, step + record.size_bytes))
        else:
            rows.append(plain_row(record, body, broker))
    return rows, damage


def decode_tolerantly(data: bytes, position: int) -> MessageRecord:
    """Decode a sound record; lengths below zero count as zero, as they do when it is checked."""
    copy = bytearray(data)
    flags = data[position + 39]
    hosts = (12 if flags & 0x10 else 0) + (12 if flags & 0x20 else 0)
    at = position + 84 + hosts
    size = max(int.from_bytes(data[at : at + 4], "big", signed=True), 0)
    copy[at : at + 4] = size.to_bytes(4, "big")
    at += 4 + size
    at += 1 + data[at]
    size = max(int.from_bytes(data[at : at + 2], "big", signed=True), 0)
    copy[at : at + 2] = size.to_bytes(2, "big")
    return decode_record(bytes(copy), position)


def inflated(body: bytes) -> bytes | None:
    inflate = zlib.decompressobj()
    try:
        found = inflate.decompress(body)
    except zlib.error:
        return None
    return found if inflate.eof else None


def plain_row(record: MessageRecord, body: bytes, broker: str) -> Row:
    properties = decode_properties(record.properties_text)
    offset_id = create_message_id(*record.store_host, record.physical_offset)
    return {
        "topic": record.topic,
        "brokerName": broker,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "msgId": properties.get("UNIQ_KEY", offset_id),
        "offsetMsgId": offset_id,
        "tags": properties.get("TAGS"),
        "keys": properties.get("KEYS"),
        "flag": record.flag,
        "body": body,
        "properties": list(properties.items()),
        "bornTimestamp": moment(record.born_timestamp_ms),
        "storeTimestamp": moment(record.store_timestamp_ms),
        "bornHost": host(*record.born_host),
        "storeHost": host(*record.store_host),
        "commitLogOffset": record.physical_offset,
        "storeSize": record.size_bytes,
        "sysFlag": record.sys_flag,
        "bodyCRC": record.body_crc,
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_transaction_offset,
    }


def kafka_row(row: Row) -> Row:
    """Return the same message in the columns of Kafka's source."""
    return {
        "key": None if row["keys"] is None else row["keys"].encode(),
        "value": row["body"],
        "topic": row["topic"],
        "partition": row["queueId"],
        "offset": row["queueOffset"],
        "timestamp": row["storeTimestamp"],
        "timestampType": 1,
        "headers": [{"key": name, "value": value.encode()} for name, value in row["properties"]],
    }


def json_row(row: Row) -> Row:
    """Return the same row with its properties as JSON."""
    return row | {"properties": json.dumps(dict(row["properties"]), ensure_ascii=False)}


def moment(time_ms: int) -> int:
    """Return microseconds, cut to those that a Java long of them holds."""
    return max(min(time_ms, TIME_MS_MAX), -TIME_MS_MAX) * 1000


def host(address: str, port: int) -> str:
    """Write a host as Java does: all eight groups of a v6 address, without leading zeros."""
    if ":" not in address:
        return f"{address}:{port}"
    head, _, tail = address.partition("::")
    before = [x for x in head.split(":") if x]
    behind = [x for x in tail.split(":") if x]
    zeros = ["0"] * (8 - len(before) - len(behind))
    return f"[{':'.join([*before, *zeros, *behind])}]:{port}"
