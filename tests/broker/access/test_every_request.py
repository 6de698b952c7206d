"""Every request code from every kind of sender: what each gets, and that no other changes anything.

A new row of the request table has to be put into one of the sets below.
"""

from functools import cache
from typing import Any, get_args, get_type_hints

import pytest

from tests.broker.access.requests import (
    ADMIN,
    FILE,
    HOST,
    UNKNOWN,
    WHITE_HOST,
    WRONG,
    access_control,
    signed,
)
from tests.broker.harness import FakeChannel, Harness, Waiting, subscription
from wakelog.broker.access import rules
from wakelog.broker.access.accounts import AccessTable
from wakelog.broker.access.addresses import AddressPatterns
from wakelog.broker.access.administrators import Administrators
from wakelog.broker.access.control import AccessControl, Edit
from wakelog.broker.config_file import all_settings
from wakelog.broker.effects import Registered, Removed
from wakelog.broker.processors.table import NAME_SERVER_CODES, PROCESSORS
from wakelog.network.request import Access, processor
from wakelog.network.signing import Credentials
from wakelog.protocol.bodies import ConsumerData, HeartbeatData, encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand

POWERLESS = Credentials("no-permission", "low-secret")
ACCOUNTS = FILE + "- {accessKey: no-permission, secretKey: low-secret}\n"
NO_KEY = Credentials()

NEED_PERMISSIONS = {10, 310, 36, 11, 12, 34, 35, 38, 15}
CHANGE_ACCOUNTS = {50, 51, 53}
ADMINISTER = {
    *(17, 25, 200, 207, 215),
    *(52, 222, 301, 306, 309, 314, 316, 323),  # 4.9.3 asks for a signature only
    *CHANGE_ACCOUNTS,
}
FOR_ANYONE = {
    *(320, 33, 46, 14, 41, 42, 37, 324, 325),  # of clients; 4.9.3 checks no resource of them either
    *(21, 26, 28, 29, 30, 31, 32, 201, 202, 203, 204, 208, 223, 300, 303, 305),  # reads
    *(307, 308, 315, 317, 321, 54, 328, 351, 352),
    *(43, 45),  # of slaves
}
CODES = sorted(PROCESSORS)
OTHER_CODE = 9999

# By sender: the first words of the remark, by what the code needs; None where it is not refused.
ANYONE, PERMISSION, ADMINISTRATION, ACCOUNT_CHANGE = range(4)
NO_ACCOUNT = ("No accessKey is configured",) * 4
MATRIX: dict[str, tuple[str | None, str | None, str | None, str | None]] = {
    "no key": NO_ACCOUNT,
    "unknown key": ("No acl config for unknown-key",) * 4,
    "wrong key": ("Check signature failed for accessKey=low-key",) * 4,
    "low key": (None, "No default permission for", *("Need admin permission for",) * 2),
    "admin key": (None,) * 4,
    # As in 4.9.3, a recorded request can be sent again, with the rights of its account.
    "replayed, of low": (None, "No default permission for", *("Need admin permission for",) * 2),
    "replayed, of admin": (None,) * 4,
    # Nor does a signature cover the code: what was signed for one can be sent as another.
    "replayed as another code, of low": (
        *(None, "No default permission for"),
        *("Need admin permission for",) * 2,
    ),
    "replayed as another code, of admin": (None,) * 4,
    "replayed, changed": ("Check signature failed for accessKey=admin-key",) * 4,
    "white address": (None, None, None, "Need admin permission for"),
}


def need_of(code: int) -> int:
    if code in CHANGE_ACCOUNTS:
        return ACCOUNT_CHANGE
    if code in ADMINISTER:
        return ADMINISTRATION
    return PERMISSION if code in NEED_PERMISSIONS else ANYONE


def test_every_code_has_a_decision() -> None:
    decided = [*NEED_PERMISSIONS, *ADMINISTER, *FOR_ANYONE]
    assert len(decided) == len(set(decided))
    assert set(decided) == PROCESSORS.keys()
    for code, row in PROCESSORS.items():
        assert row.access, f"no rule maps {code}"
        assert row.is_administration is (code in ADMINISTER), code


