"""Requests for one message and for a batch, and messages packed into requests."""

from typing import Any

import numpy as np
import pytest

from tests.client.clusters import message
from tests.client.odd_values import (
    REFUSED_AS_NUMBER,
    REFUSED_AS_TEXT,
    SURROGATE,
    bytes_of,
    numbers_of,
    texts_of,
)
from tests.fakes.records import record
from wakelog.client.errors import InvalidArgument
from wakelog.client.messages import (
    EncodedMessage,
    Message,
    SendRequest,
    batched_bytes,
    encode,
    pack,
    stored_again,
)
from wakelog.client.route import QueueAt
from wakelog.protocol.batch import decode_batch_body
from wakelog.protocol.compression import inflate
from wakelog.protocol.properties import WAIT, decode_properties, encode_properties
from wakelog.protocol.record import decode_record


def test_each_message_of_a_batch_keeps_flag_and_properties() -> None:
    both = SendRequest((message(b"1", flag=3), message(b"2")))
    found = decode_batch_body(both.body, 2)
    assert found == [(3, b"1", b"UNIQ_KEY\x01K"), (0, b"2", b"UNIQ_KEY\x01K")]
    assert (both.is_batch, both.properties) == (True, encode_properties({WAIT: "true"}))


def test_one_message_is_no_batch() -> None:
    one = SendRequest((message(b"1"),))
    assert (one.is_batch, one.body, one.properties) == (False, b"1", "UNIQ_KEY\x01K")


def packed(
    *messages: EncodedMessage, bytes_max: int = 1 << 20, rows_max: int = 100
) -> list[list[int]]:
    """Return how many messages each request has, list by list."""
    lists = pack(messages, bytes_max=bytes_max, rows_max=rows_max)
    return [[len(request.messages) for request in requests] for requests in lists]


def test_limits_end_a_request_and_a_larger_message_goes_alone() -> None:
    small, large = message(b"x"), message(b"x" * 500)
    assert packed(*[small] * 7, rows_max=3) == [[3], [3], [1]]
    assert packed(small, small, large, small, bytes_max=100) == [[2], [1], [1]]
    assert packed() == []


def test_a_request_may_have_exactly_its_greatest_size() -> None:
    size = batched_bytes(message(b"x"))
    assert packed(*[message(b"x")] * 4, bytes_max=2 * size) == [[2], [2]]
    assert packed(*[message(b"x")] * 4, bytes_max=2 * size - 1) == [[1]] * 4


def test_messages_of_a_queue_or_sharding_key_keep_their_order() -> None:
    one, other = ("", 1), ("b", 1)
    messages = [message(b"%d" % n, queue=(one, other)[n % 2]) for n in range(6)]
    lists = pack(messages, bytes_max=1 << 20, rows_max=2)
    bodies = [
        [each.body for request in requests for each in request.messages] for requests in lists
    ]
    assert bodies == [[b"0", b"2", b"4"], [b"1", b"3", b"5"]]
    places = [[request.places for request in requests] for requests in lists]
    assert places == [[[0, 2], [4]], [[1, 3], [5]]]
    assert packed(message(sharding_key="a"), message(sharding_key="b"), message()) == [[1]] * 3
    assert packed(*[message(sharding_key="a")] * 3, rows_max=2) == [[2, 1]]


def test_delayed_messages_and_those_of_retry_topics_go_one_by_one() -> None:
    delayed = message(is_alone=True)
    assert packed(message(), message(), delayed, message()) == [[2], [1], [1]]
    assert packed(*[message(topic="%RETRY%g", is_alone=True)] * 2) == [[1], [1]]


@pytest.mark.parametrize("keys", ["", "4711", "4711 paid", "KEYS", "é", "0" * 56])
@pytest.mark.parametrize("tags", ["", "paid", "UNIQ_KEY", "é", "0" * 56])
def test_a_message_with_tags_and_keys_alone_is_that_of_the_long_way(tags: str, keys: str) -> None:
    key = "7F0000010001ABCDEF0123456789AB01"
    short = encode(Message("T", b"x", tags, keys), key)
    long = encode(Message("T", b"x", tags, keys, flag=3), key)
    assert (short.flag, long.flag) == (0, 3)
    assert short == long._replace(flag=0)


@pytest.mark.parametrize("keys", ["a\x01b", "a\x02b", SURROGATE, "k" * 40_000], ids=len)
def test_keys_that_cannot_be_stored_are_refused(keys: str) -> None:
    with pytest.raises(InvalidArgument, match=r"keys|properties"):
        encode(Message("T", b"x", keys=keys), KEY)


