"""Tests of the registration's compressed form."""

import os
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.registrations import decode_register_broker
from wakelog.protocol.bodies import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.register_broker import (
    TOPICS_MAX,
    body_checksum,
    encode_register_broker,
)

VERSION = b'{"counter":3,"timestamp":9}'
TOPIC = b"T 4 8 6 SINGLE_TAG"
BODY = RegisterBrokerBody(
    TopicConfigSerializeWrapper({"T": TopicConfig("T", 4, 8, 6)}, DataVersion(9, 3)), ["h:1"]
)


def block(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def count(number: int) -> bytes:
    return struct.pack(">i", number)


PLAIN = block(VERSION) + count(1) + block(TOPIC) + block(b'["h:1"]')


def test_the_compressed_form_is_written_as_the_specification_says() -> None:
    assert zlib.decompress(encode_register_broker(BODY, compressed=True)) == PLAIN


@pytest.mark.parametrize("compressed", [True, False])
def test_both_forms_come_back(compressed: bool) -> None:
    data = encode_register_broker(BODY, compressed=compressed)
    assert decode_register_broker(data, compressed=compressed) == BODY


def test_the_compressed_form_loses_flag_and_order() -> None:
    topic = TopicConfig("T", 4, 8, 6, topic_sys_flag=1, order=True)
    body = RegisterBrokerBody(TopicConfigSerializeWrapper({"T": topic}, DataVersion(9, 3)), ["h:1"])
    data = encode_register_broker(body, compressed=True)
    assert decode_register_broker(data, compressed=True) == BODY


@given(
    st.dictionaries(
        st.text("ab%_-", min_size=1),
        st.tuples(*[st.integers(-(2**31), 2**31 - 1)] * 3),
        max_size=5,
    ),
    st.lists(st.text(max_size=5), max_size=3),
)
def test_any_table_comes_back(topics: dict[str, tuple[int, int, int]], servers: list[str]) -> None:
    table = {name: TopicConfig(name, *numbers) for name, numbers in topics.items()}
    body = RegisterBrokerBody(TopicConfigSerializeWrapper(table, DataVersion(1, 1)), servers)
    data = encode_register_broker(body, compressed=True)
    assert decode_register_broker(data, compressed=True) == body


@pytest.mark.parametrize(
    "plain",
    [
        b"",
        b"\0\0",
        count(-1),
        count(2**31 - 1),
        block(b"[]") + count(0) + block(b"[]"),
        block(VERSION) + count(-1),
        block(VERSION) + count(2**31 - 1),
        block(VERSION) + count(2) + block(TOPIC) + block(b"[]"),
        block(VERSION) + count(1) + block(b"T 4 8 6") + block(b"[]"),
        block(VERSION) + count(1) + block(b"T 4 x 6 SINGLE_TAG") + block(b"[]"),
        block(VERSION) + count(1) + block(b"\xff 4 8 6 SINGLE_TAG") + block(b"[]"),
        block(VERSION) + count(0) + block(b"{}"),
        block(VERSION) + count(0) + block(b"[1]"),
        block(VERSION) + count(0) + block(b"["),
        *(PLAIN[:cut] for cut in range(1, len(PLAIN), 5)),
    ],
)
def test_a_stream_that_lies_is_the_peers_fault(plain: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_register_broker(zlib.compress(plain), compressed=True)


@given(st.binary())
def test_garbage_raises_nothing_else(data: bytes) -> None:
    for sent in (data, zlib.compress(data)):
        with pytest.raises(RemoteProtocolError):
            decode_register_broker(sent, compressed=True)


def test_a_stream_cut_short_is_the_peers_fault() -> None:
    data = encode_register_broker(BODY, compressed=True)
    with pytest.raises(RemoteProtocolError):
        decode_register_broker(data[: len(data) // 2], compressed=True)


def test_a_stream_that_would_fill_the_memory_is_refused_before_it_does() -> None:
    topics = block(b"T" * 500_000 + b" 4 8 6 SINGLE_TAG") * 40
    bomb = zlib.compress(block(VERSION) + count(40) + topics + block(b"[]"))
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="when inflated"):
            decode_register_broker(bomb, compressed=True, inflated_bytes_max=1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


@pytest.mark.parametrize(
    ("plain", "remark"),
    [
        (count(20_000_000) + bytes(20_000_000), "a length of 20000000, at most 16777216"),
        (block(VERSION) + count(TOPICS_MAX + 1) + bytes(20_000_000), "at most 131072 are allowed"),
    ],
)
def test_what_a_stream_announces_is_refused_before_it_is_inflated(
    plain: bytes, remark: str
) -> None:
    bomb = zlib.compress(plain)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match=remark):
            decode_register_broker(bomb, compressed=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 300_000


def test_a_long_stream_is_inflated_in_steps() -> None:
    names = [os.urandom(60).hex() for _ in range(5_000)]
    table = {name: TopicConfig(name, 4, 8, 6) for name in names}
    body = RegisterBrokerBody(TopicConfigSerializeWrapper(table, DataVersion(9, 3)), ["h:1"])
    data = encode_register_broker(body, compressed=True)
    assert len(data) > 4 * 65_536
    assert decode_register_broker(data, compressed=True) == body


def test_a_stream_of_exactly_the_limit_is_read() -> None:
    data = encode_register_broker(BODY, compressed=True)
    decoded = decode_register_broker(data, compressed=True, inflated_bytes_max=len(PLAIN))
    assert decoded == BODY


def test_the_checksum_has_its_top_bit_cleared() -> None:
    assert body_checksum(b"hi") == zlib.crc32(b"hi") & 0x7FFFFFFF
    assert body_checksum(b"hi") != zlib.crc32(b"hi")