# What changes something if it is let through.
CHANGES: dict[int, tuple[dict[str, str], bytes]] = {
    17: (
        {"topic": "N", "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2"}
        | {"perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false"},
        b"",
    ),
    25: ({}, b"traceOn=false"),
    200: ({}, b'{"groupName":"new"}'),
    207: ({"groupName": "g"}, b""),
    215: ({"topic": "T"}, b""),
    314: ({"srcGroup": "g", "destGroup": "other", "topic": "T", "offline": "false"}, b""),
    50: ({"accessKey": "new-account", "secretKey": "new-secret", "admin": "true"}, b""),
    51: ({"accessKey": "low-key"}, b""),
    53: ({"globalWhiteAddrs": "*"}, b""),
}


@cache
def fields_of(code: int) -> dict[str, str]:
    """Return a header in which every field has a value."""
    header = PROCESSORS[code].header
    if header is None:
        return {}
    hints = get_type_hints(header)
    return {
        wire_name: "name" if str in (hints[name], *get_args(hints[name])) else "1"
        for name, wire_name in zip(
            header.__struct_fields__, header.__struct_encode_fields__, strict=True
        )
    }


def request(code: int, by: Credentials) -> RemotingCommand:
    fields, body = CHANGES.get(code, (None, b""))
    if code == RequestCode.HEART_BEAT:
        consumers = [ConsumerData("g", subscription_data_set=[subscription("T")])]
        body = encode_body(HeartbeatData("c", [], consumers))
    found = fields_of(code) if fields is None and code in PROCESSORS else fields
    return signed(code, by, found or {}, body)


class Exposed(Harness):
    """A broker with something to lose, which other hosts reach."""

    def __init__(self, access: AccessControl | None, trusted: str = "") -> None:
        self.access = access
        super().__init__()
        self.files: dict[str | None, str] = {}
        if access is not None:
            access.change = self.change
        self.broker.state.access = None  # until there is something to lose
        self.send("T")
        self.beat("g", subscription())
        committed = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"}
        assert self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, committed).code == 0
        self.broker.state.access = access
        self.broker._administrators = Administrators(AddressPatterns([trusted]))

    def change(self, path: str | None, edit: Edit) -> AccessTable:
        self.files[path] = str(edit(ACCOUNTS))
        return AccessTable({"plain_acl.yml": ACCOUNTS})

    def put(self, command: RemotingCommand, host: str) -> RemotingCommand | None:
        """Give the broker a request from an address; return its response, if it has one by now."""
        outcome = self.settle(self.broker.process(command, FakeChannel(7, host), self.now_ms))
        while isinstance(outcome, Waiting) and isinstance(outcome.effect, Removed | Registered):
            outcome = self.resume(outcome, "")
        outcome = getattr(outcome, "response", outcome)
        return outcome if isinstance(outcome, RemotingCommand) else None

    def contents(self) -> dict[str, Any]:
        """Return everything that a request could change."""
        counted = self.broker.statistics()
        return {
            **{name: table.snapshot()() for name, table in self.broker.tables.items()},
            **{name: counted[name] for name in counted.keys() - {"requests_by_code", "access"}},
            "settings": all_settings(self.settings),
            "messages": {k: len(v.messages) for k, v in self.store.queues_by_name.items()},
            "filter servers": self.broker.state.filter_servers.addresses(),
            "accounts": dict(self.files),
        }


def refusal(response: RemotingCommand | None) -> str | None:
    """Return why access control has refused, None if it has not."""
    remark = (response.remark if response is not None else None) or ""
    _, was_refused, reason = remark.partition("AclException: ")
    return reason if was_refused else None


def by_sender(code: int, sender: str) -> tuple[RemotingCommand, str]:
    """Return a request of a sender, and the address that it comes from."""
    credentials = {
        "no key": NO_KEY,
        "white address": NO_KEY,
        "unknown key": UNKNOWN,
        "wrong key": WRONG,
        "low key": POWERLESS,
        "replayed, of low": POWERLESS,
        "replayed as another code, of low": POWERLESS,
    }.get(sender, ADMIN)
    command = request(code, credentials)
    if sender.startswith("replayed as another code"):
        unsigned = request(code, NO_KEY)
        recorded = signed(OTHER_CODE, credentials, unsigned.ext_fields, unsigned.body)
        command = RemotingCommand(code, 2, 0, recorded.ext_fields, recorded.body)
    if sender == "replayed, changed":
        command.ext_fields["added"] = "x"
    return command, WHITE_HOST if sender == "white address" else HOST