class AnyCase(str):
    """A text that equals another of other letters."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __hash__(self) -> int:
        return hash(self.lower())


def test_names_that_count_as_equal_are_each_their_own_text() -> None:
    for name in (AnyCase("Name"), AnyCase("NAME"), "name", AnyCase("name")):
        found = encode(Message("T", b"x", properties={name: "v"}), KEY).properties
        assert str.__str__(name) in found
    with pytest.raises(InvalidArgument, match="itself sets property UNIQ_KEY"):
        encode(Message("T", b"x", properties={AnyCase("UNIQ_KEY"): "v"}), KEY)


def test_tags_that_break_the_properties_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        encode(Message("T", b"x", "a\x01b"), "0" * 32)


KEY = "7F0000010001ABCDEF0123456789AB01"


@pytest.mark.parametrize("more", [{}, {"keys": "k"}, {"flag": 3}], ids=str)
@pytest.mark.parametrize("tags", texts_of("paid"), ids=lambda given: type(given).__name__)
def test_tags_of_any_class_are_their_text_also_for_later_messages(
    tags: Any, more: dict[str, Any]
) -> None:
    topic = f"T{type(tags).__name__}"
    first = encode(Message(topic, b"x", tags, **more), KEY)
    later = encode(Message(topic, b"x", "paid", **more), KEY)
    assert first == later and decode_properties(later.properties)["TAGS"] == "paid"


PLAIN: dict[str, Any] = {
    "topic": "T", "body": b"x", "tags": "a", "keys": "k", "properties": {"p": "v"},
    "delay_level": 2, "sharding_key": "s", "queue": ("b", 1), "flag": 3,
}  # fmt: skip


def odd_for(plain: Any) -> list[Any]:
    """Return what counts as a value of a field, and is not plain."""
    if isinstance(plain, str):
        return texts_of(plain)
    if isinstance(plain, bytes):
        return bytes_of(plain)
    if isinstance(plain, int):
        return numbers_of(plain)
    if isinstance(plain, dict):
        return [{odd: odd_text} for odd, odd_text in zip(texts_of("p"), texts_of("v"), strict=True)]
    return [tuple(pair) for pair in zip(texts_of("b"), numbers_of(1), strict=True)]


def encoded(fields: dict[str, Any]) -> Any:
    return encode(Message(**fields), KEY, delay_level=fields["delay_level"])


@pytest.mark.parametrize("name", [name for name in Message._fields if name != "delay"])
def test_every_field_is_made_plain_or_refused_by_its_name(name: str) -> None:
    for odd in odd_for(PLAIN[name]):
        found = encoded(PLAIN | {name: odd})
        assert found == encoded(PLAIN)
        values = [*found, *(found.queue or ())]
        assert {type(each) for each in values} <= {str, int, bytes, bool, tuple}
    refused = REFUSED_AS_NUMBER if isinstance(PLAIN[name], int) else REFUSED_AS_TEXT
    for odd in [*refused, {"p": SURROGATE}, {SURROGATE: "v"}, {"p": 1}, ("b", True), ("b", -1)]:
        if name == "body" and isinstance(odd, bytes | bytearray):
            continue  # is one
        if (name, odd) in [("properties", {}), ("keys", ["paid"]), ("keys", {})] or (
            name == "keys" and isinstance(odd, dict) and odd.keys() == {"p"}
        ):
            continue  # several keys
        with pytest.raises(InvalidArgument, match=r"^(a name in propert|property p|" + name + ")"):
            encoded(PLAIN | {name: odd})


def test_keys_may_be_an_array() -> None:
    assert encoded(PLAIN | {"keys": np.array(["k", "l"])}) == encoded(PLAIN | {"keys": "k l"})


def test_a_queue_of_another_topic_is_refused() -> None:
    assert encode(Message("T", b"x", queue=QueueAt("b", "T", 1, "h:1")), KEY).queue == ("b", 1)
    with pytest.raises(InvalidArgument, match="queue is one of topic U, and"):
        encode(Message("T", b"x", queue=QueueAt("b", "U", 1, "h:1")), KEY)


def test_a_compressed_message_that_is_sent_again_stays_readable() -> None:
    sent = encode(Message("T", b"a" * 100_000), "K")
    assert sent.sys_flag
    stored = decode_record(record(0, body=sent.body, sys_flag=sent.sys_flag))
    again = stored_again(stored, "T", "")
    assert inflate(again.body, again.sys_flag) == b"a" * 100_000
