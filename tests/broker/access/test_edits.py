"""Changes of a file of accounts: what they write, and what stays."""

import pytest
import yaml

from tests.calls import count_calls
from wakelog.broker.access.accounts import AccessTable, read_file
from wakelog.broker.access.edits import delete_account, put_account, put_white_addresses
from wakelog.protocol.bodies import PlainAccessConfig as Entry

NOW_MS = 1_700_000_000_000

FILE = """
# the accounts of this broker
globalWhiteRemoteAddresses: [10.0.0.1]
accounts:
- {accessKey: first-key, secretKey: first-hush, topicPerms: [T=PUB], note: kept}
- {accessKey: other-key, secretKey: other-hush}
dataVersion: [{counter: 4, timestamp: 1}]
"""


def test_a_new_account_makes_the_file() -> None:
    entry = Entry("new-key", "new-hush", admin=True, group_perms=["g=SUB"])
    data = yaml.safe_load(put_account(None, entry, NOW_MS))
    account = {"accessKey": "new-key", "secretKey": "new-hush", "admin": True}
    assert data["accounts"] == [account | {"groupPerms": ["g=SUB"]}]
    assert data["dataVersion"] == [{"counter": 1, "timestamp": NOW_MS}]


def test_an_account_is_changed_where_a_value_is_given() -> None:
    entry = Entry("first-key", "later-hush", white_remote_address="10.0.0.9")
    text = put_account(FILE, entry, NOW_MS)
    data = yaml.safe_load(text)
    assert [one["accessKey"] for one in data["accounts"]] == ["other-key", "first-key"]
    assert data["accounts"][1] == {
        "accessKey": "first-key",
        "secretKey": "later-hush",
        "topicPerms": ["T=PUB"],
        "note": "kept",
        "whiteRemoteAddress": "10.0.0.9",
        "admin": False,
    }
    assert data["dataVersion"] == [{"counter": 5, "timestamp": NOW_MS}]
    assert data["globalWhiteRemoteAddresses"] == ["10.0.0.1"]
    emptied = put_account(text, Entry("first-key", "later-hush", ""), NOW_MS)
    assert yaml.safe_load(emptied)["accounts"][1]["whiteRemoteAddress"] == ""


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (
            Entry("first-key", "hush"),
            "The accessKey=first-key and its secretKey cannot be",
        ),
        (Entry("first-key"), "The accessKey=first-key and its secretKey cannot be"),
        (
            Entry("first-key", "later-hush", topic_perms=["T"]),
            "Parse Resource format error",
        ),
        (
            Entry("first-key", "later-hush", group_perms=["g=ALL"]),
            "Parse resource permission error for g=ALL",
        ),
    ],
)
def test_an_account_that_cannot_be_is_refused(entry: Entry, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        put_account(FILE, entry, NOW_MS)
    assert "hush" not in str(refused.value)


def test_an_account_is_deleted() -> None:
    table = AccessTable({"a.yml": delete_account(FILE, "first-key", NOW_MS)})
    assert table.find("first-key") is None and table.find("other-key") is not None


def test_the_white_list_is_replaced_where_there_is_one() -> None:
    text = put_white_addresses(FILE, ["10.9.*.*", "::1"], NOW_MS)
    assert text is not None
    table = AccessTable({"a.yml": text})
    assert table.white_addresses.match("10.9.0.1") and not table.white_addresses.match("10.0.0.1")
    assert put_white_addresses("accounts: []\n", ["::1"], NOW_MS) is None


def test_a_change_among_many_accounts_reads_them_once() -> None:
    """With the slow loader, and a text of all only for the version, 10,000 took 15 s."""
    text = yaml.safe_dump(
        {
            "accounts": [
                {"accessKey": f"account{number}", "secretKey": "hush-hush"}
                for number in range(1_000)
            ]
        }
    )
    read = count_calls(lambda: read_file("a.yml", text))
    entry = Entry("account7", "later-hush")
    changed = put_account(text, entry, NOW_MS)
    assert count_calls(lambda: put_account(text, entry, NOW_MS)) < 2.5 * read
    assert len(read_file("a.yml", changed).accounts or ()) == 1_000