@pytest.mark.parametrize("sender", MATRIX)
def test_what_each_sender_gets_for_every_code(sender: str) -> None:
    harness = Exposed(access_control(ACCOUNTS))
    before = harness.contents()
    for code in CODES:
        command, host = by_sender(code, sender)
        times = 2 if sender.startswith("replayed") else 1
        if MATRIX[sender][need_of(code)] is None and code in ADMINISTER:
            harness = Exposed(access_control(ACCOUNTS))  # it may have changed
        for _ in range(times):
            found = refusal(harness.put(command, host))
        expected = MATRIX[sender][need_of(code)]
        if expected is None:
            assert found is None, (code, found)
            before = harness.contents()
        else:
            assert found is not None and found.startswith(expected), (code, found)
            assert harness.contents() == before, code


@pytest.mark.parametrize("code", [9999, -1, *sorted(NAME_SERVER_CODES)])
def test_a_code_without_a_row_changes_nothing(code: int) -> None:
    harness = Exposed(access_control(ACCOUNTS))
    before = harness.contents()
    assert refusal(harness.put(request(code, NO_KEY), HOST)) == NO_ACCOUNT[0]
    response = harness.put(request(code, ADMIN), HOST)
    assert response is not None and response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert harness.contents() == before


def test_without_access_control_only_this_host_and_trusted_ones_administer() -> None:
    harness = Exposed(None, trusted="10.3.0.*")
    before = harness.contents()
    for code in ADMINISTER:
        response = harness.put(request(code, ADMIN), HOST)
        assert response is not None and response.code == ResponseCode.NO_PERMISSION, code
        assert response.remark == (
            f"request code={code} is for administrators, and {HOST} is none: send it from the "
            "server's own host, sign it as an admin account (aclEnable=true), or "
            f"start the server with wakelog.trustedAddresses={HOST}"
        )
        assert harness.contents() == before, code
    assert harness.broker.statistics()["access"]["refused_count"] == len(ADMINISTER)
    for code in CODES:
        hosts = ["127.0.0.1", "::1", "10.3.0.1"]
        for host in hosts if code in ADMINISTER else [*hosts, HOST]:
            response = harness.put(request(code, NO_KEY), host)
            assert response is None or response.code != ResponseCode.NO_PERMISSION, code


@pytest.mark.parametrize("code", CHANGES)
def test_the_changes_are_changes_where_they_are_allowed(code: int) -> None:
    """Without this the tests above could compare what nothing can change."""
    harness = Exposed(access_control(ACCOUNTS))
    before = harness.contents()
    response = harness.put(request(code, ADMIN), HOST)
    assert response is not None and response.code == ResponseCode.SUCCESS, response
    assert harness.contents() != before


@pytest.mark.parametrize("kept", [0, 1])
def test_a_row_without_a_rule_is_refused(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    row = PROCESSORS[RequestCode.GET_BROKER_CONFIG]
    unmapped = processor(row.handle, row.lane, *row.access[:kept], body=row.body)
    monkeypatch.setitem(PROCESSORS, int(RequestCode.GET_BROKER_CONFIG), unmapped)
    remote = Exposed(None).put(request(26, NO_KEY), HOST)
    assert remote is not None and (remote.code == ResponseCode.NO_PERMISSION) is not kept
    low = refusal(Exposed(access_control(ACCOUNTS)).put(request(26, POWERLESS), HOST))
    assert (low is None) is bool(kept)


RULES = {name: rule for name, rule in vars(rules).items() if isinstance(rule, Access)}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_names_an_attribute_of_every_request_that_has_it(name: str) -> None:
    rule = RULES[name]
    rows = [row for row in PROCESSORS.values() if rule in row.access]
    assert rows
    for row in rows:
        fields = () if row.header is None else row.header.__struct_fields__
        assert not rule.attribute or rule.attribute in fields
