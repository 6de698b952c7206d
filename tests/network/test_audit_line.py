"""A line of the audit log: what it names, and what it never has."""

import pytest

from tests.broker.harness import FakeChannel
from wakelog.network.audit_line import audit_line
from wakelog.network.request import ADMINISTERS, ADMINISTRATION, Request, processor
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer, make_request
from wakelog.protocol.headers.accounts import CreateAccessConfigRequestHeader
from wakelog.storage.settings_text import settings_named_in

CHANNEL = FakeChannel(1, "10.0.0.9", 5)
BODY = b"tls.server.keyPassword=hidden\nbrokerPermission=4\n"


def handle(_state: None, request: Request[None]) -> RemotingCommand:
    return request.success()


ROW = processor(handle, "admin", ADMINISTERS, body=ADMINISTRATION, names_in=settings_named_in)


def test_an_account_is_named_without_its_secret() -> None:
    fields = {"AccessKey": "admin", "accessKey": "new", "secretKey": "hidden"}
    command = make_request(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, fields, opaque=1)
    header = CreateAccessConfigRequestHeader(access_key="new", secret_key="hidden")
    line = audit_line(command, header, CHANNEL, ROW, answer(command, ResponseCode.SUCCESS, None))
    assert line.event == "UPDATE_AND_CREATE_ACL_CONFIG" and not line.is_failed
    assert line.values == {
        "account": "admin",
        "address": "10.0.0.9:5",
        "code": 50,
        "access_key": "new",
        "keys": "",
        "result": "SUCCESS",
    }


def test_settings_are_named_without_their_values() -> None:
    command = make_request(RequestCode.UPDATE_BROKER_CONFIG, {}, BODY, opaque=1)
    line = audit_line(command, None, CHANNEL, ROW, answer(command, ResponseCode.SUCCESS, None))
    assert line.values["keys"] == "brokerPermission, tls.server.keyPassword"
    assert "hidden" not in str(line)


@pytest.mark.parametrize(
    ("code", "result"),
    [(ResponseCode.NO_PERMISSION, "NO_PERMISSION"), (9_999, "9999")],
)
def test_a_failure_has_its_remark(code: int, result: str) -> None:
    command = make_request(RequestCode.UPDATE_BROKER_CONFIG, {}, BODY, opaque=1)
    line = audit_line(command, None, CHANNEL, ROW, answer(command, code, "why"))
    assert (line.values["result"], line.values["remark"]) == (result, "why")
    assert line.is_failed and "keys" not in line.values


def test_a_request_without_a_response_is_named_all_the_same() -> None:
    command = make_request(7_777, {}, b"\xff", opaque=1)
    line = audit_line(command, None, CHANNEL, ROW, None)
    assert (line.event, line.values["result"]) == ("7777", "none")
