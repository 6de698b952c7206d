"""The compiled scan and the plain one agree on any bytes, damaged ones included."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.columns import scanned
from tests.fakes.records import STORE_MS, LogBytes, properties, record
from wakelog.compiled import layout
from wakelog.compiled.columns import ScanFunctions
from wakelog.compiled.layout import KEY_HASH, KEY_RECORD
from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.protocol.properties import split_keys
from wakelog.protocol.sys_flag import transaction_type
from wakelog.storage.columns.scan_columns import Columns
from wakelog.storage.index.index_file import index_key_hash
from wakelog.storage.log.dispatch_request import DispatchRequest
from wakelog.storage.log.record_check import CheckKind, check_record
from wakelog.storage.log.scan import PlainScan, scan_plain
from wakelog.storage.queue.entries import ENTRY

DELAYS_MS = (1000, 5000)
BUFFER_BYTES = 1 << 14

NAMES = ("KEYS", "TAGS", "UNIQ_KEY", "DELAY", "INNER_MULTI_DISPATCH", "KEY", "tags", "", "ÄTAGS")
VALUES = ("", "a", "abcdefg", "  a  b ", "ä", "😀", "1", "x" * 40, "%LMQ%a,%LMQ%b", "a\x01b")

pairs = st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES))
texts = st.lists(pairs, max_size=6).map(
    lambda found: "\x02".join(f"{name}\x01{value}" for name, value in found).encode()
) | st.binary(max_size=40)
records = st.fixed_dictionaries(
    {
        "properties": texts,
        "topic": st.sampled_from(["T", "Other", "Tö", SCHEDULE_TOPIC, "%RETRY%g"]),
        "queue_id": st.integers(0, 2) | st.just(-1),
        "queue_offset": st.integers(0, 3),
        "sys_flag": st.sampled_from([0, 1, 4, 8, 12]),
        "store_timestamp_ms": st.sampled_from([0, STORE_MS, (1 << 63) - 1]),
        "born_host": st.sampled_from([("1.2.3.4", 1), ("::1", 1)]),
        "store_host": st.sampled_from([("1.2.3.4", 1), ("::1", 1)]),
        "body": st.sampled_from([b"", b"body"]),
    }
)
damages = st.lists(st.tuples(st.integers(0, 1 << 13), st.binary(min_size=1, max_size=8)))


def make(found: list[dict[str, Any]]) -> LogBytes:
    log = LogBytes(segment_bytes=BUFFER_BYTES)
    for values in found:
        text = values.pop("properties")
        if log.end + 500 < BUFFER_BYTES:
            log.add(text, **values)
    return log


def damaged_bytes(found: list[dict[str, Any]], damage: list[tuple[int, bytes]], cut: int) -> bytes:
    """Return a log with bytes written over others, and without its last ones."""
    log = make(found)
    for at, data in damage:
        if at + len(data) <= len(log.data):
            log.damage(at, data)
    return bytes(log.data[: max(len(log.data) - cut, 0)])


def columns_of(functions: ScanFunctions, **values: Any) -> Columns:
    return Columns(
        functions, DELAYS_MS, **{"buffer_bytes": BUFFER_BYTES, "records_max": 64} | values
    )


def plain_of(data: bytes) -> PlainScan:
    return scan_plain(data, 0, BUFFER_BYTES, DELAYS_MS)


def words_of(request: DispatchRequest) -> list[str]:
    """Return the index words of a record, as the plain way takes them."""
    if transaction_type(request.sys_flag) == 12:
        return []
    return ([request.uniq_key] if request.uniq_key else []) + split_keys(request.keys or "")


def keys_of(columns: Columns) -> list[tuple[int, int]]:
    """Return (physical offset, hash) of each index key, the plain way's records between."""
    found = []
    for begin, end, request in columns.key_runs():
        for key in range(begin, end):
            row = columns.request(int(columns.keys[KEY_RECORD, key]))
            found.append((row.physical_offset, int(columns.keys[KEY_HASH, key])))
        if request is not None:
            for word in words_of(request):
                found.append((request.physical_offset, index_key_hash(request.topic, word)))
    return found


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=st.lists(records, max_size=20), damage=damages, cut=st.integers(0, 200))
def test_agrees_with_the_plain_scan(
    functions: ScanFunctions, found: list[dict[str, Any]], damage: list[tuple[int, bytes]], cut: int
) -> None:
    data = damaged_bytes(found, damage, cut)
    columns = columns_of(functions)
    columns.buffer[: len(data)] = data
    scan = columns.scan(begin=0, end=len(data), physical_offset=0, segment_end=BUFFER_BYTES)
    plain = plain_of(data)

    assert columns.requests() == plain.requests
    assert (scan.next_position, scan.stopped_by) == (plain.next_physical_offset, plain.stopped_by)
    assert keys_of(columns) == [
        (request.physical_offset, index_key_hash(request.topic, word))
        for request in plain.requests
        for word in words_of(request)
    ]
    check_groups(columns, plain.requests)


