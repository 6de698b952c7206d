"""What a message of kombu is, and what is none."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.celery.payload import decode, due_ms_of, encode, key_of, tags_of
from wakelog.tasks.reader import NoTask

GOOD: dict[str, Any] = {
    "body": "e30=",
    "properties": {"body_encoding": "base64", "delivery_info": {"routing_key": "celery"}},
    "headers": {"id": "4711", "task": "app.add", "eta": None},
}


def test_a_payload_comes_back() -> None:
    assert decode(encode(GOOD)) == GOOD


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"4711 paid", "no JSON of kombu"),
        (b"\xff\xfe", "no JSON of kombu"),
        (b"[" * 100_000, "no JSON of kombu"),
        (b"[1]", "the body is no object"),
        (b'{"__type__": "datetime", "__value__": "soon"}', "no JSON of kombu"),
        (b"{}", "properties is no object"),
        (b'{"properties": {}}', "properties.delivery_info is no object"),
        (b'{"properties": {"delivery_info": {"routing_key": 1}}}', "routing_key is no text"),
        (b'{"properties": {"delivery_info": {}}, "headers": 3}', "headers is no object"),
        (b'{"properties": {"delivery_info": {}}, "body": 3}', "body is no text"),
        (b'{"properties": {"delivery_info": {}}, "put_in": 3}', "put_in is no list"),
        (
            b'{"properties": {"delivery_info": {}, "body_encoding": "rot13"}}',
            "the encoding 'rot13' is unknown",
        ),
        (
            b'{"properties": {"delivery_info": {}, "body_encoding": "base64"}, "body": "*"}',
            "body is no base64",
        ),
    ],
)
def test_what_another_producer_sent_is_refused_with_the_reason(body: bytes, reason: str) -> None:
    with pytest.raises(NoTask, match=reason):
        decode(body)


@pytest.mark.drawn
@given(st.binary(max_size=200))
def test_no_bytes_are_more_than_no_task(body: bytes) -> None:
    with pytest.raises(NoTask):
        decode(body)


@pytest.mark.parametrize(
    ("eta", "due_ms"),
    [
        (datetime(2030, 1, 1, tzinfo=UTC).isoformat(), 1_893_456_000_000),
        ("2030-01-01T01:00:00+01:00", 1_893_456_000_000),
        ("2030-01-01T00:00:00", 0),  # the worker knows which time zone is meant
        ("soon", 0),
        (None, 0),
        (17, 0),
    ],
)
def test_an_eta_is_a_moment(eta: object, due_ms: int) -> None:
    assert due_ms_of({"headers": {"eta": eta}}) == due_ms


def test_tools_find_a_task_by_its_id_and_name() -> None:
    assert key_of(GOOD) == "4711"
    assert tags_of(GOOD) == "app.add"
    assert key_of({"headers": {"id": "a b"}}) == key_of({}) == ""
    assert tags_of({"headers": {"task": "a|b"}}) == tags_of({"headers": {"task": "\n"}}) == ""
