"""Requests of every kind of account to 4.9.3's broker and to ours, both with access control.

Compared are the codes and, of a refusal, Java's exception and its message.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests.compat.clusters import Cluster, Starter, local_cluster, real_cluster
from tests.compat.frames import RawConnection
from tests.compat.test_broker_answers import CREATED, LETTERS, PULLED, heartbeat

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
    """One request and who signs it."""

    by: tuple[str, str]
    code: int
    fields: Mapping[str, Any] = MappingProxyType({})
    body: bytes = b""
    unsigned: Mapping[str, Any] = MappingProxyType({})


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
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Cluster]]:
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
            found[kind] = stack.enter_context(start(folder, settings=settings))
        yield found


def test_both_brokers_let_in_and_refuse_the_same(both: dict[str, Cluster]) -> None:
    theirs, ours = (play(both[kind].broker) for kind in ("real", "wakelog"))
    for asked, said, expected in zip(PLAY, ours, theirs, strict=True):
        assert said == expected, asked
    assert {refusal.split(": ")[1].split()[0] for _, refusal in theirs if refusal} == {
        *("No", "Check", "Need")
    }


def play(address: str) -> list[tuple[int, str]]:
    with RawConnection(address) as connection:
        return [answer(connection, asked) for asked in PLAY]


def answer(connection: RawConnection, asked: Asked) -> tuple[int, str]:
    """Return the code, and the exception of a refusal without the place in Java's sources."""
    signed = {**sign(asked), **asked.unsigned}
    response = connection.ask(asked.code, signed, asked.body)
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
