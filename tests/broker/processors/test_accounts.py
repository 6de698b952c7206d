"""Codes 50 to 54: who may change and see accounts, and what is in force then."""

from typing import Any

import pytest

from tests.broker.access.requests import ADMIN, FILE, LOW, UNSIGNED, WHITE_HOST, signed
from tests.broker.harness import FakeChannel, Harness
from wakelog.broker.access.accounts import AccessTable
from wakelog.broker.access.control import AccessControl, Edit
from wakelog.broker.processors.accounts import ACCESS_IS_OFF
from wakelog.network.signing import Credentials
from wakelog.protocol import fastjson
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand

UPDATE, DELETE, VERSIONS, WHITE, SHOW = 50, 51, 52, 53, 54
MAIN = "plain_acl.yml"
NEW = Credentials("new-account", "new-secret")
ACCOUNT = {"accessKey": "new-account", "secretKey": "new-secret", "admin": "true"}


class Guarded(Harness):
    """A broker with access control over files that are a dict."""

    def __init__(self) -> None:
        self.files = {MAIN: FILE}
        self.access: AccessControl = AccessControl(AccessTable(self.files), self.change, MAIN)
        super().__init__()

    def change(self, path: str | None, edit: Edit) -> AccessTable | None:
        text = edit(self.files.get(path or MAIN))
        if text is None:
            return None
        table = AccessTable({**self.files, path or MAIN: text})
        self.files[path or MAIN] = text
        return table

    def say(
        self, by: Credentials, code: int, host: str = "10.0.0.9", **fields: str
    ) -> RemotingCommand:
        command = signed(code, by, fields)
        channel = FakeChannel(7, host)
        outcome = self.settle(self.broker.process(command, channel, self.now_ms))
        assert isinstance(outcome, RemotingCommand)
        return outcome


@pytest.fixture
def guarded() -> Guarded:
    return Guarded()


def shown(response: RemotingCommand) -> dict[str, Any]:
    body: Any = fastjson.loads(response.body)
    return {one["accessKey"]: one for one in body["plainAccessConfigs"]}


def test_an_admin_creates_changes_and_deletes_an_account(guarded: Guarded) -> None:
    assert guarded.say(NEW, SHOW).code == 1
    assert guarded.say(ADMIN, UPDATE, **ACCOUNT).code == 0
    assert guarded.say(NEW, SHOW).code == 0
    changed = ACCOUNT | {"admin": "false", "topicPerms": "T=PUB,U=SUB", "groupPerms": "g=SUB"}
    assert guarded.say(ADMIN, UPDATE, **changed).code == 0
    account = shown(guarded.say(ADMIN, SHOW))["new-account"]
    assert account["topicPerms"] == ["T=PUB", "U=SUB"] and account["admin"] is False
    assert account["secretKey"] == "new-secret"
    assert guarded.say(ADMIN, DELETE, accessKey="new-account").code == 0
    assert guarded.say(NEW, SHOW).code == 1
    again = guarded.say(ADMIN, DELETE, accessKey="new-account")
    assert again.code == ResponseCode.DELETE_ACL_CONFIG_FAILED
    assert again.remark == (
        "The accesskey[new-account] corresponding to accessConfig has been deleted failed."
    )


@pytest.mark.parametrize(
    ("by", "host"), [(LOW, "10.0.0.9"), (LOW, "10.2.0.1"), (UNSIGNED, WHITE_HOST)]
)
def test_only_an_admins_signature_changes_accounts(
    guarded: Guarded, by: Credentials, host: str
) -> None:
    own = {"accessKey": LOW.access_key, "secretKey": LOW.secret_key, "admin": "true"}
    assert guarded.say(by, UPDATE, host, **own).code == 1
    assert guarded.say(by, DELETE, host, accessKey=LOW.access_key).code == 1
    assert guarded.say(by, WHITE, host, globalWhiteAddrs="*").code == 1
    assert guarded.files == {MAIN: FILE}
    accounts = shown(guarded.say(by, SHOW, host))
    assert accounts.keys() == {"admin-key", "low-key"}
    assert not any("secretKey" in one for one in accounts.values())


