"""The compiled way and the plain one give the same rows and damage, of any bytes whatever."""

import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.records import STORE_MS, LogBytes, properties
from tests.spark.logs import JSON, KAFKA, MESSAGES, columns, read_folder, rows_of
from tests.spark.plain_rows import json_row, kafka_row, plain_table
from wakelog.protocol.record import body_crc
from wakelog.spark.bounds import Bounds, Selection, Topics
from wakelog.spark.columns import DAMAGE_COLUMNS, KAFKA_COLUMNS, MESSAGE_COLUMNS
from wakelog.spark.reader import EVERY_MESSAGE
from wakelog.spark.records.arrow_types import arrow_schema_of
from wakelog.spark.records.bodiless_walk import BodilessWalk
from wakelog.spark.records.column_walk import Damage, RecordWalk, RowOptions
from wakelog.spark.records.rows import Rows, java_host_text, needs_bodies

SEGMENT_BYTES = 1 << 14
BODILESS = pa.schema([field for field in MESSAGES if field.name != "body"])

NAMES = ("KEYS", "TAGS", "UNIQ_KEY", "a", "b", "", "KEY", "ä", "long" * 9)
VALUES = ("", "a", "a b", "ä", "😀", "x" * 40, "a\x01b", '"\\\n')
HOSTS = (("1.2.3.4", 5), ("255.0.0.10", -1), ("::1", 2**31 - 1), ("2001:db8::ff00:42:8329", 0))

pairs = st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES))
texts = st.lists(pairs, max_size=8).map(
    lambda found: "\x02".join(f"{name}\x01{value}" for name, value in found).encode()
) | st.binary(max_size=40)
bodies = st.sampled_from([b"", b"b", b"body" * 20, zlib.compress(b"body" * 50)])
records = st.fixed_dictionaries(
    {
        "properties": texts,
        "topic": st.sampled_from(["T", "Other", "Tö", "%RETRY%g"]),
        "queue_id": st.integers(0, 2) | st.just(-1),
        "queue_offset": st.integers(0, 3) | st.just(2**63 - 1),
        "flag": st.integers(-(2**31), 2**31 - 1),
        "sys_flag": st.sampled_from([0, 1, 2, 4, 8, 12]),
        "born_timestamp_ms": st.sampled_from([0, STORE_MS]),
        "store_timestamp_ms": st.sampled_from([0, 1, STORE_MS]),
        "born_host": st.sampled_from(HOSTS),
        "store_host": st.sampled_from(HOSTS),
        "reconsume_times": st.integers(0, 3),
        "prepared_transaction_offset": st.integers(0, 2**63 - 1),
        "body": bodies,
    }
)
damages = st.lists(st.tuples(st.integers(0, 1 << 13), st.binary(min_size=1, max_size=8)))


@pytest.fixture(scope="module")
def walk() -> RecordWalk:
    return RecordWalk(buffer_bytes=SEGMENT_BYTES, records_max=64)


@pytest.fixture(scope="module")
def bodiless() -> BodilessWalk:
    return BodilessWalk(window_bytes=1 << 10, window_records_max=4, kept_bytes=1, records_max=9)


class Bytes:
    """A segment in memory."""

    def __init__(self, data: bytes, end: int) -> None:
        self.data = data
        self.end = end

    def read_into(self, buffer: memoryview, physical_offset: int) -> int:
        data = self.data[physical_offset : physical_offset + len(buffer)]
        buffer[: len(data)] = data
        return len(data)

    def read(self, physical_offset: int, length_max: int) -> bytes:
        return self.data[physical_offset : physical_offset + length_max]


