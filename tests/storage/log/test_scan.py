"""The plain scan: the dispatch request of each record, and where a scan ends."""

import pytest

from tests.fakes.records import STORE_MS, LogBytes, properties, record
from wakelog.protocol.java import string_hash
from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.storage.log.record_check import CheckKind
from wakelog.storage.log.scan import PlainScan, scan_plain

DELAYS_MS = (1000, 5000)


def scan(data: bytes, *, at: int = 0, segment_bytes: int = 4096) -> PlainScan:
    return scan_plain(data, at, at + segment_bytes, DELAYS_MS)


def test_every_field() -> None:
    data = record(
        4096,
        properties(KEYS="a b", UNIQ_KEY="u", TAGS="tag", X="y"),
        topic="Tópico",
        queue_id=3,
        queue_offset=7,
        sys_flag=8,
        prepared_transaction_offset=99,
        store_host=("::1", 1),
    )
    [request] = scan(data, at=4096).requests
    assert request.topic == "Tópico"
    assert (request.queue_id, request.queue_offset) == (3, 7)
    assert (request.physical_offset, request.size_bytes) == (4096, len(data))
    assert request.tags_code == string_hash("tag")
    assert request.store_timestamp_ms == STORE_MS
    assert request.sys_flag == 8 | 0x20
    assert request.prepared_transaction_offset == 99
    assert (request.keys, request.uniq_key) == ("a b", "u")
    assert request.properties == {"KEYS": "a b", "UNIQ_KEY": "u", "TAGS": "tag", "X": "y"}


@pytest.mark.parametrize(
    ("topic", "text", "expected"),
    [
        ("T", b"", 0),
        ("T", b"TAGS\x01", 0),
        ("T", "TAGS\x01äöü".encode(), string_hash("äöü")),
        ("T", b"TAGS\x01a\x02TAGS\x01b", string_hash("b")),
        ("T", b"DELAY\x011\x02TAGS\x01a", string_hash("a")),
        (SCHEDULE_TOPIC, b"DELAY\x011\x02TAGS\x01a", STORE_MS + 1000),
        (SCHEDULE_TOPIC, b"DELAY\x012", STORE_MS + 5000),
        (SCHEDULE_TOPIC, b"DELAY\x0199", STORE_MS + 5000),
        (SCHEDULE_TOPIC, b"DELAY\x010\x02TAGS\x01a", string_hash("a")),
        (SCHEDULE_TOPIC, b"DELAY\x01-1", 0),
        (SCHEDULE_TOPIC, b"DELAY\x01soon\x02TAGS\x01a", string_hash("a")),
    ],
)
def test_tags_code(topic: str, text: bytes, expected: int) -> None:
    [request] = scan(record(0, text, topic=topic)).requests
    assert request.tags_code == expected


def test_a_time_of_delivery_wraps_like_a_java_long() -> None:
    late = record(0, b"DELAY\x011", topic=SCHEDULE_TOPIC, store_timestamp_ms=(1 << 63) - 1)
    [request] = scan(late).requests
    assert request.tags_code == -(1 << 63) + 999


def test_ends_at_the_end_or_at_what_is_no_record() -> None:
    log = LogBytes()
    for _ in range(5):
        log.add()
    whole = scan(bytes(log.data))
    assert [request.physical_offset for request in whole.requests] == log.offsets
    assert (whole.next_physical_offset, whole.stopped_by) == (log.end, None)

    log.roll()
    ended = scan(bytes(log.data))
    assert ended.stopped_by is not None
    assert ended.stopped_by.kind is CheckKind.END_OF_FILE
    assert ended.next_physical_offset == whole.next_physical_offset

    log.damage(log.offsets[3], b"\0")
    log.damage(log.offsets[3] + 4, b"\0")
    damaged = scan(bytes(log.data))
    assert damaged.stopped_by is not None
    assert damaged.stopped_by.kind is CheckKind.BAD
    assert (len(damaged.requests), damaged.next_physical_offset) == (3, log.offsets[3])


def test_a_cut_record_waits_for_the_rest() -> None:
    data = record(0) + record(len(record(0)))
    cut = scan(data[:-1])
    assert len(cut.requests) == 1
    assert cut.stopped_by is not None
    assert (cut.stopped_by.kind, cut.stopped_by.size_bytes) == (
        CheckKind.INCOMPLETE,
        len(record(0)),
    )
