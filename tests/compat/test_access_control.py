"""Requests of every kind of account to 4.9.3's broker and to ours, both with access control.

Compared are the codes and, of a refusal, Java's exception and its message. Of changes of accounts,
all of the answers and the files.

4.9.3 forgets accounts that a changed file had before. It stays usable where its white list lets in
everybody here.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import yaml

from tests.compat.clusters import Cluster, Starter, local_cluster, real_cluster
from tests.compat.driver import JavaDriver, wait_until
from tests.compat.frames import Frame, RawConnection
from tests.compat.test_broker_answers import CREATED, LETTERS, PULLED, heartbeat
from tests.compat.together import all_entered, at_once
from wakelog.protocol import fastjson

pytestmark = [pytest.mark.java, pytest.mark.slow]

ACCOUNTS = """
globalWhiteRemoteAddresses: [10.10.103.*, "fe80::1-f:*"]
accounts:
- {accessKey: admin-key, secretKey: admin-secret, admin: true}
- accessKey: low-key
  secretKey: low-secret
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms: [T=PUB|SUB, read=SUB, written=PUB]
  groupPerms: [closed=DENY]
- {accessKey: local-key, secretKey: local-secret, whiteRemoteAddress: 127.0.0.*}
- {accessKey: "12345678", secretKey: 12345678, admin: true, topicPerms: [T=PUB]}
- {accessKey: twice-key, secretKey: twice-main}
"""
ADMIN, LOW, LOCAL, NUMBER = (
    ("admin-key", "admin-secret"),
    ("low-key", "low-secret"),
    ("local-key", "guessed"),
    ("12345678", "12345678"),
)
MAIN = "plain_acl.yml"
FILES = {
    MAIN: ACCOUNTS,
    "acl/a.yml": """