def test_what_cannot_be_is_refused_and_changes_nothing(guarded: Guarded) -> None:
    for fields in (
        ACCOUNT | {"secretKey": "x"},
        ACCOUNT | {"topicPerms": "T"},
        ACCOUNT | {"whiteRemoteAddress": "nowhere"},
    ):
        response = guarded.say(ADMIN, UPDATE, **fields)
        assert response.code == ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
        assert "new-secret" not in (response.remark or "x")
    assert guarded.say(ADMIN, WHITE, globalWhiteAddrs="nowhere").code == 211
    assert guarded.files == {MAIN: FILE}


@pytest.mark.parametrize(
    ("code", "expected", "remark"),
    [
        (UPDATE, 209, "The accessKey=null and its secretKey cannot be null"),
        (DELETE, 210, "The accesskey[null] corresponding to accessConfig has been deleted failed."),
        (WHITE, 211, "The globalWhiteAddresses[null] has been updated failed."),
    ],
)
def test_a_request_without_its_field_gets_its_own_code(
    guarded: Guarded, code: int, expected: int, remark: str
) -> None:
    response = guarded.say(ADMIN, code)
    assert response.code == expected
    assert (response.remark or "").startswith(remark)
    assert guarded.files == {MAIN: FILE}


def test_the_white_list(guarded: Guarded) -> None:
    assert guarded.say(ADMIN, WHITE, globalWhiteAddrs="10.8.0.1,10.9.0.*").code == 0
    assert guarded.say(UNSIGNED, SHOW, WHITE_HOST).code == 1
    response = guarded.say(UNSIGNED, SHOW, "10.9.0.7")
    body: Any = fastjson.loads(response.body)
    assert body["globalWhiteAddrs"] == ["10.8.0.1", "10.9.0.*"]


def test_versions_count_changes(guarded: Guarded) -> None:
    response = guarded.say(ADMIN, VERSIONS)
    assert fastjson.loads(response.ext_fields["version"].encode()) == {"counter": 0, "timestamp": 0}
    guarded.say(ADMIN, UPDATE, **ACCOUNT)
    fields = guarded.say(ADMIN, VERSIONS).ext_fields
    version = {"counter": 1, "timestamp": guarded.now_ms}
    assert fastjson.loads(fields["version"].encode()) == version
    assert fastjson.loads(fields["allAclFileVersion"].encode()) == {MAIN: version}
    assert (fields["brokerName"], fields["clusterName"]) == ("broker-a", "DefaultCluster")
    assert guarded.say(LOW, VERSIONS).code == 1


def test_without_access_control_the_remark_says_so() -> None:
    harness = Harness()
    for code, fields, expected in (
        (UPDATE, ACCOUNT, 209),
        (DELETE, {"accessKey": "x"}, 210),
        (VERSIONS, {}, 1),
        (WHITE, {"globalWhiteAddrs": "*"}, 211),
        (SHOW, {}, 1),
    ):
        response = harness.ask(code, fields)
        assert (response.code, response.remark) == (expected, ACCESS_IS_OFF)


def test_the_audit_log_names_accounts_and_no_secret(guarded: Guarded) -> None:
    guarded.say(ADMIN, UPDATE, **ACCOUNT)
    guarded.say(LOW, DELETE, accessKey="new-account")
    guarded.say(ADMIN, VERSIONS)
    guarded.instructions()
    made, refused = guarded.audited
    assert made.event == "UPDATE_AND_CREATE_ACL_CONFIG" and made.is_kept
    assert made.values == {
        "account": ADMIN.access_key,
        "address": "10.0.0.9:40001",
        "code": UPDATE,
        "access_key": "new-account",
        "admin": True,
        "result": "SUCCESS",
    }
    assert refused.values["access_key"] == "new-account"
    assert not refused.is_kept and refused.values["account"] == LOW.access_key
    assert refused.values["result"] == "SYSTEM_ERROR" and refused.values["remark"]
