"""Tests of the stored record, above all against every record the real broker wrote."""

import zlib
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden_stores import read_manifest
from tests.protocol.examples import document_example
from tests.protocol.golden_records import raw_records
from tests.protocol.strategies import hosts, int32, int64
from wakelog.protocol import record
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.protocol.record import (
    Host,
    MessageRecord,
    body_crc,
    decode_properties_text,
    decode_record,
    encode_blank,
    encode_record,
    host_address,
    record_bytes,
)

V6_BITS = 0x30
FIXTURES = [
    "basic",
    "batch",
    "crash",
    "crash_lost_cq",
    "crash_torn_props",
    "delay_tx_retry",
    "filter_ext",
    "index_heavy",
    "ipv6",
    "multi_dispatch",
    "transient",
]

EXAMPLE = document_example("message_record.md")


def encode(record: MessageRecord) -> bytes:
    return encode_record(
        queue_id=record.queue_id,
        flag=record.flag,
        queue_offset=record.queue_offset,
        physical_offset=record.physical_offset,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=record.born_host,
        store_timestamp_ms=record.store_timestamp_ms,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
        body=record.body,
        topic=record.topic,
        properties=record.properties_text.encode("utf-8"),
    )


def make_record(**fields: object) -> bytes:
    values: dict[str, object] = {
        "queue_id": 2,
        "flag": 7,
        "queue_offset": 5,
        "physical_offset": 1024,
        "sys_flag": 0,
        "born_timestamp_ms": 0x190_0000_0000,
        "born_host": ("127.0.0.1", 50000),
        "store_timestamp_ms": 0x190_0000_0001,
        "store_host": ("10.0.0.1", 10911),
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body": b"hi",
        "topic": "T",
        "properties": b"k\x01v\x02k2\x01v",
    }
    return encode_record(**{**values, **fields})  # type: ignore[arg-type]


records = st.builds(
    MessageRecord,
    size_bytes=st.just(0),
    body_crc=st.just(0),
    queue_id=int32,
    flag=int32,
    queue_offset=int64,
    physical_offset=int64,
    sys_flag=int32,
    born_timestamp_ms=int64,
    born_host=hosts,
    store_timestamp_ms=int64,
    store_host=hosts,
    reconsume_times=int32,
    prepared_transaction_offset=int64,
    body=st.binary(max_size=50),
    topic=st.text(max_size=30),
    properties_text=st.text(max_size=30),
)


def test_the_example_is_written_and_read() -> None:
    assert make_record() == EXAMPLE
    record = decode_record(EXAMPLE)
    assert record.size_bytes == len(EXAMPLE) == 91 + 2 + 1 + 8
    assert record.body_crc == body_crc(b"hi")
    assert (record.queue_id, record.flag) == (2, 7)
    assert (record.queue_offset, record.physical_offset) == (5, 1024)
    assert record.born_host == ("127.0.0.1", 50000)
    assert record.store_host == ("10.0.0.1", 10911)
    assert (record.body, record.topic, record.properties_text) == (b"hi", "T", "k\x01v\x02k2\x01v")


@given(records)
def test_every_field_comes_back(record: MessageRecord) -> None:
    raw = encode(record)
    decoded = decode_record(raw)
    assert decoded.size_bytes == len(raw)
    assert decoded.body_crc == zlib.crc32(record.body) & 0x7FFFFFFF
    v6_bits = 0x10 * (":" in record.born_host[0]) | 0x20 * (":" in record.store_host[0])
    assert decoded.sys_flag == record.sys_flag & ~V6_BITS | v6_bits
    for name in MessageRecord.__struct_fields__:
        if name not in ("size_bytes", "body_crc", "sys_flag"):
            assert getattr(decoded, name) == getattr(record, name)


@given(records, st.binary(max_size=9))
def test_a_record_is_found_at_its_position_whatever_follows(
    record: MessageRecord, around: bytes
) -> None:
    raw = encode(record)
    assert decode_record(around + raw + around, len(around)) == decode_record(raw)


@given(records, st.data())
def test_a_damaged_record_is_refused_or_read_but_never_more(
    record: MessageRecord, data: st.DataObject
) -> None:
    raw = bytearray(encode(record))
    position = data.draw(st.integers(0, len(raw) - 1))
    raw[position] = data.draw(st.integers(0, 255))
    try:
        decoded = decode_record(bytes(raw))
    except RemoteProtocolError as error:
        assert error.code == 1
    else:
        assert decoded.size_bytes <= len(raw)


