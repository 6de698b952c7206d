"""Tests of Request: the responses it makes, and the defaults of a row."""

import pytest

from tests.broker.harness import FakeChannel
from wakelog.network.request import (
    ADMINISTERS,
    ADMINISTRATION,
    ANYONE,
    BodyTooLarge,
    Price,
    Processor,
    Request,
    processor,
)
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import make_request
from wakelog.protocol.headers.admin import TopicRequestHeader
from wakelog.protocol.headers.pull import ViewMessageRequestHeader


def test_responses_repeat_the_opaque_of_the_request() -> None:
    request = Request(make_request(30, opaque=7), None, FakeChannel(1), 99)
    success = request.success({"offset": "3"}, b"body")
    assert (success.code, success.opaque, success.is_response) == (ResponseCode.SUCCESS, 7, True)
    assert (success.ext_fields, success.body) == ({"offset": "3"}, b"body")
    refusal = request.refusal(ResponseCode.TOPIC_NOT_EXIST, "no topic")
    assert (refusal.code, refusal.opaque, refusal.remark) == (17, 7, "no topic")


def handle(state: None, request: Request[ViewMessageRequestHeader]) -> None:
    """Do nothing."""


def handle_bare(state: None, request: Request[None]) -> None:
    """Do nothing."""


def test_a_row_has_the_header_of_its_handler() -> None:
    row = processor(handle, "query", ANYONE)
    assert row[:5] == (handle, ViewMessageRequestHeader, "query", (ANYONE,), False)
    assert processor(handle_bare, "admin", ANYONE).header is None
    other = processor(handle, "query", ANYONE, header=TopicRequestHeader)
    assert other.header is TopicRequestHeader


def test_a_row_that_no_rule_maps_is_administration() -> None:
    assert processor(handle, "query").is_administration
    assert Processor(handle).is_administration
    assert processor(handle, "query", ADMINISTERS).is_administration
    assert not processor(handle, "query", ANYONE).is_administration


@pytest.mark.parametrize(
    ("price", "body", "remark"),
    [
        (Price(8), b"123456789", "the body has 9 bytes, at most 8 are allowed"),
        (Price(8, 2), b"1,,,", "the body has 3 entries, at most 2 are allowed"),
    ],
)
def test_a_body_beyond_its_price_is_refused(price: Price, body: bytes, remark: str) -> None:
    assert len(body) > price.unpriced_bytes_max
    with pytest.raises(BodyTooLarge, match=remark) as raised:
        price.check(body, 1)
    assert raised.value.code == ResponseCode.SYSTEM_ERROR
    price.check(body, 2)


def test_a_short_body_is_not_counted() -> None:
    price = Price(8, 2)
    assert price.unpriced_bytes_max == 2
    price.check(b",,", 1)
    price.check(b"1234,,78", 1)


def test_a_row_has_the_price_of_administration() -> None:
    assert processor(handle, "query").price == ADMINISTRATION
    row = processor(handle, "query").priced(Price(5))
    assert (row.price, row.unpriced_bytes_max) == (Price(5), 5)
