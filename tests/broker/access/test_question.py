"""May an account do something? The answers, and the line that each has gone by."""

import msgspec
import pytest
import yaml

from tests.broker.access.requests import FILE, HOST, HOST_OF_LOW, WHITE_HOST
from wakelog.broker.access.accounts import AccessFileRefused, AccessTable
from wakelog.broker.access.question import Answer, Question, ask, table_of
from wakelog.broker.processors.table import PROCESSORS
from wakelog.protocol.bodies import PlainAccessConfig
from wakelog.protocol.codes import RequestCode as Code

LISTED_ADMIN = PlainAccessConfig("listed-admin", None, "", True, "DENY", "SUB", ["T=PUB"])


def table() -> AccessTable:
    """Return the accounts of the tests of the check, as an answer of code 54 has them."""
    file = yaml.safe_load(FILE)
    names = {field.encode_name: field.name for field in msgspec.structs.fields(PlainAccessConfig)}
    accounts = [
        PlainAccessConfig(**{names[x]: y for x, y in each.items() if x != "secretKey"})
        for each in file["accounts"]
    ]
    return table_of([*accounts, LISTED_ADMIN], file["globalWhiteRemoteAddresses"])


def answer(account: str, code: Code, topic: str = "", group: str = "", host: str = HOST) -> Answer:
    rules = PROCESSORS[int(code)].access
    return ask(table(), Question(account, int(code), rules, topic, group, host))


SEND, PULL, UPDATE_TOPIC = Code.SEND_MESSAGE_V2, Code.PULL_MESSAGE, Code.UPDATE_AND_CREATE_TOPIC


@pytest.mark.parametrize(
    ("account", "code", "topic", "group", "lines"),
    [
        ("low-key", SEND, "written", "", ["topicPerms: written=PUB"]),
        ("low-key", SEND, "both", "", ["topicPerms: both=PUB|SUB"]),
        (
            "low-key",
            PULL,
            "read",
            "g",
            ["topicPerms: read=SUB", "defaultGroupPerm: SUB"],
        ),
        ("low-key", Code.GET_BROKER_CONFIG, "", "", ["any signed request"]),
        ("admin-key", SEND, "T", "", ["admin: true"]),
        ("admin-key", UPDATE_TOPIC, "", "", ["admin: true"]),
        ("admin-key", Code.UPDATE_AND_CREATE_ACL_CONFIG, "", "", ["admin: true"]),
        ("listed-admin", SEND, "T", "", ["topicPerms: T=PUB"]),
        ("listed-admin", UPDATE_TOPIC, "", "", ["admin: true"]),
    ],
)
def test_what_is_allowed_names_its_line(
    account: str, code: Code, topic: str, group: str, lines: list[str]
) -> None:
    assert answer(account, code, topic, group) == Answer(True, lines)


@pytest.mark.parametrize(
    ("account", "code", "topic", "group", "line", "remark"),
    [
        ("low-key", SEND, "read", "", "topicPerms: read=SUB", "No default permission for topic"),
        ("low-key", SEND, "denied", "", "topicPerms: denied=DENY", "No default permission for t"),
        (
            "low-key",
            SEND,
            "other",
            "",
            "defaultTopicPerm: DENY, as nothing else is given",
            "No default permission for topic:other",
        ),
        ("low-key", PULL, "read", "closed", "groupPerms: closed=DENY", "No default permission for"),
        ("low-key", UPDATE_TOPIC, "", "", "admin: false", "Need admin permission for request c"),
        ("listed-admin", SEND, "other", "", "defaultTopicPerm: DENY", "No default permission for"),
        ("unknown-key", SEND, "T", "", "no account has this accessKey", "No acl config for unkn"),
        ("", SEND, "T", "", "no account is named", "No accessKey is configured"),
    ],
)
def test_what_is_refused_names_its_line_and_the_brokers_words(
    account: str, code: Code, topic: str, group: str, line: str, remark: str
) -> None:
    found = answer(account, code, topic, group)
    assert (found.is_allowed, list(found.lines)) == (False, [line])
    assert found.remark.startswith(remark)


def test_of_several_needs_those_that_are_lacking_are_named() -> None:
    found = answer("low-key", PULL, "written", "closed")
    assert sorted(found.lines) == ["groupPerms: closed=DENY", "topicPerms: written=PUB"]


def test_an_address_may_be_enough() -> None:
    white = answer("", SEND, "T", host=WHITE_HOST)
    assert white == Answer(True, ["globalWhiteRemoteAddresses: 10.1.0.*"])
    own = answer("low-key", UPDATE_TOPIC, host=HOST_OF_LOW)
    assert own == Answer(True, ["whiteRemoteAddress: 10.2.0.1"])


def test_no_address_is_enough_to_change_accounts() -> None:
    for host in (WHITE_HOST, HOST_OF_LOW):
        found = answer("low-key", Code.UPDATE_AND_CREATE_ACL_CONFIG, host=host)
        assert (found.is_allowed, list(found.lines)) == (False, ["admin: false"])
        assert answer("admin-key", Code.DELETE_ACL_CONFIG, host=host).is_allowed


def test_no_address_of_a_list_is_meant_where_none_is_given() -> None:
    assert not answer("low-key", SEND, "other", host="").is_allowed
    everyone = table_of([], ["*"])
    rules = PROCESSORS[int(SEND)].access
    assert not ask(everyone, Question("", int(SEND), rules, "T")).is_allowed
    assert ask(everyone, Question("", int(SEND), rules, "T", host="10.9.9.9")).is_allowed


def test_what_is_no_address_is_refused_with_its_reason() -> None:
    with pytest.raises(AccessFileRefused, match="nonsense"):
        table_of([], ["nonsense"])


def test_a_table_keeps_no_secret_key() -> None:
    made = table_of([PlainAccessConfig("account", "its-secret")], [])
    assert "its-secret" not in str(made.texts)
