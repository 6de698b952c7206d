"""The request of a send, and what its response says."""

from typing import Any

import pytest

from tests.client.clusters import MESSAGE_ID, FakeCluster, message
from wakelog.client.errors import ClientError, NotAcknowledged
from wakelog.client.messages import SendRequest
from wakelog.client.options import ClientOptions
from wakelog.client.route import QueueAt, Routes
from wakelog.client.send_command import (
    DISK_FULL,
    Stored,
    read_response,
    send_command,
    unreachable,
)
from wakelog.network.errors import ConnectFailed
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.ext_fields import read_header
from wakelog.protocol.headers.send import SendMessageRequestHeaderV2

QUEUE = QueueAt("a", "T", 3, "a:10911")
ROUTES = Routes(FakeCluster(), ClientOptions())
PLACE = {"msgId": MESSAGE_ID, "queueId": "3", "queueOffset": "41"}


def response(code: int = 0, remark: str | None = None, **fields: Any) -> RemotingCommand:
    request = RemotingCommand(RequestCode.SEND_MESSAGE_V2)
    return answer(request, code, remark, ext_fields={**(PLACE if not code else {}), **fields})


def test_the_header_names_queue_group_and_properties() -> None:
    sent = message(b"body")
    command = send_command(SendRequest((sent,)), QUEUE, "g")
    header = read_header(SendMessageRequestHeaderV2, command.ext_fields)
    found = header.topic, header.queue_id, header.producer_group, header.properties, header.batch
    assert found == ("T", 3, "g", sent.properties, False)
    assert (command.code, command.body) == (RequestCode.SEND_MESSAGE_V2, b"body")
    batch = send_command(SendRequest((sent, message(b"2"))), QUEUE, "g")
    assert read_header(SendMessageRequestHeaderV2, batch.ext_fields).batch
    assert batch.code == RequestCode.SEND_BATCH_MESSAGE


def test_what_one_message_has_is_not_kept_for_the_next_one() -> None:
    flags = []
    for sent in (message(flag=7, sys_flag=1), message(), message(is_reply=True)):
        command = send_command(SendRequest((sent,)), QUEUE, "g")
        header = read_header(SendMessageRequestHeaderV2, command.ext_fields)
        flags.append((header.flag, header.sys_flag, RequestCode(command.code).name))
    assert flags == [
        (7, 1, "SEND_MESSAGE_V2"),
        (0, 0, "SEND_MESSAGE_V2"),
        (0, 0, "SEND_REPLY_MESSAGE_V2"),
    ]


@pytest.mark.parametrize(
    ("fields", "stored"),
    [
        ({}, Stored(QUEUE, 41, MESSAGE_ID)),
        ({"queueId": "0"}, Stored(QUEUE._replace(queue_id=0), 41, MESSAGE_ID)),
        ({"MSG_REGION": "r"}, Stored(QUEUE, 41, MESSAGE_ID, region="r")),
        ({"MSG_REGION": "r", "TRACE_ON": "false"}, Stored(QUEUE, 41, MESSAGE_ID)),
        ({"transactionId": "t"}, Stored(QUEUE, 41, MESSAGE_ID, "t")),
    ],
)
def test_the_response_says_where_the_message_is(fields: dict[str, Any], stored: Stored) -> None:
    assert read_response(QUEUE, response(**fields), ROUTES) == stored


def test_a_response_without_a_place_ends_the_send() -> None:
    with pytest.raises(NotAcknowledged, match="without its place"):
        read_response(QUEUE, response(queueOffset="x"), ROUTES)


@pytest.mark.parametrize(
    ("code", "remark", "expected"),
    [
        (ResponseCode.SYSTEM_BUSY, "busy", {"remark": "busy", "code": ResponseCode.SYSTEM_BUSY}),
        (ResponseCode.SERVICE_NOT_AVAILABLE, f"no: {DISK_FULL}", {"passes": False}),
        (ResponseCode.MESSAGE_ILLEGAL, "long", {"broker": "a"}),
    ],
)
def test_a_refusal_has_code_remark_and_broker(
    code: int, remark: str, expected: dict[str, Any]
) -> None:
    with pytest.raises(ClientError, match=f"a at a:10911 answered.*{remark}") as failure:
        read_response(QUEUE, response(code, remark), ROUTES)
    assert {name: getattr(failure.value, name) for name in expected} == expected
    assert ("maxMessageSize" in failure.value.remedy) == (code == ResponseCode.MESSAGE_ILLEGAL)


def test_a_request_without_an_answer_names_broker_and_address() -> None:
    failed = unreachable(QUEUE, ConnectFailed("a:10911", "Connection refused"))
    assert (failed.broker, failed.passes) == ("a", True)
    assert "a at a:10911" in failed.cause and "Connection refused" in failed.cause
