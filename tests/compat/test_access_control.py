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
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import yaml

from tests.compat.clusters import Cluster, Starter, local_cluster, real_cluster
from tests.compat.driver import JavaDriver, wait_until
from tests.compat.frames import Frame, RawConnection
from tests.compat.test_broker_answers import CREATED, LETTERS, PULLED, heartbeat
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
"""
ADMIN, LOW, LOCAL, NUMBER = (
    ("admin-key", "admin-secret"),
    ("low-key", "low-secret"),
    ("local-key", "guessed"),
    ("12345678", "12345678"),
)
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
    *((51, {"accessKey": key}) for key in ("minimal", "minimal", "unknown", "")),
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
    """A broker with access control, and its file of accounts."""

    cluster: Cluster
    accounts: Path

    def content(self) -> Any:
        """Return what the file has, without the time of its last change."""
        content = yaml.safe_load(self.accounts.read_text())
        for version in content.get("dataVersion", ()):
            assert version.pop("timestamp") > 0
        return content


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Running]]:
    """Start a broker of each kind over the same accounts."""
    starters: dict[str, Starter] = {"real": real_cluster, "wakelog": local_cluster}
    with ExitStack() as stack:
        found = {}
        for kind, start in starters.items():
            folder = tmp_path_factory.mktemp(kind)
            accounts = folder / "broker" / "conf" / "plain_acl.yml"
            accounts.parent.mkdir(parents=True)
            accounts.write_text(ACCOUNTS)
            settings = {"aclEnable": "true", "rocketmqHome": str(folder / "broker")}
            cluster = stack.enter_context(start(folder, settings=settings))
            found[kind] = Running(cluster, accounts)
        yield found


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


def let_in(connection: RawConnection) -> None:
    """Put this machine on the white list, and wait until the broker knows."""
    assert connection.ask(53, sign(Asked(ADMIN, 53, OPEN))).code == 0
    wait_until(lambda: connection.ask(26).code == 0, what="let in by the white list")


def change_all(running: Running) -> Iterator[tuple[Any, ...]]:
    """Make every change; yield what it was answered, and the file after it."""
    with RawConnection(running.cluster.broker) as connection:

        def ask(code: int, fields: dict[str, Any]) -> Frame:
            return connection.ask(code, sign(Asked(ADMIN, code, fields)))

        def reports(counter: int) -> bool:
            [(path, version)] = fastjson.loads(ask(52, {}).fields["allAclFileVersion"]).items()
            assert path == str(running.accounts)
            return bool(version["counter"] == counter)

        let_in(connection)
        for code, fields in CHANGES:
            frame = ask(code, fields)
            body = fastjson.loads(frame.body) if frame.body else None
            yield frame.code, frame.header.get("remark"), body, running.content()
            # A broker may still be reading an earlier change of the file.
            counter = running.content()["dataVersion"][0]["counter"]
            wait_until(partial(reports, counter), what=f"told of version {counter}")


def change_with_mqadmin(running: Running) -> Iterator[tuple[Any, ...]]:
    """Run every command; yield what it prints, and the file after it."""
    address = running.cluster.broker
    with JavaDriver(running.cluster.name_server) as driver, RawConnection(address) as connection:
        let_in(connection)
        for line in COMMANDS:
            command, *words = line.format(broker=address).split()
            signed = {"accessKey": ADMIN[0], "secretKey": ADMIN[1]}
            printed = driver("mqadmin", command=command, words=words, **signed)
            for place in (address, str(running.accounts)):
                printed = printed.replace(place, "PLACE")
            printed = re.sub(r"PlainAccessConfig@\w+|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "", printed)
            yield printed.split(), running.content()


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