globalWhiteRemoteAddresses: [10.10.104.*]
accounts:
- {accessKey: first-key, secretKey: first-secret}
- {accessKey: twice-key, secretKey: twice-first}
""",
    "acl/deep/b.yaml": "accounts: [{accessKey: second-key, secretKey: second-secret}]",
    "acl/tools.yml": "accounts: [{accessKey: third-key, secretKey: third-secret}]",
    "acl/notes.txt": "accounts: [{accessKey: noted-key, secretKey: noted-secret}]",
    "tools.yml": "accounts: [{accessKey: tools-key, secretKey: tools-secret}]",
}
UNSIGNED, UNKNOWN, WRONG = ("", ""), ("unknown-key", "x"), ("low-key", "guessed")


class Asked(NamedTuple):
    """One request and who signs it; `sent_as` is another code that it is sent with."""

    by: tuple[str, str]
    code: int
    fields: Mapping[str, Any] = MappingProxyType({})
    body: bytes = b""
    unsigned: Mapping[str, Any] = MappingProxyType({})
    sent_as: int | None = None


HEARTBEATS = [
    heartbeat("c", group, topic).body
    for group, topic in (("cg", "T"), ("closed", "T"), ("cg", "written"))
]
BACK = {"offset": 0, "group": "cg", "originMsgId": "x", "delayLevel": 0}
OF_CODE: list[tuple[int, dict[str, Any], bytes]] = [
    (310, LETTERS, b"body"),
    (310, LETTERS | {"b": "read"}, b"body"),
    (310, LETTERS | {"b": "written"}, b"body"),
    (310, LETTERS | {"b": "other"}, b"body"),
    (34, {}, HEARTBEATS[0]),
    (34, {}, HEARTBEATS[1]),
    (34, {}, HEARTBEATS[2]),
    (34, {}, b"{}"),
    (11, PULLED, b""),
    (11, PULLED | {"topic": "written"}, b""),
    (11, PULLED | {"consumerGroup": "closed"}, b""),
    (12, {"topic": "T", "key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1}, b""),
    (12, {"topic": "other", "key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1}, b""),
    (15, {"consumerGroup": "cg", "topic": "T", "queueId": 0, "commitOffset": 0}, b""),
    (15, {"consumerGroup": "cg", "topic": "written", "queueId": 0, "commitOffset": 0}, b""),
    (14, {"consumerGroup": "closed", "topic": "T", "queueId": 0}, b""),
    (36, BACK | {"originTopic": "T"}, b""),
    (36, BACK | {"originTopic": "read"}, b""),
    (38, {"consumerGroup": "cg"}, b""),
    (38, {"consumerGroup": "closed"}, b""),
    (35, {"clientID": "c", "consumerGroup": "closed"}, b""),
    (35, {"clientID": "c"}, b""),
    (17, CREATED, b""),
    (25, {}, b"traceOn=true"),
    (200, {}, b'{"groupName": "cg"}'),
    (26, {}, b""),
    (21, {}, b""),
    (30, {"topic": "T", "queueId": 0}, b""),
    (9999, {}, b""),
]
PLAY = [
    *(Asked(by, *each) for by in (ADMIN, LOW, UNSIGNED, UNKNOWN, WRONG, LOCAL) for each in OF_CODE),
    Asked(NUMBER, 310, LETTERS, b"x"),
    Asked(NUMBER, 310, LETTERS | {"b": "read"}, b"x"),
    Asked(NUMBER, 17, CREATED),
    Asked(LOW, 26, unsigned={"_UNIQUE_KEY_QUERY": "true"}),
    Asked(LOW, 26, unsigned={"added": "x"}),
    Asked(LOW, 26, {"SecurityToken": "token", "Zeta": "ö", "alpha": "1"}),
    # A recorded request again, and as another one: neither broker can tell.
    *[Asked(ADMIN, 17, CREATED)] * 2,
    *[Asked(LOW, 17, CREATED)] * 2,
    *(Asked(by, 26, CREATED, sent_as=17) for by in (ADMIN, LOW, WRONG)),
    Asked(LOW, 26, LETTERS, b"body", sent_as=310),
]


NEW = {"accessKey": "new-user", "secretKey": "new-secret"}
FULL = {
    **NEW,
    "whiteRemoteAddress": "192.168.0.*",
    "admin": "false",
    "defaultTopicPerm": "DENY",
    "defaultGroupPerm": "SUB",
    "topicPerms": "a=PUB,b=SUB|PUB",
    "groupPerms": "g=SUB",
}
MINIMAL = {"accessKey": "minimal", "secretKey": "minimal-secret"}
OPEN = {"globalWhiteAddrs": "10.10.103.*,127.0.0.1"}
STARTERS: dict[str, Starter] = {"real": real_cluster, "wakelog": local_cluster}
UNKNOWN_KEYS = ("noted-key", "tools-key", "late-key")
ACCOUNT_KEYS = [
    ADMIN,
    *((f"{name}-key", f"{name}-secret") for name in ("first", "second", "third")),
    *(("twice-key", "twice-first"), ("twice-key", "twice-main")),
    *((key, key.replace("-key", "-secret")) for key in UNKNOWN_KEYS),
]
CHANGES: list[tuple[int, dict[str, Any]]] = [
    (54, {}),
    (50, FULL),
    (50, MINIMAL),
    (54, {}),
    (50, NEW | {"secretKey": "other-secret"}),
    (50, NEW | {"admin": "true"}),
    (50, NEW | {"topicPerms": "c=DENY"}),
    (50, NEW | {"topicPerms": "x=PUB,"}),
    (50, NEW | {"whiteRemoteAddress": ""}),
    (50, NEW | {"defaultTopicPerm": "", "defaultGroupPerm": "PUB"}),
    (50, NEW | {"defaultTopicPerm": "WRONG"}),
    *((50, NEW | {"topicPerms": wrong}) for wrong in ("", "a", "a=X")),
    *((50, NEW | {"groupPerms": wrong}) for wrong in ("g=b=SUB", "g=ANY")),
    (50, {"accessKey": "low-key", "secretKey": "low-secret", "defaultTopicPerm": "PUB"}),
    (50, {"accessKey": "12345678", "secretKey": "12345678", "admin": "true"}),
    (50, {"accessKey": "first-key", "secretKey": "first-secret", "defaultTopicPerm": "PUB"}),
    (50, {"accessKey": "second-key", "secretKey": "other-secret"}),
    *((51, {"accessKey": key}) for key in ("minimal", "minimal", "unknown", "", "first-key")),
    *((53, {"globalWhiteAddrs": x}) for x in ("127.0.0.1,10.0.0.*", "127.0.0.1,")),
    (54, {}),
]
COMMANDS = (
    "updateAclConfig -b {broker} -a by-mqadmin -s its-secret -i t=PUB,u=SUB -u DENY -m false",
    "clusterAclConfigVersion -c DefaultCluster",
    "clusterAclConfigVersion -b {broker}",
    "getAccessConfigSubCommand -b {broker}",
    "updateGlobalWhiteAddr -b {broker} -g 127.0.0.1,10.9.*.*",
    "deleteAccessConfig -b {broker} -a by-mqadmin",
    "getAccessConfigSubCommand -c DefaultCluster",
)


class Running(NamedTuple):
    """A broker with access control, and the folder of its files of accounts."""

    cluster: Cluster
    folder: Path

    def content(self) -> dict[str, Any]:
        """Return what each file has, without the time of its last change."""
        found = {}
        for path in FILES:
            found[path] = yaml.safe_load((self.folder / path).read_text())
            for version in found[path].get("dataVersion", ()):
                assert version.pop("timestamp") > 0
        return found

    def counters(self) -> dict[str, int]:
        """Return how often each file of accounts was changed, by its path."""
        return {
            str(self.folder / path): content.get("dataVersion", [{"counter": 0}])[0]["counter"]
            for path, content in self.content().items()
            if path not in ("acl/notes.txt", "tools.yml")
        }


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Running]]:
    """Start a broker of each kind over the same accounts."""
    folder = tmp_path_factory.mktemp("both")
    managers = {kind: running(start, folder / kind) for kind, start in STARTERS.items()}
    with all_entered(managers) as found:
        yield dict(found)


@contextmanager
def running(start: Starter, folder: Path) -> Iterator[Running]:
    """Start a broker over the accounts of `FILES`."""
    home = folder / "broker"
    for path, text in FILES.items():
        file = home / "conf" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    settings = {"aclEnable": "true", "rocketmqHome": str(home)}
    with start(folder, settings=settings) as cluster:
        yield Running(cluster, home / "conf")


def test_both_brokers_know_the_accounts_of_every_file(both: dict[str, Running]) -> None:
    theirs, ours = (known_accounts(both[kind].cluster.broker) for kind in STARTERS)
    assert ours == theirs
    assert [key for (key, _), code in ours.items() if code] == ["twice-key", *UNKNOWN_KEYS]


def test_both_brokers_let_in_and_refuse_the_same(both: dict[str, Running]) -> None:
    theirs, ours = (play(both[kind].cluster.broker) for kind in ("real", "wakelog"))
    for asked, said, expected in zip(PLAY, ours, theirs, strict=True):
        assert said == expected, asked
    assert {refusal.split(": ")[1].split()[0] for _, refusal in theirs if refusal} == {
        *("No", "Check", "Need")
    }


def test_both_brokers_change_accounts_alike(both: dict[str, Running]) -> None:
    theirs, ours = (list(change_all(both[kind])) for kind in ("real", "wakelog"))
    for change, said, expected in zip(CHANGES, ours, theirs, strict=True):
        assert said == expected, change


@pytest.mark.long
def test_mqadmin_changes_accounts_alike(both: dict[str, Running]) -> None:
    theirs, ours = (list(change_with_mqadmin(both[kind])) for kind in ("real", "wakelog"))
    for command, said, expected in zip(COMMANDS, ours, theirs, strict=True):
        assert said == expected, command


@pytest.mark.long
def test_both_brokers_see_files_that_come_change_and_go(tmp_path: Path) -> None:
    with all_entered({k: running(start, tmp_path / k) for k, start in STARTERS.items()}) as found:
        theirs, ours = at_once(*(partial(change_files, each) for each in found.values()))
    assert theirs.pop("changed") == ours.pop("changed") | {("late-key", "late-secret")}
    assert ours == theirs


def change_files(running: Running) -> dict[str, set[tuple[str, str]]]:
    """Add, change and remove a file; return each time who is unknown once the broker knows."""
    address, late = running.cluster.broker, running.folder / "acl" / "late.yml"

    def unknown(by: tuple[str, str], *, known: bool = True) -> set[tuple[str, str]]:
        # One question at a time: ours closes the connections of an address that fails too often.
        with RawConnection(address) as connection:
            request = sign(Asked(by, 26))
            wait_until(lambda: (connection.ask(26, request).code == 0) is known, what="told")
        return {by for by, code in known_accounts(address).items() if code}

    late_account = "{accessKey: late-key, secretKey: late-secret}"
    late.write_text(f"accounts: [{late_account}]")
    found = {"come": unknown(("late-key", "late-secret"))}
    late.write_text(f"accounts: [{late_account}, {{accessKey: next-key, secretKey: next-secret}}]")
    found["changed"] = unknown(("next-key", "next-secret"))
    (running.folder / "acl" / "a.yml").unlink()
    found["gone"] = unknown(("first-key", "first-secret"), known=False)
    return found


def known_accounts(address: str) -> dict[tuple[str, str], int]:
    """Return what a read is answered that each account signs."""
    with RawConnection(address) as connection:
        return {by: connection.ask(26, sign(Asked(by, 26))).code for by in ACCOUNT_KEYS}


def shown_accounts(frame: Frame) -> dict[str, Any]:
    """Return what code 54 shows, in an order: 4.9.3's is the one in which it finds the files."""
    found = fastjson.loads(frame.body)
    accounts = sorted(found["plainAccessConfigs"], key=itemgetter("accessKey"))
    return {"white": sorted(found["globalWhiteAddrs"]), "accounts": accounts}