@given(st.binary(max_size=200))
def test_garbage_raises_nothing_else(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_record(data)
    with pytest.raises(RemoteProtocolError):
        decode_record(b"\0\0\0\xff\xda\xa3\x20\xa7" + data)


@pytest.mark.parametrize("cut", range(0, len(EXAMPLE)))
def test_a_record_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_record(EXAMPLE[:cut])


@pytest.mark.parametrize(
    ("position", "width", "value"),
    [
        (0, 4, 101),  # one less than the fields need
        (0, 4, -1),
        (4, 4, record.BLANK_MAGIC),
        (84, 4, -1),  # body
        (84, 4, 2**31 - 1),
        (90, 1, -1),  # topic
        (90, 1, 127),
        (92, 2, -1),  # properties
        (92, 2, 9),
        (92, 2, 7),  # a byte would be left over
        (36, 4, 0x10),  # a v6 host in too few bytes
    ],
)
def test_a_field_that_lies_is_found_out(position: int, width: int, value: int) -> None:
    raw = bytearray(EXAMPLE)
    raw[position : position + width] = value.to_bytes(width, "big", signed=True)
    with pytest.raises(RemoteProtocolError):
        decode_record(bytes(raw))


def test_text_that_is_not_utf_8_is_read_as_java_reads_it() -> None:
    assert decode_record(make_record(properties=b"k\x01\xff")).properties_text == "k\x01�"


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.1.2.3", b"\x0a\x01\x02\x03"),
        ("::1", b"\0" * 15 + b"\x01"),
        ("fe80::1%eth0", b"\xfe\x80" + b"\0" * 13 + b"\x01"),
        ("::ffff:10.1.2.3", b"\x0a\x01\x02\x03"),  # what a v4 peer is to a socket of both kinds
    ],
)
def test_an_address_has_4_or_16_bytes(host: str, address: bytes) -> None:
    assert host_address(host) == address


def test_a_peers_v6_bits_do_not_decide_the_layout() -> None:
    assert make_record(sys_flag=V6_BITS | 0x1)[36:40] == b"\0\0\0\x01"
    raw = make_record(sys_flag=0x1, store_host=("::1", 10911))
    assert decode_record(raw).sys_flag == 0x21


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "t" * 128},
        {"properties": b"p" * 32768},
        {"queue_id": 1 << 31},
        {"born_timestamp_ms": 1 << 63},
        {"born_host": ("example", 1)},
        {"store_host": ("1.2.3", 1)},
    ],
)
def test_what_does_not_fit_is_our_mistake(fields: dict[str, object]) -> None:
    with pytest.raises(LocalProtocolError):
        make_record(**fields)


def test_the_longest_topic_and_properties_fit() -> None:
    record: Host = ("::1", 1)
    raw = make_record(topic="t" * 127, properties=b"p" * 32767, born_host=record)
    sizes = {"body_bytes": 2, "topic_bytes": 127, "properties_bytes": 32767}
    assert len(raw) == record_bytes(**sizes, host_flags=0x10)
    assert decode_record(raw).topic == "t" * 127


def test_a_known_crc_is_not_computed_again() -> None:
    assert decode_record(make_record(crc=123)).body_crc == 123


def test_a_blank_states_what_is_left_of_the_file() -> None:
    assert encode_blank(4096) == b"\0\0\x10\0\xcb\xd4\x31\x94"
    with pytest.raises(AssertionError):
        encode_blank(7)


@pytest.mark.golden
@pytest.mark.parametrize("fixture", FIXTURES)
def test_every_golden_record_is_written_again_byte_for_byte(fixture: str) -> None:
    for raw in raw_records(fixture):
        record = decode_record(raw)
        assert encode(record) == raw
        assert record.body_crc == body_crc(record.body)


@pytest.mark.golden
@pytest.mark.parametrize("fixture", ["crash_torn_body", "crash_torn_page"])
def test_a_torn_golden_record_is_refused(fixture: str) -> None:
    refused = 0
    for raw in raw_records(fixture):
        try:
            refused += decode_record(raw).body_crc != body_crc(decode_record(raw).body)
        except RemoteProtocolError:
            refused += 1
    assert refused == 1


@pytest.mark.golden
def test_golden_records_hold_what_the_manifest_says() -> None:
    messages = {m["commitLogOffset"]: m for m in read_manifest("ipv6")["messages"]}
    combinations = set()
    for raw in raw_records("ipv6"):
        record = decode_record(raw)
        message = messages[record.physical_offset]
        for host, stored in ((record.born_host, "bornHost"), (record.store_host, "storeHost")):
            name, _, port = message[stored].rpartition(":")
            assert host == (str(ip_address(name.strip("[]"))), int(port))
        assert (record.topic, record.queue_id) == (message["topic"], message["queueId"])
        assert (record.queue_offset, record.flag) == (message["queueOffset"], message["flag"])
        assert (record.body_crc, record.size_bytes) == (message["bodyCRC"], message["storeSize"])
        assert record.born_timestamp_ms == message["bornTimestamp"]
        assert record.store_timestamp_ms == message["storeTimestamp"]
        combinations.add(record.sys_flag & V6_BITS)
    assert combinations == {0x00, 0x10, 0x20, 0x30}


@pytest.mark.parametrize("name", FIXTURES)
def test_the_properties_alone_are_those_of_the_whole_record(name: str) -> None:
    for raw in raw_records(name):
        assert decode_properties_text(raw) == decode_record(raw).properties_text


@given(st.binary(max_size=300))
def test_the_properties_of_what_is_no_record_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_properties_text(data + b"\xff\xff")
