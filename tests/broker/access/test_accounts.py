"""Files of accounts: read as 4.9.3 reads them, refused with a reason that names no secret."""

import pytest

from wakelog.broker.access import accounts
from wakelog.broker.access.accounts import AccessFileRefused, AccessTable
from wakelog.network.request import Permission
from wakelog.protocol.bodies import PlainAccessConfig

PUB, SUB = Permission.PUB, Permission.SUB

# As in the distribution of 4.9.3, and with values of other types.
FILE = """
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.*
accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC = SUB
  groupPerms:
  # the group should convert to retry topic
  - groupA=DENY
  - groupB=PUB|SUB
  - groupC=SUB
- accessKey: rocketmq2
  secretKey: hush-hush
  whiteRemoteAddress: 192.168.1.*
  admin: "true"
dataVersion:
- counter: 3
  timestamp: 1600000000000
"""


def refusal(text: str) -> str:
    with pytest.raises(AccessFileRefused) as refused:
        AccessTable({"a.yml": text})
    assert refused.value.path == "a.yml"
    assert "hush" not in str(refused.value)
    return refused.value.reason


def test_accounts_and_their_permissions() -> None:
    table = AccessTable({"a.yml": FILE})
    assert len(table) == 2 and table.path_of("rocketmq2") == "a.yml"
    assert table.white_addresses.match("192.168.0.9")
    first, second = table.find("RocketMQ"), table.find("rocketmq2")
    assert first is not None and second is not None
    assert first.secret_key == "12345678"
    assert (first.is_admin, second.is_admin) == (False, True)
    assert not first.default_topic and first.default_group == {SUB}
    assert first.permissions == {
        "topicA": frozenset(),
        "topicB": {PUB, SUB},
        "topicC": {SUB},
        "%RETRY%groupA": frozenset(),
        "%RETRY%groupB": {PUB, SUB},
        "%RETRY%groupC": {SUB},
    }
    assert second.permissions is None
    assert second.white_addresses.match("192.168.1.7")
    assert not first.white_addresses.match("192.168.1.7")
    version = table.files["a.yml"].data_version
    assert version == [accounts.Version(3, 1_600_000_000_000)]


@pytest.mark.parametrize("key", PlainAccessConfig.__struct_encode_fields__)
@pytest.mark.parametrize("blank", ["", "''", "~"])
def test_a_key_without_a_value_is_one_that_is_not_there(key: str, blank: str) -> None:
    given = {"accessKey": "somebody", "secretKey": "hush-hush", key: blank}
    text = "accounts:\n- " + "\n  ".join(f"{name}: {value}" for name, value in given.items())
    if key in ("accessKey", "secretKey"):
        assert "have to be longer than" in refusal(text)
        return
    account = AccessTable({"a.yml": text + "\ndataVersion:\n"}).find("somebody")
    assert account is not None and not account.is_admin
    assert not account.default_topic and account.permissions is None


def test_a_permission_with_another_name_denies() -> None:
    text = "accounts: [{accessKey: somebody, secretKey: hush-hush, defaultTopicPerm: ALL}]"
    account = AccessTable({"a.yml": text}).find("somebody")
    assert account is not None and account.default_topic == frozenset()


def test_a_key_of_two_files_is_that_of_the_first() -> None:
    one = "accounts: [{accessKey: somebody, secretKey: hush-hush}]"
    table = AccessTable({"a.yml": one, "b.yml": one.replace("hush-hush", "other-hush")})
    found = table.find("somebody")
    assert found is not None and found.secret_key == "hush-hush"
    assert table.warnings == ["accessKey somebody of b.yml is already in a.yml"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the file has no data"),
        ("accounts: [", "this is no YAML at line 1"),
        ("!!python/object/apply:os.system [hush]", "this is no YAML at line 1"),
        ("[" * 5_000, "its lists are nested too deep"),
        ("[" * 100_000, "its lists are nested too deep"),
        ("- " * 30_000, "its lists are nested too deep"),
        ("accounts: &a [*a]", "one of its lists has itself as a part"),
        ("just text", "Expected `object`, got `str`"),
        ("accounts: {a: b}", "Expected `array | null`, got `object` - at `$.accounts`"),
        ("accounts: [{accessKey: short, secretKey: hush-hush}]", "accessKey short and its secret"),
        ("accounts: [{accessKey: somebody, secretKey: hush}]", "accessKey somebody and its secret"),
        ("accounts: [{accessKey: somebody}]", "accessKey somebody and its secretKey have to be"),
        ("globalWhiteRemoteAddresses: [nowhere]", "'nowhere' is no address"),
        (
            "accounts: [{accessKey: somebody, secretKey: hush-hush, whiteRemoteAddress: x}]",
            "'x' is no address",
        ),
        (
            "accounts: [{accessKey: somebody, secretKey: hush-hush, topicPerms: [T]}]",
            "Parse resource permission failed for topic:T",
        ),
        ("accounts: [{accessKey: somebody, admin: hush}]", "Expected `bool`, got `str`"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(text: str, reason: str) -> None:
    assert refusal(text).startswith(reason)


def test_too_many_accounts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "ACCOUNTS_MAX", 1)
    assert refusal(FILE) == "there are more than 1 accounts"


def test_secrets_are_not_shown() -> None:
    table = AccessTable({"a.yml": FILE})
    shown = repr(table.find("rocketmq2")) + repr(table.files["a.yml"].accounts)
    assert "rocketmq2" in shown and "hush" not in shown
