"""Tests of commands and of how an answer is made."""

import pytest

from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import (
    ONEWAY_FLAG,
    RESPONSE_FLAG,
    SERIALIZE_JSON,
    SERIALIZE_ROCKETMQ,
    RemotingCommand,
    answer,
    make_request,
)


def test_an_answer_repeats_the_opaque_and_is_a_response() -> None:
    request = RemotingCommand(RequestCode.PULL_MESSAGE, opaque=-7, flag=ONEWAY_FLAG)
    response = answer(request, ResponseCode.PULL_NOT_FOUND, "NO_NEW_MSG", {"minOffset": "0"}, b"x")
    assert response.opaque == -7
    assert response.is_response and not response.is_oneway
    assert (response.code, response.remark) == (19, "NO_NEW_MSG")
    assert response.ext_fields == {"minOffset": "0"}
    assert response.body == b"x"


def test_an_answer_has_the_servers_serialise_type_not_the_requests() -> None:
    request = RemotingCommand(RequestCode.HEART_BEAT, serialize_type=SERIALIZE_ROCKETMQ)
    assert answer(request, ResponseCode.SUCCESS).serialize_type == SERIALIZE_JSON


def test_an_answer_says_what_a_4_9_3_broker_says_of_itself() -> None:
    response = answer(RemotingCommand(RequestCode.HEART_BEAT), ResponseCode.SUCCESS)
    assert (response.language, response.version) == (0, 399)


def test_commands_do_not_share_their_default_fields() -> None:
    first, second = RemotingCommand(0), RemotingCommand(0)
    first.ext_fields["a"] = "b"
    assert second.ext_fields == {}


@pytest.mark.parametrize(
    ("flag", "response", "oneway"),
    [
        (0, False, False),
        (RESPONSE_FLAG, True, False),
        (ONEWAY_FLAG, False, True),
        (RESPONSE_FLAG | ONEWAY_FLAG, True, True),
        (4, False, False),
    ],
)
def test_the_flag_has_two_bits(flag: int, response: bool, oneway: bool) -> None:
    command = RemotingCommand(0, flag=flag)
    assert (command.is_response, command.is_oneway) == (response, oneway)


def test_a_oneway_request_says_so() -> None:
    code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    request = make_request(code, {"consumerGroup": "g"}, opaque=3, oneway=True)
    assert request == RemotingCommand(40, 3, ONEWAY_FLAG, {"consumerGroup": "g"})
    assert not make_request(code, opaque=4).is_oneway
