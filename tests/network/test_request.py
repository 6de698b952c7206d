"""Tests of Request: the responses it makes, and the defaults of a row."""

import pytest

from tests.broker.harness import FakeChannel
from wakelog.network.request import (
    ADMINISTERS,
    ADMINISTRATION,
    ANYONE,
    BodyLimits,
    BodyTooLarge,
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
    row = processor(handle, "query", ANYONE, body=ADMINISTRATION)
    assert row[:5] == (handle, ViewMessageRequestHeader, "query", (ANYONE,), False)
    assert processor(handle_bare, "admin", ANYONE, body=ADMINISTRATION).header is None
    other = processor(handle, "query", ANYONE, body=ADMINISTRATION, header=TopicRequestHeader)
    assert other.header is TopicRequestHeader


def test_a_row_that_no_rule_maps_is_administration() -> None:
    assert processor(handle, "query", body=ADMINISTRATION).is_administration
    assert processor(handle, "query", ADMINISTERS, body=ADMINISTRATION).is_administration
    assert not processor(handle, "query", ANYONE, body=ADMINISTRATION).is_administration


@pytest.mark.parametrize(
    ("limits", "body", "remark"),
    [
        (BodyLimits(8), b"123456789", "the body has 9 bytes, at most 8 are allowed"),
        (BodyLimits(8, 2), b"1,,,", "the body has 3 entries, at most 2 are allowed"),
    ],
)
def test_a_body_beyond_its_limits_is_refused(limits: BodyLimits, body: bytes, remark: str) -> None:
    assert len(body) > limits.unchecked_bytes_max
    with pytest.raises(BodyTooLarge, match=remark) as raised:
        limits.check(body, 1)
    assert raised.value.code == ResponseCode.SYSTEM_ERROR
    limits.check(body, 2)


def test_a_short_body_is_not_counted() -> None:
    limits = BodyLimits(8, 2)
    assert limits.unchecked_bytes_max == 2
    limits.check(b",,", 1)
    limits.check(b"1234,,78", 1)


def test_a_row_knows_which_bodies_need_no_check() -> None:
    row = processor(handle, "query", body=BodyLimits(9, 5))
    assert (row.body, row.unchecked_bytes_max) == (BodyLimits(9, 5), 5)