def check_groups(columns: Columns, requests: list[DispatchRequest]) -> None:
    expected: dict[tuple[str, int], list[bytes]] = {}
    of_queue: dict[tuple[str, int], list[DispatchRequest]] = {}
    for request in requests:
        if transaction_type(request.sys_flag) in (0, 8):
            entry = ENTRY.pack(request.physical_offset, request.size_bytes, request.tags_code)
            expected.setdefault((request.topic, request.queue_id), []).append(entry)
            of_queue.setdefault((request.topic, request.queue_id), []).append(request)
    for group in columns.groups():
        found = of_queue[group.topic, group.queue_id]
        first, last = found[0], found[-1]
        offsets = [one.queue_offset for one in found]
        assert group.unbroken == (offsets == [first.queue_offset + i for i in range(len(found))])
        assert (group.queue_offset, group.physical_offset, group.physical_offset_end) == (
            first.queue_offset,
            first.physical_offset,
            last.physical_offset + last.size_bytes,
        )
    assert {
        (group.topic, group.queue_id): [
            columns.entries.tobytes()[20 * place : 20 * place + 20]
            for place in range(group.begin, group.end)
        ]
        for group in columns.groups()
    } == expected


def test_usual_records_are_read_as_the_plain_way_does(functions: ScanFunctions) -> None:
    log = LogBytes(segment_bytes=BUFFER_BYTES)
    for i in range(40):
        tags = "abcdefg"[: i % 8] + "z" * (i % 3)  # of which some have a negative hash
        log.add(properties(TAGS=tags, KEYS=f"k{i}"), queue_id=i % 2, queue_offset=i // 2 + i // 39)
    columns = scanned(functions, log, delays_ms=DELAYS_MS)
    requests = plain_of(bytes(log.data)).requests
    assert columns.requests() == requests
    assert min(request.tags_code for request in requests) < 0
    check_groups(columns, requests)
    assert [group.unbroken for group in columns.groups()] == [True, False]


def test_full_columns_end_a_scan_without_a_reason(functions: ScanFunctions) -> None:
    log = LogBytes(segment_bytes=BUFFER_BYTES)
    for _ in range(5):
        log.add()
    columns = columns_of(functions, records_max=3)
    columns.buffer[: log.end] = log.data
    first = columns.scan(begin=0, end=log.end, physical_offset=0, segment_end=BUFFER_BYTES)
    assert (columns.count, first.next_position, first.stopped_by) == (3, log.offsets[3], None)
    second = columns.scan(
        begin=first.next_position,
        end=log.end,
        physical_offset=first.next_position,
        segment_end=BUFFER_BYTES,
    )
    assert (columns.count, second.next_position, second.stopped_by) == (2, log.end, None)


@pytest.mark.parametrize("count", [64, 65, 1000])
def test_endless_keys_go_the_plain_way(functions: ScanFunctions, count: int) -> None:
    words = " ".join(f"k{i}" for i in range(count))
    log = LogBytes(segment_bytes=BUFFER_BYTES)
    log.add(properties(KEYS="first"))
    log.add(properties(KEYS=words))
    log.add(properties(KEYS="last"))
    columns = scanned(functions, log, delays_ms=DELAYS_MS)
    assert columns.count == 3
    assert columns.key_count == (count + 2 if count <= 64 else 2)
    assert [key for _, key in keys_of(columns)] == [
        index_key_hash("T", word) for word in ["first", *words.split(" "), "last"]
    ]


def test_key_runs_from_a_record_on(functions: ScanFunctions) -> None:
    log = LogBytes(segment_bytes=BUFFER_BYTES)
    for text in ("a", "ä", "b", "ö", "c"):
        log.add(properties(KEYS=text))
    columns = scanned(functions, log, delays_ms=DELAYS_MS)
    whole = ["a", "ä", "b", "ö", "c"]
    for first in range(6):
        found: list[str] = []
        for begin, end, request in columns.key_runs(first):
            rows = columns.keys[KEY_RECORD, begin:end].tolist()
            found += [whole[row] for row in rows] + ([request.keys or ""] if request else [])
        assert found == whole[first:]


def test_groups_of_equal_hash_stay_apart(functions: ScanFunctions) -> None:
    # "Aa" and "BB" have one Java hash.
    log = LogBytes(segment_bytes=BUFFER_BYTES)
    for topic in ("Aa", "BB", "Aa", "BB"):
        log.add(topic=topic)
    columns = scanned(functions, log, delays_ms=DELAYS_MS)
    assert [(group.topic, group.end - group.begin) for group in columns.groups()] == [
        ("Aa", 2),
        ("BB", 2),
    ]


def test_a_scan_replaces_the_one_before(functions: ScanFunctions) -> None:
    columns = columns_of(functions)
    for topic in ("One", "Two"):
        data = record(0, topic=topic)
        columns.buffer[: len(data)] = data
        columns.scan(begin=0, end=len(data), physical_offset=0, segment_end=BUFFER_BYTES)
        assert [group.topic for group in columns.groups()] == [topic]


def test_rows_and_bits_are_distinct() -> None:
    rows = [
        layout.PHYSICAL_OFFSET,
        layout.SIZE,
        layout.QUEUE_ID,
        layout.QUEUE_OFFSET,
        layout.SYS_FLAG,
        layout.STORE_TIMESTAMP,
        layout.PREPARED_OFFSET,
        layout.TAGS_CODE,
        layout.TOPIC_BEGIN,
        layout.TOPIC_BYTES,
        layout.PROPERTIES_BEGIN,
        layout.PROPERTIES_BYTES,
        layout.REFINE,
        layout.GROUP,
    ]
    assert rows == list(range(layout.NUMBER_FIELDS))
    bits = [layout.REFINE_TEXT, layout.REFINE_DELAY, layout.REFINE_MULTI, layout.REFINE_KEYS]
    assert sum(bits) == (1 << len(bits)) - 1


RECORD = record(0, properties(UNIQ_KEY="u", KEYS="a b"), body=b"0123456789")


def test_records_and_keys_are_counted_and_a_cut_record_leaves_nothing(
    functions: ScanFunctions,
) -> None:
    both = RECORD + record(len(RECORD), properties(UNIQ_KEY="v"))
    columns = Columns(functions, buffer_bytes=len(both), records_max=4)
    columns.buffer[:] = both
    for end in range(len(both) + 1):
        count = (end >= len(RECORD)) + (end == len(both))
        scan = columns.scan(begin=0, end=end, physical_offset=0, segment_end=len(both))
        assert (columns.count, columns.key_count) == (count, [0, 3, 4][count])
        assert scan.next_position == [0, len(RECORD), len(both)][count]


hosts = st.sampled_from([("1.2.3.4", 1), ("::1", 1)])
bodies = st.fixed_dictionaries(
    {"body": st.binary(max_size=200), "born_host": hosts, "store_host": hosts}
)


@given(
    found=st.lists(bodies, max_size=12),
    damage=st.lists(st.tuples(st.integers(0, 1 << 12), st.binary(min_size=1, max_size=3))),
)
def test_bodies_are_judged_as_the_plain_way_does(
    functions: ScanFunctions, found: list[dict[str, Any]], damage: list[tuple[int, bytes]]
) -> None:
    log = LogBytes(segment_bytes=BUFFER_BYTES)
    for values in found:
        log.add(**values)
    for at, data in damage:
        if at + len(data) <= len(log.data):
            log.damage(at, data)
    columns = scanned(functions, log)
    places = [request.physical_offset for request in columns.requests()]
    damaged = [request.physical_offset for request in columns.damaged_bodies()]
    assert damaged == [
        place
        for place in places
        if check_record(log.data, place, place, log.end, check_body=True).kind
        is not CheckKind.SOUND
    ]
