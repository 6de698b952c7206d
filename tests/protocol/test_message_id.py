"""Tests of message ids, also against those the real broker returned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden_stores import read_manifest
from tests.protocol.strategies import hosts, int64
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.protocol.message_id import (
    create_message_id,
    create_message_ids,
    decode_message_id,
)


def test_a_v4_id_has_32_upper_case_digits() -> None:
    assert create_message_id("127.0.0.1", 10911, 255) == "7F00000100002A9F00000000000000FF"


def test_a_v6_id_has_56_digits() -> None:
    identifier = create_message_id("::1", 10911, 1)
    assert identifier == "0" * 31 + "1" + "00002A9F" + "0" * 15 + "1"
    assert decode_message_id(identifier) == (("::1", 10911), 1)


@given(hosts, int64)
def test_an_id_is_read_back(host: tuple[str, int], physical_offset: int) -> None:
    identifier = create_message_id(*host, physical_offset)
    assert decode_message_id(identifier) == (host, physical_offset)
    assert decode_message_id(identifier.lower()) == (host, physical_offset)


@given(hosts, st.lists(int64, min_size=1, max_size=5))
def test_the_ids_of_a_batch_are_joined_by_commas(host: tuple[str, int], offsets: list[int]) -> None:
    ids = [create_message_id(*host, offset) for offset in offsets]
    assert create_message_ids(*host, offsets) == ",".join(ids)


@pytest.mark.parametrize("text", ["", "7F", "G" * 32, "7F" * 17, " 7" * 16, "٣" * 32, "7F" * 100])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_message_id(text)


@given(st.text(max_size=60))
def test_garbage_raises_nothing_else(text: str) -> None:
    try:
        decode_message_id(text)
    except RemoteProtocolError as error:
        assert error.code == 1


@pytest.mark.parametrize(
    ("host", "port", "offset"), [("localhost", 1, 1), ("::1", 1 << 31, 1), ("1.2.3.4", 1, 1 << 63)]
)
def test_what_cannot_be_an_id_is_our_mistake(host: str, port: int, offset: int) -> None:
    with pytest.raises(LocalProtocolError):
        create_message_id(host, port, offset)
    with pytest.raises(LocalProtocolError):
        create_message_ids(host, port, [1, offset])


@pytest.mark.golden
@pytest.mark.parametrize("fixture", ["basic", "ipv6"])
def test_ids_are_the_real_brokers(fixture: str) -> None:
    for message in read_manifest(fixture)["messages"]:
        host, _, port = message["storeHost"].rpartition(":")
        identifier = create_message_id(host.strip("[]"), int(port), message["commitLogOffset"])
        assert identifier == message["offsetMsgId"]