def table(
    data: bytes, walk: RecordWalk | BodilessWalk, schema: pa.Schema, options: RowOptions
) -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
    rows = Rows(walk, schema, EVERY_MESSAGE, options)
    found: list[dict[str, Any]] = []
    damage: list[Damage] = []
    for step in walk.steps(Bytes(data, SEGMENT_BYTES), 0, len(data)):
        if isinstance(step, Damage):
            damage.append(step)
            continue
        for batch in rows.batches():
            assert batch.schema.equals(schema)
            found += rows_of(batch)
        damage += rows.taken_damage()
    return found, sorted((each.begin, each.end) for each in damage)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    found=st.lists(records, max_size=20),
    damage=damages,
    cut=st.integers(0, 200),
    verify=st.booleans(),
    rows_max=st.sampled_from([1, 7, 8192]),
    bytes_max=st.sampled_from([1, 1000, 1 << 20]),
)
def test_agrees_with_the_plain_way(
    walk: RecordWalk,
    bodiless: BodilessWalk,
    found: list[dict[str, Any]],
    damage: list[tuple[int, bytes]],
    cut: int,
    verify: bool,
    rows_max: int,
    bytes_max: int,
) -> None:
    log = LogBytes(segment_bytes=SEGMENT_BYTES)
    for values in found:
        if log.end + 700 < SEGMENT_BYTES:
            log.add(**values)
    for at, data in damage:
        if at + len(data) <= len(log.data):
            log.damage(at, data)
    data = bytes(log.data[: max(len(log.data) - cut, 0)])
    expected, lost = plain_table(data, SEGMENT_BYTES, broker="b", verify_crc=verify)
    options = RowOptions("b", verify_crc=verify, batch_rows=rows_max, batch_bytes=bytes_max)
    assert table(data, walk, MESSAGES, options) == (expected, sorted(lost))
    if not verify:
        assert table(data, bodiless, BODILESS, options) == table(data, walk, BODILESS, options)


def test_only_bodies_and_their_crc_need_bodies() -> None:
    assert [needs_bodies(each, RowOptions()) for each in (MESSAGES, KAFKA)] == [True, True]
    assert not needs_bodies(BODILESS, RowOptions())
    assert needs_bodies(BODILESS, RowOptions(verify_crc=True))


def test_a_mapped_address_is_written_as_java_takes_it() -> None:
    address = bytes(10) + b"\xff\xff\x01\x02\x03\x04"
    assert java_host_text(address + (80).to_bytes(4, "big")) == "1.2.3.4:80"


TEXTS = [b"TAGS\x01\xff\x02a\xfe\x01b\x02a\xff\x01c", "KEYS\x01ä\x02ö\x01ß".encode(), b"KEYS\x01k"]


def text_log() -> LogBytes:
    log = LogBytes(segment_bytes=SEGMENT_BYTES)
    for text in TEXTS:
        log.add(text)
    return log


def test_text_that_is_no_utf8_is_read_as_java_reads_it(walk: RecordWalk) -> None:
    data = bytes(text_log().data)
    rows, _ = table(data, walk, MESSAGES, RowOptions())
    assert rows == plain_table(data, SEGMENT_BYTES)[0]
    assert rows[0]["tags"] == "\ufffd"
    assert rows[0]["properties"] == [("TAGS", "\ufffd"), ("a\ufffd", "c")]


def test_properties_as_json(walk: RecordWalk) -> None:
    data = bytes(text_log().data)
    expected = [json_row(row) for row in plain_table(data, SEGMENT_BYTES)[0]]
    assert table(data, walk, JSON, RowOptions())[0] == expected


def test_the_columns_of_kafka(walk: RecordWalk) -> None:
    log = LogBytes(segment_bytes=SEGMENT_BYTES)
    for text in TEXTS[1:]:
        log.add(text, queue_id=3, queue_offset=9, body=b"v")
    data = bytes(log.data)
    expected = [kafka_row(row) for row in plain_table(data, SEGMENT_BYTES)[0]]
    assert table(data, walk, KAFKA, RowOptions())[0] == expected


def test_many_properties_of_one_name(walk: RecordWalk) -> None:
    log = LogBytes(segment_bytes=SEGMENT_BYTES)
    text = "\x02".join(f"n{i % 700}\x01{i}" for i in range(1400)).encode()
    log.add(text)
    [row] = table(bytes(log.data), walk, columns("properties"), RowOptions())[0]
    assert row["properties"] == [(f"n{i}", str(i + 700)) for i in range(700)]


@pytest.mark.parametrize("decompress", [True, False])
def test_compressed_bodies(walk: RecordWalk, decompress: bool) -> None:
    plain, small = b"message " * 400, zlib.compress(b"message " * 400)
    stored = [small, b"as it is", zlib.compress(b""), b"not zlib"]
    log = LogBytes(segment_bytes=SEGMENT_BYTES)
    for i, body in enumerate(stored):
        log.add(body=body, sys_flag=i != 1)
    options = RowOptions(decompress=decompress, batch_bytes=100)
    rows, damage = table(bytes(log.data), walk, columns("body"), options)
    found = [row["body"] for row in rows]
    if decompress:
        assert found == [plain, b"as it is", b""]
        assert damage == [(log.offsets[3], log.end)]
    else:
        assert (found, damage) == (stored, [])