def let_in(connection: RawConnection) -> None:
    """Put this machine on the white list, and wait until the broker knows."""
    assert connection.ask(53, sign(Asked(ADMIN, 53, OPEN))).code == 0
    wait_until(lambda: connection.ask(26).code == 0, what="let in by the white list")


def change_all(running: Running) -> Iterator[tuple[Any, ...]]:
    """Make every change; yield what it was answered, and the file after it."""
    with RawConnection(running.cluster.broker) as connection:

        def ask(code: int, fields: dict[str, Any]) -> Frame:
            return connection.ask(code, sign(Asked(ADMIN, code, fields)))

        def reports(counters: dict[str, int]) -> bool:
            versions = fastjson.loads(ask(52, {}).fields["allAclFileVersion"])
            return {path: found["counter"] for path, found in versions.items()} == counters

        let_in(connection)
        for code, fields in CHANGES:
            frame = ask(code, fields)
            body = shown_accounts(frame) if frame.body else None
            yield frame.code, frame.header.get("remark"), body, running.content()
            # A broker may still be reading an earlier change of the file.
            counters = running.counters()
            wait_until(partial(reports, counters), what=f"told of versions {counters}")


def change_with_mqadmin(running: Running) -> Iterator[tuple[Any, ...]]:
    """Run every command; yield what it prints, and the file after it."""
    address = running.cluster.broker
    with JavaDriver(running.cluster.name_server) as driver, RawConnection(address) as connection:
        let_in(connection)
        for line in COMMANDS:
            command, *words = line.format(broker=address).split()
            signed = {"accessKey": ADMIN[0], "secretKey": ADMIN[1]}
            printed = driver("mqadmin", command=command, words=words, **signed)
            for place in (address, str(running.folder)):
                printed = printed.replace(place, "PLACE")
            printed = re.sub(r"PlainAccessConfig@\w+|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "", printed)
            # One account or file after the other, as 4.9.3 finds them.
            yield sorted(printed.split()), running.content()


def play(address: str) -> list[tuple[int, str]]:
    with RawConnection(address) as connection:
        return [answer(connection, asked) for asked in PLAY]


def answer(connection: RawConnection, asked: Asked) -> tuple[int, str]:
    """Return the code, and the exception of a refusal without the place in Java's sources."""
    signed = {**sign(asked), **asked.unsigned}
    response = connection.ask(asked.sent_as or asked.code, signed, asked.body)
    remark = response.header.get("remark") or ""
    is_refused = "AclException" in remark
    return response.code, remark.partition(", org.apache")[0] if is_refused else ""


def sign(asked: Asked) -> dict[str, str]:
    fields = {name: str(value) for name, value in asked.fields.items()}
    access_key, secret_key = asked.by
    if not access_key:
        return fields
    fields["AccessKey"] = access_key
    content = "".join(fields[name] for name in sorted(fields)).encode() + asked.body
    digest = hmac.new(secret_key.encode(), content, hashlib.sha1).digest()
    return fields | {"Signature": base64.b64encode(digest).decode()}
