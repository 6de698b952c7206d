"""What the core hands to its shell."""

from wakelog.broker.decision import AwaitFlush, Lane
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import answer, make_request

FIELDS = {"msgId": "0A", "queueId": "0", "queueOffset": "7", "MSG_REGION": "r", "TRACE_ON": "true"}


def waiting() -> AwaitFlush:
    request = make_request(310, opaque=5)
    return AwaitFlush(answer(request, 0, None, dict(FIELDS)), 100, 5_000)


def test_a_flush_that_is_late_is_a_success_with_the_full_header() -> None:
    """Fact 23: code 10 carries msgId and offset."""
    response = waiting().timed_out()
    assert response.code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert response.ext_fields == FIELDS
    assert response.opaque == 5


def test_a_flush_that_failed_is_no_success() -> None:
    response = waiting().flush_failed("fdatasync: EIO")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == "fdatasync: EIO"
    assert response.ext_fields == {}


def test_lanes_are_named_as_upstreams_executors() -> None:
    """Section 1.5."""
    assert {lane.value for lane in Lane} == {
        "send",
        "pull",
        "reply",
        "query",
        "clientManage",
        "heartbeat",
        "endTransaction",
        "consumerManage",
        "admin",
    }
