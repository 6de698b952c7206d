"""Tests of Request: the responses it makes, and the defaults of a row."""

from tests.broker.harness import FakeChannel
from wakelog.network.request import Request, processor
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
    assert processor(handle) == (handle, ViewMessageRequestHeader, "default", (), False)
    assert processor(handle_bare, "admin").header is None
    assert processor(handle, header=TopicRequestHeader).header is TopicRequestHeader
