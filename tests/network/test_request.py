"""Tests of Request: the responses it makes, and the defaults of a row."""

import pytest

from tests.broker.harness import FakeChannel
from wakelog.network.request import ADMINISTRATION, BodyTooLarge, Price, Request, processor
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


def test_a_row_has_the_header_of_its_handler_and_needs_a_valid_signature_only() -> None:
    assert processor(handle)[:5] == (handle, ViewMessageRequestHeader, "default", (), False)
    assert processor(handle_bare, "admin").header is None
    assert processor(handle, header=TopicRequestHeader).header is TopicRequestHeader


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
    assert processor(handle).price == ADMINISTRATION
    row = processor(handle).priced(Price(5))
    assert (row.price, row.unpriced_bytes_max) == (Price(5), 5)
