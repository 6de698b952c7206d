"""Requests that are made to cost much: every code, and every field at its limit and beyond.

A table of well-formed or odd requests, each with the name by which a failure is found. `attacks`
makes them for a broker that knows the topic T and the group g.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.broker.harness import pull_fields, send_fields
from wakelog.broker.processors.table import PROCESSORS
from wakelog.filter.limits import CHARACTERS_MAX, WORDS_MAX
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.fastjson import CHARACTERS_MAX as DIALECT_CHARACTERS_MAX
from wakelog.protocol.fastjson import ENTRIES_MAX


class Attack(NamedTuple):
    """One request."""

    name: str
    code: int
    fields: dict[str, str]
    body: bytes = b""


EXPRESSIONS = {
    "a chain of OR": " OR ".join(["a"] * (WORDS_MAX // 2)),
    "a chain of AND": " AND ".join(f"a > {number}" for number in range(WORDS_MAX // 5)),
    "too many words": "a OR " * (CHARACTERS_MAX // 5),
    "a long list": "a IN (" + ",".join(["'x'"] * (WORDS_MAX // 2 - 4)) + ")",
    "parentheses": "(" * (WORDS_MAX // 2) + "a" + ")" * (WORDS_MAX // 2),
    "open parentheses": "(" * CHARACTERS_MAX,
    "negations": "NOT " * (WORDS_MAX - 1) + "a",
    "comments that do not end": "a = 1 " + "--" * (CHARACTERS_MAX // 2 - 4),
    "quotes": "'" * (CHARACTERS_MAX - 1),
    "tabs": "a = 1 " + "\t" * (CHARACTERS_MAX - 10) + "\x01",
    "a wrong end": "a > 1 AND " * (WORDS_MAX // 5) + "b =",
    "a long word": "a" * CHARACTERS_MAX,
    "a long number": "9" * CHARACTERS_MAX,
}


def _subscription(topic: str, text: str, kind: str = "SQL92") -> dict[str, object]:
    return {"topic": topic, "subString": text, "expressionType": kind, "subVersion": 1}


def _beat(*groups: tuple[str, list[dict[str, object]]]) -> bytes:
    consumers = [{"groupName": name, "subscriptionDataSet": wanted} for name, wanted in groups]
    return json.dumps({"clientID": "c", "consumerDataSet": consumers}).encode()


def _queues(count: int) -> list[dict[str, object]]:
    return [{"topic": "T", "brokerName": "b", "queueId": number} for number in range(count)]


def _heartbeats() -> Iterator[tuple[str, bytes]]:
    for name, text in EXPRESSIONS.items():
        yield f"{name} in a heartbeat", _beat(("g", [_subscription("T", text)]))
    many = [_subscription(f"t{number}", f"a = {number}") for number in range(1_000)]
    yield "short expressions", _beat(("g", many))
    tagged = [_subscription("T", "*", "TAG")]
    yield "groups", _beat(*((f"g{number}", tagged) for number in range(2_000)))
    yield "groups without subscriptions", _beat(*((f"g{number}", []) for number in range(20_000)))
    yield "one group again and again", _beat(*[("g", [])] * 20_000)
    tags = [f"t{number}" for number in range(60_000)]
    yield "tags", _beat(("g", [_subscription("T", "*", "TAG") | {"tagsSet": tags}]))
    producers = [{"groupName": f"p{number}"} for number in range(20_000)]
    yield "producers", json.dumps({"clientID": "c", "producerDataSet": producers}).encode()


_READ_TOLERANTLY = (Code.HEART_BEAT, Code.LOCK_BATCH_MQ, Code.CHECK_CLIENT_CONFIG)

_JSON = {
    "arrays that stay open": b"[" * 1_000_000,
    "objects that stay open": b'{"a":' * 200_000,
    "numbers": b"[" + b",".join([b"1"] * 60_000) + b"]",
    "many fields": b"{" + b",".join(b'"%d":1' % number for number in range(60_000)) + b"}",
    "a long string": b'{"a":"' + b"x" * 1_000_000 + b'"}',
    "escapes": b"{'a':'" + b"\\u0041" * (DIALECT_CHARACTERS_MAX // 6 - 3) + b"'}",
    "the dialect": b"{" + b",".join(b"%d:1" % number for number in range(ENTRIES_MAX)) + b"}",
    "too much of the dialect": b"{a:[" + b"1," * 50_000,
}
_BODIES = {
    "no JSON": bytes(range(256)) * 4_000,
    "lines": b"a=b\n" * 200_000,
    "zeros": bytes(1_000_000),
    "numbers": b"[" + b",".join([b"1"] * 60_000) + b"]",
    "a long string": b'{"a":"' + b"x" * 1_000_000 + b'"}',
}

_LONG = "x" * 100_000
_VALUES = {
    "long values": _LONG,
    "greatest numbers": "9223372036854775807",
    "least numbers": "-9223372036854775808",
    "int's greatest": "2147483647",
    "lists": ",".join(f"g{number}" for number in range(20_000)),
    "separators": "\x01\x02" * 30_000,
}


def _names(code: int) -> list[str]:
    header = PROCESSORS[code].header
    return [] if header is None else list(header.__struct_encode_fields__)


def _base(code: int) -> dict[str, str]:
    if code == Code.PULL_MESSAGE:
        return pull_fields()
    sends = (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE_V2)
    return send_fields() if code in sends else {}


def attacks() -> Iterator[Attack]:
    """Yield every attack."""
    for name, body in _heartbeats():
        yield Attack(name, Code.HEART_BEAT, {}, body)
    for name, text in EXPRESSIONS.items():
        checked = json.dumps({"subscriptionData": _subscription("T", text)}).encode()
        yield Attack(f"{name} to check", Code.CHECK_CLIENT_CONFIG, {}, checked)
        fields: dict[str, Any] = {"subscription": text, "expressionType": "SQL92", "sysFlag": 4}
        yield Attack(f"{name} in a pull", Code.PULL_MESSAGE, pull_fields(**fields))
    locks = {"consumerGroup": "g", "clientId": "c", "mqSet": _queues(5_000)}
    for code in (Code.LOCK_BATCH_MQ, Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ):
        yield Attack("many queues", code, {}, json.dumps(locks).encode())
    batch = (b"\0\0\0\x15" + bytes(17)) * 40_000
    yield Attack("a batch of empty messages", Code.SEND_BATCH_MESSAGE, send_fields(m="true"), batch)
    keys = "KEYS\x01" + " ".join(["k"] * 16_000)
    yield Attack("many keys", Code.SEND_MESSAGE_V2, send_fields(i=keys), b"b")
    pairs = "\x02".join(f"k{number}\x01v" for number in range(5_000))
    yield Attack("many properties", Code.SEND_MESSAGE_V2, send_fields(i=pairs), b"b")
    for number in sorted(PROCESSORS):
        code = Code(number)
        base, names = _base(code), _names(code)
        for name, body in (_JSON if code in _READ_TOLERANTLY else _BODIES).items():
            yield Attack(name, code, base, body)
        for name, value in _VALUES.items():
            yield Attack(name, code, base | dict.fromkeys(names[:2], value))
            yield Attack(f"{name} everywhere", code, base | dict.fromkeys(names, value))