def test_a_body_that_inflates_without_end_is_damage(
    walk: RecordWalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakelog.protocol.compression.INFLATED_BYTES_MAX", 1000)
    log = LogBytes(segment_bytes=SEGMENT_BYTES)
    log.add(body=zlib.compress(bytes(1001)), sys_flag=1)
    assert table(bytes(log.data), walk, columns("body"), RowOptions()) == ([], [(0, log.end)])


def test_a_time_that_spark_cannot_hold_is_cut(walk: RecordWalk) -> None:
    log = LogBytes(segment_bytes=SEGMENT_BYTES)
    log.add(born_timestamp_ms=2**63 - 1)
    data = bytes(log.data)
    rows = Rows(walk, columns("bornTimestamp"), EVERY_MESSAGE, RowOptions())
    for _ in walk.steps(Bytes(data, SEGMENT_BYTES), 0, len(data)):
        [batch] = rows.batches()
        [row] = rows_of(batch)
    assert row["bornTimestamp"] == (2**63 - 1) // 1000 * 1000


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 64, 1000])
def test_a_body_is_held_against_its_crc(walk: RecordWalk, length: int) -> None:
    body = bytes(i * 7 & 0xFF for i in range(length))
    log = LogBytes(segment_bytes=SEGMENT_BYTES)
    log.add(body=body)
    log.add(body=body, crc=body_crc(body) ^ 1)
    rows, damage = table(bytes(log.data), walk, columns("body"), RowOptions(verify_crc=True))
    # An empty body has nothing to be held against: 4.9.3 passes it too.
    assert len(rows) == (1 if length else 2)
    assert damage == ([(log.offsets[1], log.end)] if length else [])


SELECTIONS: dict[str, tuple[Selection, list[int]]] = {
    "all of users": (Selection(), [0, 1, 2, 3]),
    "a topic": (Selection(Topics(frozenset({"B"}))), [2, 3]),
    "a pattern": (Selection(Topics(pattern="[AC]")), [0, 1]),
    "retry too": (Selection(Topics(include_retry=True)), [0, 1, 2, 3, 4]),
    "a queue": (Selection(Topics(assigned={"A": {"b": frozenset({1})}})), [1]),
    "another broker's": (Selection(Topics(assigned={"A": {"c": frozenset({1})}})), []),
    "queue offsets": (Selection(queues={("b", "B", 0): Bounds(queue_begin=8)}), [0, 1, 3]),
    "tags": (Selection(tags=("x", "zz")), [0]),
    "tags of two bytes": (Selection(tags=("ä",)), [3]),
    "an expression": (Selection(sql="TAGS IN ('xx', 'ä') AND n > 1"), [3]),
    "one that is unknown": (Selection(sql="other > 1"), []),
    "tags and an expression": (Selection(tags=("x", "xx"), sql="n < 1"), [0]),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_what_is_selected(name: str, tmp_path: Path) -> None:
    log = LogBytes(segment_bytes=SEGMENT_BYTES)
    queues = [("A", 0, 5), ("A", 1, 6), ("B", 0, 7), ("B", 0, 8), ("%RETRY%g", 0, 0)]
    tags = ["x", "xx", "", "ä", "x"]
    for i, (topic, queue_id, queue_offset) in enumerate(queues):
        log.add(
            properties(TAGS=tags[i], n=str(i)),
            topic=topic,
            queue_id=queue_id,
            queue_offset=queue_offset,
            store_timestamp_ms=STORE_MS + i,
        )
    selection, expected = SELECTIONS[name]
    rows = read_folder(tmp_path, log, schema=columns("commitLogOffset"), selection=selection)
    assert [log.offsets.index(row["commitLogOffset"]) for row in rows] == expected


def test_types_are_those_of_the_source() -> None:
    assert arrow_schema_of(MESSAGE_COLUMNS).equals(MESSAGES)
    assert arrow_schema_of(KAFKA_COLUMNS).equals(KAFKA)


def test_the_columns_keep_their_order() -> None:
    chosen = {"tags": "string", "topic": "string"}
    assert arrow_schema_of(chosen).names == ["tags", "topic"]
    assert arrow_schema_of(DAMAGE_COLUMNS).names == list(DAMAGE_COLUMNS)
