"""A line of the audit log: what it names, and what it never has."""

import pytest

from tests.broker.harness import FakeChannel
from wakelog.broker.processors.table import PROCESSORS
from wakelog.nameserver.processors import PROCESSORS as NAME_SERVER_PROCESSORS
from wakelog.network.audit_line import NAMING, REFUSED_BODY_BYTES_MAX, audit_line
from wakelog.network.request import ADMINISTERS, ADMINISTRATION, Request, processor
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer, make_request
from wakelog.protocol.ext_fields import Header
from wakelog.protocol.headers.accounts import (
    CreateAccessConfigRequestHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)
from wakelog.protocol.headers.clients import (
    DeleteSubscriptionGroupRequestHeader,
    ResetOffsetRequestHeader,
)
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
        "admin": False,
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
    assert line.is_failed and line.values["keys"] == "brokerPermission, tls.server.keyPassword"
    assert "hidden" not in str(line)


@pytest.mark.parametrize("body", [b"a=\\uxyz", b"\xff\xfe", b""])
def test_a_body_that_cannot_be_read_names_nothing(body: bytes) -> None:
    command = make_request(RequestCode.UPDATE_BROKER_CONFIG, {}, body, opaque=1)
    line = audit_line(command, None, CHANNEL, ROW, answer(command, 1, "why"))
    assert not line.values.get("keys")


def test_of_a_refusal_only_a_small_body_is_read() -> None:
    body = b"aKey=1\n" + b"#" * REFUSED_BODY_BYTES_MAX
    command = make_request(RequestCode.UPDATE_BROKER_CONFIG, {}, body, opaque=1)
    refused = audit_line(command, None, CHANNEL, ROW, answer(command, 1, "why"))
    done = audit_line(command, None, CHANNEL, ROW, answer(command, ResponseCode.SUCCESS, None))
    assert "keys" not in refused.values and done.values["keys"] == "aKey"


@pytest.mark.parametrize("fields", [{}, {"topic": "orders"}])
def test_what_was_refused_before_it_was_read_is_named_all_the_same(fields: dict[str, str]) -> None:
    row = PROCESSORS[RequestCode.DELETE_TOPIC_IN_BROKER]
    command = make_request(RequestCode.DELETE_TOPIC_IN_BROKER, fields, opaque=1)
    line = audit_line(command, None, CHANNEL, row, answer(command, 1, "not allowed"))
    assert line.values.get("topic") == fields.get("topic")


@pytest.mark.parametrize(
    ("header", "values"),
    [
        (
            DeleteSubscriptionGroupRequestHeader(group_name="g", remove_offset=True),
            {"group": "g", "remove_offset": True},
        ),
        (
            ResetOffsetRequestHeader(topic="T", group="g", timestamp=7, is_force=True),
            {"topic": "T", "group": "g", "to_timestamp": 7, "is_force": True},
        ),
        (
            CreateAccessConfigRequestHeader(
                access_key="new", secret_key="hidden", admin=True, topic_perms="T=PUB"
            ),
            {"access_key": "new", "admin": True, "topic_perms": "T=PUB"},
        ),
        (
            UpdateGlobalWhiteAddrsConfigRequestHeader(global_white_addrs="10.0.0.*"),
            {"global_white_addrs": "10.0.0.*"},
        ),
    ],
    ids=["group", "time", "account", "addresses"],
)
def test_a_line_says_what_was_asked_for(header: Header, values: dict[str, object]) -> None:
    command = make_request(RequestCode.SEND_MESSAGE, {}, opaque=1)
    row = processor(handle, "admin", ADMINISTERS, body=ADMINISTRATION)
    line = audit_line(command, header, CHANNEL, row, answer(command, 0, None))
    assert line.values == {
        "account": "", "address": "10.0.0.9:5", "code": 10, "result": "SUCCESS", **values
    }  # fmt: skip
    assert line.values.keys().isdisjoint(LINE_KEYS)


LINE_KEYS = {"timestamp", "level", "actor", "broker", "epoch", "logger", "event"}
"""Keys of every line of every log."""


def test_no_header_overwrites_a_key_of_the_line() -> None:
    shown = {called or name for name, called in NAMING.items()}
    assert shown.isdisjoint(LINE_KEYS | {"account", "address", "code", "result", "remark"})


def test_every_attribute_of_a_changing_request_is_shown_or_left_out_on_purpose() -> None:
    rows = [*PROCESSORS.values(), *NAME_SERVER_PROCESSORS.values()]
    headers = [row.header for row in rows if row.is_audited and row.header is not None]
    names = {name for header in headers for name in header.__struct_fields__}
    assert names - NAMING.keys() == LEFT_OUT


LEFT_OUT = {"secret_key", "value", "topic_filter_type", "default_topic", "topic_sys_flag", "order"}
"""Secrets, values of settings, and what tells nobody what a topic was made for."""


def test_a_request_without_a_response_is_named_all_the_same() -> None:
    command = make_request(7_777, {}, b"\xff", opaque=1)
    line = audit_line(command, None, CHANNEL, ROW, None)
    assert (line.event, line.values["result"]) == ("7777", "none")
