"""Tests of Request: the responses it makes, and the defaults of a row."""

from tests.broker.harness import FakeChannel
from wakelog.network.request import Processor, Request
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import make_request


def test_responses_repeat_the_opaque_of_the_request() -> None:
    request = Request(make_request(30, opaque=7), None, FakeChannel(1), 99)
    success = request.success({"offset": "3"}, b"body")
    assert (success.code, success.opaque, success.is_response) == (ResponseCode.SUCCESS, 7, True)
    assert (success.ext_fields, success.body) == ({"offset": "3"}, b"body")
    refusal = request.refusal(ResponseCode.TOPIC_NOT_EXIST, "no topic")
    assert (refusal.code, refusal.opaque, refusal.remark) == (17, 7, "no topic")


def test_a_row_without_more_needs_a_valid_signature_only() -> None:
    row = Processor(lambda: None)
    assert (row.header, row.access, row.reads_queues) == (None, (), False)
