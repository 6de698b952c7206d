"""Rows become messages as 4.9.3's producer makes them, and errors of rows that cannot."""

from typing import Any

import pyarrow as pa
import pytest

from wakelog.client.messages import BODY_BYTES_MAX, EncodedMessage
from wakelog.protocol.properties import decode_properties
from wakelog.spark.sink.rows import RowRefused, read_messages
from wakelog.spark.sink.unique_keys import UniqueKeys, WrittenPart

KEYS = UniqueKeys(WrittenPart("q", 0, 0))
TYPES = {
    "body": pa.binary(),
    "topic": pa.string(),
    "tags": pa.string(),
    "keys": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "delayTimeLevel": pa.int32(),
    "shardingKey": pa.string(),
    "brokerName": pa.string(),
    "queueId": pa.int32(),
    "flag": pa.int32(),
    "uniqueKey": pa.string(),
}


def read(*rows: dict[str, Any], topic: str = "", first_row: int = 0) -> list[EncodedMessage]:
    names = tuple(name for name in TYPES if any(name in row for row in rows))
    arrays = [pa.array([row.get(name) for row in rows], TYPES[name]) for name in names]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(names))
    return read_messages(batch, names, topic, KEYS, first_row)


def test_each_column_becomes_its_part_of_the_message() -> None:
    row = {
        "body": b"b",
        "topic": "T",
        "tags": "t",
        "keys": "k1 k2",
        "properties": [("a", "1"), ("TAGS", "other"), ("REAL_TOPIC", "R"), ("UNIQ_KEY", "old")],
        "delayTimeLevel": 3,
        "shardingKey": "s",
        "brokerName": "b",
        "queueId": 2,
        "flag": 5,
    }
    [message] = read(row, first_row=7)
    assert decode_properties(message.properties) == {
        "a": "1",
        "TAGS": "t",
        "KEYS": "k1 k2",
        "DELAY": "3",
        "__SHARDINGKEY": "s",
        "UNIQ_KEY": KEYS.key(7),
        "WAIT": "true",
    }
    assert message._replace(properties="") == EncodedMessage("T", b"b", "", 5, ("b", 2), "s", True)


@pytest.mark.parametrize(
    ("fields", "is_alone"),
    [
        ({}, False),
        ({"delayTimeLevel": 0}, False),
        ({"delayTimeLevel": 3}, True),
        ({"properties": [("DELAY", "3")]}, True),
        ({"topic": "%RETRY%g"}, True),
    ],
)
def test_delayed_messages_and_those_of_retry_topics_are_sent_alone(
    fields: dict[str, Any], is_alone: bool
) -> None:
    [message] = read({"body": b"b", "topic": "T", **fields})
    assert message.is_alone is is_alone


def test_nulls_count_as_absent_columns() -> None:
    full = {"body": b"1", "topic": "A", "tags": "t", "queueId": 1, "flag": 1, "properties": []}
    first, second = read(full, {"body": b"2"}, topic="T")
    assert (first.topic, first.queue, first.flag) == ("A", ("", 1), 1)
    assert second._replace(properties="") == EncodedMessage("T", b"2", "", 0, None, "", False)
    assert set(decode_properties(second.properties)) == {"UNIQ_KEY", "WAIT"}


def test_a_message_of_a_retry_topic_keeps_its_origin_and_a_row_may_have_its_key() -> None:
    origin = [("RETRY_TOPIC", "T"), ("ORIGIN_MESSAGE_ID", "M"), ("RECONSUME_TIME", "3")]
    row = {"body": b"x", "properties": origin, "uniqueKey": "mine"}
    for topic, kept in (("%RETRY%g", dict(origin[:2])), ("T", {})):
        [message] = read(row, topic=topic)
        expected = {**kept, "UNIQ_KEY": "mine", "WAIT": "true"}
        assert decode_properties(message.properties) == expected


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"body": None}, "null or empty"),
        ({"body": b""}, "null or empty"),
        ({"body": b"x" * (BODY_BYTES_MAX + 1)}, "over 4194304"),
        ({"body": b"x", "topic": "a b"}, "is no name of a topic"),
        ({"body": b"x", "topic": "a" * 128}, "is no name of a topic"),
        ({"body": b"x", "topic": "SCHEDULE_TOPIC_XXXX"}, "clients may not send to"),
        ({"body": b"x", "tags": "a\2b"}, "'TAGS' is empty or has the characters 1 or 2"),
        ({"body": b"x", "properties": [("a", "x" * 32_768)]}, "over 32767 bytes"),
        ({"body": b"x", "queueId": -1}, "queueId is -1"),
        ({"body": b"x", "uniqueKey": "a\1b"}, "'UNIQ_KEY' is empty or has"),
    ],
)
def test_a_row_that_cannot_be_stored_is_refused_by_its_number(
    row: dict[str, Any], words: str
) -> None:
    with pytest.raises(RowRefused, match=f"row 4 of the partition.*{words}"):
        read({"body": b"good"}, row, topic="T", first_row=3)
    with pytest.raises(RowRefused, match="has no topic"):
        read({"body": b"x"})


def test_a_key_depends_on_query_batch_partition_and_row_and_on_nothing_else() -> None:
    parts = [
        WrittenPart(query, batch, partition)
        for query in ("a", "b")
        for batch in (0, 1, 11)
        for partition in (0, 1, 11)
    ]
    keys = [UniqueKeys(part).key(row) for part in parts for row in (0, 1, 2**32 - 1)]
    assert len(set(keys)) == len(keys)
    assert keys == [UniqueKeys(part).key(row) for part in parts for row in (0, 1, 2**32 - 1)]
    assert {len(key) for key in keys} == {32}
    assert all(bytes.fromhex(key).hex().upper() == key for key in keys)


def test_a_key_is_the_same_as_in_earlier_releases() -> None:
    assert UniqueKeys(WrittenPart("q", 3, 1)).key(258) == "A04EC28AE36745FF46E898FE00000102"
