"""Tests of batches, also against how the real broker stored them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden_stores import read_manifest
from tests.protocol.golden_records import raw_records
from tests.protocol.strategies import int32
from wakelog.protocol.batch import (
    BatchedMessage,
    decode_batch_body,
    encode_batch_body,
    encode_records,
)
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.protocol.record import decode_record, encode_record

BATCH = bytes.fromhex(
    "0000001b 00000000 00000000 00000007 00000002 6869 0003 6b0176"
    "00000016 00000000 00000000 00000000 00000000 0000"
)
MESSAGES = [(7, b"hi", b"k\x01v"), (0, b"", b"")]

messages = st.tuples(int32, st.binary(max_size=30), st.binary(max_size=30))


def test_a_batch_is_written_and_read() -> None:
    assert encode_batch_body(MESSAGES) == BATCH
    assert decode_batch_body(BATCH, 2) == MESSAGES


@given(st.lists(messages, max_size=5))
def test_a_batch_comes_back(batch: list[BatchedMessage]) -> None:
    assert decode_batch_body(encode_batch_body(batch), 5) == batch


def test_of_too_many_messages_one_more_than_may_be_is_read() -> None:
    assert decode_batch_body(BATCH + b"garbage", 1) == MESSAGES
    assert decode_batch_body(BATCH, 0) == MESSAGES[:1]


def test_sizes_magic_and_crc_are_not_believed() -> None:
    lied = b"\xff" * 12 + BATCH[12:]
    assert decode_batch_body(lied, 2) == MESSAGES


@pytest.mark.parametrize("cut", [cut for cut in range(1, len(BATCH)) if cut != 27])
def test_a_batch_cut_short_is_the_peers_fault(cut: int) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_batch_body(BATCH[:cut], 2)


@pytest.mark.parametrize(
    ("position", "width", "value"),
    [(16, 4, -1), (16, 4, 2**31 - 1), (22, 2, -1), (22, 2, 2**15 - 1)],
)
def test_a_length_that_lies_is_the_peers_fault(position: int, width: int, value: int) -> None:
    batch = bytearray(BATCH)
    batch[position : position + width] = value.to_bytes(width, "big", signed=True)
    with pytest.raises(RemoteProtocolError) as refused:
        decode_batch_body(bytes(batch), 2)
    assert refused.value.code == 1


@given(st.binary(max_size=100))
def test_garbage_is_split_or_refused(data: bytes) -> None:
    try:
        split = decode_batch_body(data, 100)
    except RemoteProtocolError:
        return
    assert sum(22 + len(body) + len(block) for _, body, block in split) == len(data)


def test_properties_too_long_are_our_mistake() -> None:
    with pytest.raises(LocalProtocolError):
        encode_batch_body([(0, b"", b"p" * 32768)])


@pytest.mark.parametrize(
    ("inner", "outer", "joined"),
    [
        (b"a\x01b", b"c\x01d", b"a\x01b\x02c\x01d"),
        (b"a\x01b\x02", b"c\x01d", b"a\x01b\x02c\x01d"),
        (b"", b"c\x01d", b"c\x01d"),
        (b"a\x01b", b"", b"a\x01b"),
        (b"WAIT\x01true", b"WAIT\x01true", b"WAIT\x01true\x02WAIT\x01true"),
        (b"a\x01\x02\xff\xfe\x01x", b"", b"a\x01\x02\xff\xfe\x01x"),
    ],
)
def test_blocks_are_separated_once(inner: bytes, outer: bytes, joined: bytes) -> None:
    assert stored_properties(inner, outer) == joined


@pytest.mark.golden
def test_the_real_broker_appended_the_same_properties() -> None:
    # The client's own block is not on disk apart; it is what stands before the batch's.
    outer = b"CLUSTER\x01DefaultCluster\x02WAIT\x01true"
    batched = {
        sent["commitLogOffset"]: sent
        for sent in read_manifest("batch")["sent"]
        if sent["kind"] == "batch"
    }
    assert len(batched) > 100
    for record in map(decode_record, raw_records("batch")):
        if record.physical_offset in batched:
            stored = record.properties_text.encode()
            inner = stored.removesuffix(outer).removesuffix(b"\x02")
            assert batched[record.physical_offset]["uniqKey"].encode() in inner
            assert stored_properties(inner, outer) == stored


def stored_properties(inner: bytes, outer: bytes) -> bytes:
    """Return the properties that a batch stores of a message."""
    empty = record(b"", b"")
    message = (0, b"x", inner)
    data, [size] = encode_records([message], empty, outer, queue_offset=0, physical_offset=0)
    assert size == len(data)
    return bytes(data[len(empty) + 1 :])


def record(body: bytes, properties: bytes, host: str = "127.0.0.1", **values: int) -> bytes:
    fields = {"flag": 0, "queue_offset": 0, "physical_offset": 0, **values}
    return encode_record(
        queue_id=3,
        sys_flag=8,
        born_timestamp_ms=1_000,
        born_host=(host, 40_000),
        store_timestamp_ms=2_000,
        store_host=("127.0.0.1", 10_911),
        reconsume_times=2,
        prepared_transaction_offset=0,
        body=body,
        topic="Orders",
        properties=properties,
        **fields,
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_records_of_a_batch_are_those_of_its_messages(host: str) -> None:
    messages = [(n % 4, b"b" * n, b"p" * (n % 3)) for n in range(1, 40)]
    data, sizes = encode_records(
        messages, record(b"", b"", host), b"", queue_offset=7, physical_offset=500
    )
    begin = 0
    for n, ((flag, body, properties), size) in enumerate(zip(messages, sizes, strict=True)):
        places = {"flag": flag, "queue_offset": 7 + n, "physical_offset": 500 + begin}
        assert data[begin : begin + size] == record(body, properties, host, **places)
        begin += size
    assert begin == len(data)


def test_properties_that_no_record_can_hold_are_refused() -> None:
    with pytest.raises(LocalProtocolError):
        stored_properties(b"p" * 32_767, b"o")
