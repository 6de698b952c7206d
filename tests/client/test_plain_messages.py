"""A list's plain messages, encoded in one loop, equal those that `encode` returns one by one."""

import random
from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest

from tests.twins import twins, use_twin
from wakelog.client import plain_messages
from wakelog.client.appended import APPENDED_BELOW
from wakelog.client.errors import InvalidArgument
from wakelog.client.messages import COMPRESSED_BYTES_MIN, Message, encode, pack
from wakelog.client.plain_messages import encode_plain, plain_requests
from wakelog.client.route import QueueAt

TOPICS = {"orders": "orders", "bills": "of%bills", "%RETRY%g": "%RETRY%g"}
LARGEST = b"x" * COMPRESSED_BYTES_MIN


class Name(StrEnum):
    """A text that is no plain one."""

    ORDERS = "orders"


NOT_PLAIN: tuple[dict[str, Any], ...] = (
    {"body": "a text"},
    {"body": b""},
    {"body": LARGEST + b"x"},
    {"body": bytearray(b"body")},
    {"topic": "unknown"},
    {"topic": Name.ORDERS},
    {"topic": ["orders"]},
    {"tags": Name.ORDERS},
    {"tags": None},
    {"keys": "key"},
    {"keys": ["key"]},
    {"keys": ()},
    {"properties": {}},
    {"properties": {"a": "b"}},
    {"delay": timedelta(seconds=1)},
    {"delay_level": 1},
    {"delay_level": False},
    {"sharding_key": "key"},
    {"sharding_key": 0},
    {"queue": ("", 1)},
    {"queue": QueueAt("broker", "orders", 1, "127.0.0.1:1")},
    {"flag": 1},
    {"flag": False},
)


@pytest.mark.parametrize("appended", ["", "a\1b\2", "long" * 10_000])
@pytest.mark.parametrize("seed", range(5))
def test_all_plain_messages_are_encoded_as_one_by_one(seed: int, appended: str) -> None:
    choose, long_tags = random.Random(seed).choice, "t" * APPENDED_BELOW
    given = [
        Message(choose(sorted(TOPICS)), choose([b"b", LARGEST]), choose(["", "ä", long_tags]))
        for _ in range(50)
    ]
    unique_keys = [f"{place:032X}" for place in range(len(given))]
    expected = [
        encode(message, unique_key, TOPICS[message.topic], 0, None, appended)
        for message, unique_key in zip(given, unique_keys, strict=True)
    ]
    assert encode_plain(given, unique_keys, TOPICS, appended) == expected


@pytest.mark.parametrize("fields", NOT_PLAIN, ids=str)
def test_it_stops_before_a_message_that_needs_more(fields: dict[str, Any]) -> None:
    plain = Message("orders", LARGEST)
    other = Message(**{"topic": "orders", "body": b"body", **fields})
    encoded = encode_plain([plain, other, plain], ["0", "1", "2"], TOPICS)
    assert encoded == [encode(plain, "0", "orders")]


@pytest.mark.parametrize("name", [*twins()])
@pytest.mark.parametrize("fields", NOT_PLAIN, ids=str)
def test_a_list_with_a_message_that_needs_more_is_no_plain_requests(
    fields: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_twin(name, monkeypatch)
    plain = Message("orders", LARGEST, "red")
    other = Message(**{"topic": "orders", "body": b"body", **fields})
    for given in ([plain, other], [other, plain], []):
        assert plain_requests(given, ["0", "1"], TOPICS) == []


@pytest.mark.parametrize("name", [*twins()])
def test_a_plain_list_is_the_requests_that_pack_makes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_twin(name, monkeypatch)
    given = [Message("bills", LARGEST, tags) for tags in ("", "ä", "red", "red") * 350]
    unique_keys = [f"{place:032X}" for place in range(len(given))]
    requests = plain_requests(given, unique_keys, TOPICS)
    if name == "plain":
        assert requests == []
        return
    packed = pack(encode_plain(given, unique_keys, TOPICS), bytes_max=1 << 21, rows_max=1_000)
    assert len(packed) == 3
    for request, [expected] in zip(requests, packed, strict=True):
        assert request.body == expected.body
        assert tuple(request.messages) == expected.messages
        assert list(request.places) == list(expected.places)
    assert plain_requests([Message("%RETRY%g", b"b")] * 2, ["0", "1"], TOPICS) == []


def test_a_long_list_is_not_in_memory_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    use_twin([*twins()][-1], monkeypatch)
    monkeypatch.setattr(plain_messages, "HELD_BYTES_MAX", 250_000)
    given = [Message("bills", b"x" * 100) for _ in range(5_000)]
    unique_keys = [f"{place:032X}" for place in range(len(given))]
    requests = plain_requests(given, unique_keys, TOPICS)
    if plain_messages._library is None:
        assert requests == []
        return
    held = [len(request.batch_body) for request in requests]
    assert sum(held) <= 250_000 and [size > 0 for size in held] == [True] + [False] * 4
    packed = pack(encode_plain(given, unique_keys, TOPICS), bytes_max=1 << 21, rows_max=1_000)
    assert [request.body for request in requests] == [expected.body for [expected] in packed]


@pytest.mark.parametrize("other", [None, "orders", ("orders", b"body", "", "", None, None, 0)])
def test_it_stops_before_what_is_no_message(other: Any) -> None:
    assert encode_plain([other], ["0"], TOPICS) == []


def test_it_refuses_tags_with_a_separator() -> None:
    with pytest.raises(InvalidArgument, match="characters 1 and 2"):
        encode_plain([Message("orders", b"body", "a\2b")], ["0"], TOPICS)
