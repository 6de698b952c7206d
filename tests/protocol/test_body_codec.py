"""Tests of reading and writing bodies, over ones made for the purpose."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.protocol.bodies import KVTable
from wakelog.protocol.body_codec import (
    MessageQueue,
    decode_body,
    decode_file,
    decode_response,
    encode_body,
)
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.ext_fields import Int32
from wakelog.protocol.fastjson import ENTRIES_MAX


class Inner(msgspec.Struct, rename="camel"):
    max_offset: Int32 = 0


class Body(msgspec.Struct, rename="camel"):
    group_name: str = "none"
    codes: set[Int32] = set()
    by_number: dict[int, str] = {}
    by_queue: dict[MessageQueue, Inner] = {}
    inner: Inner = msgspec.field(default_factory=Inner)
    remark: str | None = None


FULL = Body(
    "g",
    {1, -2},
    {0: "a", 1: "b"},
    {MessageQueue("T", "b", 0): Inner(9), MessageQueue("T", "b", 1): Inner(8)},
    Inner(7),
    "r",
)


def test_a_body_comes_back() -> None:
    assert decode_body(Body, encode_body(FULL)) == FULL


def test_keys_that_are_no_strings_stand_bare() -> None:
    assert encode_body(
        Body(by_number={0: "a"}, by_queue={MessageQueue("T", "b", 3): Inner(1)})
    ) == (
        b'{"byNumber":{0:"a"},'
        b'"byQueue":{{"brokerName":"b","queueId":3,"topic":"T"}:{"maxOffset":1}},'
        b'"codes":[],"groupName":"none","inner":{"maxOffset":0}}'
    )


@pytest.mark.parametrize(
    "data",
    [
        b'{"byNumber":{"0":"a"}}',
        b'{"byNumber":{0:"a"},"unknown":{{"x":1}:2}}',
        b'{"byNumber":{0:"a",1:null},"groupName":null,"inner":null,"codes":null}',
    ],
)
def test_dialects_mean_the_same(data: bytes) -> None:
    assert decode_body(Body, data) == Body(by_number={0: "a"})


def test_numbers_may_come_as_strings() -> None:
    data = b'{"codes":["-5","7",7],"inner":{"maxOffset":"12"}}'
    assert decode_body(Body, data) == Body(codes={-5, 7}, inner=Inner(12))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"groupName":[]}',
        b'{"codes":["x"]}',
        b'{"codes":[2147483648]}',
        b'{"byQueue":{"T":{}}}',
        b'{"byQueue":{{"queueId":"x"}:{}}}',
        b'{"byQueue":{{"topic":1}:{}}}',
        b'{"inner":' + b'{"inner":' * 10_000,
    ],
)
def test_what_is_no_such_body_is_the_peers_fault(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as refused:
        decode_body(Body, data)
    assert refused.value.code == 1
    assert refused.value.remark.startswith("com.alibaba.fastjson.JSONException: ")


@given(st.binary() | st.text("{}[]:,\"0byNumberQtopic'").map(str.encode))
def test_garbage_raises_nothing_else(data: bytes) -> None:
    try:
        body = decode_body(Body, data)
    except RemoteProtocolError:
        return
    assert isinstance(body, Body)


def test_queues_are_ordered_as_in_java() -> None:
    queues = [MessageQueue("B", "a", 0), MessageQueue("A", "b", 2), MessageQueue("A", "b", 1)]
    assert sorted(queues) == [queues[2], queues[1], queues[0]]


def test_a_file_in_the_dialect_may_be_longer_than_a_body() -> None:
    text = "{table:{" + ",".join(f"k{number}:'v'" for number in range(ENTRIES_MAX)) + "}}"
    assert len(decode_file(KVTable, text).table) == ENTRIES_MAX
    with pytest.raises(RemoteProtocolError, match=f"more than {ENTRIES_MAX} entries"):
        decode_body(KVTable, text.encode())


def test_a_response_may_list_the_queues_of_many_topics() -> None:
    queues = {MessageQueue("T", f"b-{n}", n): Inner(n) for n in range(4 * ENTRIES_MAX)}
    data = encode_body(Body(by_queue=queues))
    assert decode_response(Body, data).by_queue == queues
    with pytest.raises(RemoteProtocolError, match="malformed JSON of more than"):
        decode_body(Body, data)


def test_a_broken_file_is_reported_in_plain_words() -> None:
    with pytest.raises(ValueError, match=r"^malformed JSON at character 8: no colon"):
        decode_file(KVTable, "{broken\n")
