"""What guards against a crowd: one ordinary client alone meets no wait from any of it."""

import ast
import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import GeneratorType

import pytest

import wakelog
from tests.broker.harness import (
    FakeChannel,
    Harness,
    Waiting,
    begun,
    pull_fields,
    send_fields,
    subscription,
)
from wakelog.broker.decision import HoldPull, Lane, Outcome
from wakelog.broker.effects import Ask, InPool, Work, WorkKind
from wakelog.broker.processors.table import PROCESSORS
from wakelog.protocol.batch import encode_batch_body
from wakelog.protocol.bodies import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    LockBatchRequestBody,
    ProducerData,
    encode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.command import RemotingCommand

V1 = {
    "producerGroup": "pg",
    "topic": "T",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "0",
    "sysFlag": "0",
    "bornTimestamp": "1600000000000",
    "flag": "0",
    "properties": "UNIQ_KEY\x010A",
    "reconsumeTimes": "0",
    "unitMode": "false",
    "batch": "false",
}
AT = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
QUEUES = {MessageQueue("T", "broker-a", queue_id) for queue_id in range(8)}
LOCKS = encode_body(LockBatchRequestBody("g", "c1", QUEUES))
REPLY = "REPLY_TO_CLIENT\x01p1\x02CORRELATION_ID\x017"
BEAT = HeartbeatData(
    "c1",
    [ProducerData("pg")],
    [ConsumerData("g", subscription_data_set=[subscription(), subscription("%RETRY%g")])],
)
CHECKED = CheckClientRequestBody("c1", "g", subscription())
BATCH = encode_batch_body([(0, b"a", b""), (0, b"b", b"")])
HALF = "TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01K"

Given = tuple[dict[str, str], bytes]
REQUESTS: dict[int, Given] = {
    Code.SEND_MESSAGE: (V1, b"b"),
    Code.SEND_MESSAGE_V2: (send_fields(), b"b"),
    Code.SEND_BATCH_MESSAGE: (send_fields(m="true"), BATCH),
    Code.SEND_REPLY_MESSAGE: (V1 | {"properties": REPLY}, b"b"),
    Code.SEND_REPLY_MESSAGE_V2: (send_fields(i=REPLY), b"b"),
    Code.CONSUMER_SEND_MSG_BACK: ({"offset": "0", "group": "g", "delayLevel": "0"}, b""),
    Code.PULL_MESSAGE: (pull_fields(), b""),
    Code.QUERY_MESSAGE: (
        {"topic": "T", "key": "k", "maxNum": "1", "beginTimestamp": "1", "endTimestamp": "9"},
        b"",
    ),
    Code.VIEW_MESSAGE_BY_ID: ({"offset": "0"}, b""),
    Code.QUERY_CONSUMER_OFFSET: (AT, b""),
    Code.UPDATE_CONSUMER_OFFSET: (AT | {"commitOffset": "1"}, b""),
    Code.HEART_BEAT: ({}, encode_body(BEAT)),
    Code.UNREGISTER_CLIENT: ({"clientID": "c1", "consumerGroup": "g"}, b""),
    Code.GET_CONSUMER_LIST_BY_GROUP: ({"consumerGroup": "g"}, b""),
    Code.CHECK_CLIENT_CONFIG: ({}, encode_body(CHECKED)),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: ({"topic": "T", "queueId": "0", "timestamp": "1"}, b""),
    Code.GET_MAX_OFFSET: ({"topic": "T", "queueId": "0"}, b""),
    Code.GET_MIN_OFFSET: ({"topic": "T", "queueId": "0"}, b""),
    Code.LOCK_BATCH_MQ: ({}, LOCKS),
    Code.UNLOCK_BATCH_MQ: ({}, LOCKS),
}
CONSUMER_CODES_OF_ADMIN = (
    *(Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET),
    *(Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ),
)
CLIENT_CODES = sorted(
    {code for code, row in PROCESSORS.items() if row.lane != Lane.ADMIN}
    | {int(code) for code in CONSUMER_CODES_OF_ADMIN}
)
WORKS_ELSEWHERE: dict[int, type] = {
    Code.QUERY_MESSAGE: InPool,  # the index may be on the disk alone
    Code.VIEW_MESSAGE_BY_ID: InPool,
    Code.CONSUMER_SEND_MSG_BACK: InPool,
    Code.SEARCH_OFFSET_BY_TIMESTAMP: InPool,
    Code.SEND_REPLY_MESSAGE: Ask,  # who waits for the reply
    Code.SEND_REPLY_MESSAGE_V2: Ask,
}
ONE_WAY = {Code.UPDATE_CONSUMER_OFFSET}  # as consumers commit; one that is awaited waits for a save


def end_of_half(harness: Harness) -> Given:
    sent = harness.send("T", b"half", i=HALF, f="4")
    fields = {
        "producerGroup": "pg",
        "tranStateTableOffset": sent.ext_fields["queueOffset"],
        "commitLogOffset": str(int(sent.ext_fields["msgId"][16:], 16)),
        "commitOrRollback": "8",
        "fromTransactionCheck": "false",
        "msgId": "K",
    }
    return fields, b""


MADE: dict[int, Callable[[Harness], Given]] = {Code.END_TRANSACTION: end_of_half}


def at_once(outcome: Outcome | Work) -> object:
    """Return what a request comes to in its first piece: its outcome, or an effect."""
    found = Waiting(None, outcome).resume() if isinstance(outcome, GeneratorType) else outcome
    return found.effect if isinstance(found, Waiting) else found


@pytest.mark.parametrize("code", CLIENT_CODES)
def test_a_client_alone_is_answered_in_the_turn_of_its_request(code: int) -> None:
    harness = Harness()
    harness.beat_producer("pg", FakeChannel(5))
    harness.send("T", i="UNIQ_KEY\x010A\x02KEYS\x01k")
    harness.ask(Code.HEART_BEAT, body=encode_body(BEAT))
    harness.ask(Code.UPDATE_CONSUMER_OFFSET, AT | {"commitOffset": "1"})
    for _ in range(3):  # the first one may make a topic, which is saved and registered
        fields, body = MADE[code](harness) if code in MADE else REQUESTS[code]
        harness.instructions()
        due_ms = harness.broker.next_tick_ms()
        request = harness.request(code, fields, body, oneway=code in ONE_WAY)
        found = at_once(harness.broker.process(request, harness.channel, harness.now_ms))
        if code == Code.UNREGISTER_CLIENT:
            harness.ask(Code.HEART_BEAT, body=encode_body(BEAT))
    answer = type(None) if code in ONE_WAY else RemotingCommand
    assert type(found) is WORKS_ELSEWHERE.get(Code(code), answer), found
    assert harness.broker.next_tick_ms() == due_ms
    if isinstance(found, RemotingCommand):
        assert found.code == 0, found.remark


def test_a_pull_that_finds_nothing_is_held_by_nothing_but_the_queue() -> None:
    harness = Harness()
    harness.send("T")
    harness.beat("g", subscription())
    assert isinstance(harness.pull(queueOffset=1, sysFlag=0x2 | 0x4), HoldPull)


def test_a_client_that_queries_waits_for_no_search_of_a_tool() -> None:
    """Short reads are shared. 4.9.3 has other threads for tools, too."""
    kinds: dict[bool, set[WorkKind]] = {True: set(), False: set()}
    harness = Harness()
    harness.send("T", i="UNIQ_KEY\x010A\x02KEYS\x01k")
    harness.beat("g", subscription())
    harness.ask(Code.UPDATE_CONSUMER_OFFSET, AT | {"commitOffset": "1"})
    words = AT | {"group": "g", "topicName": "T", "timestamp": "1", "isForce": "true"}
    for code in sorted(PROCESSORS):
        fields, body = REQUESTS.get(code, (words, b""))
        found = harness.broker.process(
            harness.request(code, fields, body), harness.channel, harness.now_ms
        )
        outcome = begun(found)
        if isinstance(outcome, Waiting) and isinstance(outcome.effect, InPool):
            kinds[code in CLIENT_CODES].add(outcome.effect.kind)
    assert WorkKind.SEARCH in kinds[True] and WorkKind.SURVEY in kinds[False]
    assert kinds[True] & kinds[False] <= {WorkKind.READ}


# What is written of each.

PACKAGES = ("broker", "network", "nameserver", "client", "filter", "actors")
WAITS = re.compile(
    r"(^|_)(PERIOD|PAUSE|REST|AGAIN|STAGGER|RETRY|WAIT|STEPS|RESULTS|FLUSH|YIELD|WATCH|NEW_TOPIC)"
    r"(_[A-Z_]+)?_(MS|SECONDS)(_MIN|_MAX)?$|^STEP_MS$|_PER_TURN$|_PER_STEP$"
)
SECTION = "## What an ordinary client pays"


def waits() -> Iterator[str]:
    """Yield each constant of the code whose name says that something waits, as MODULE.NAME."""
    for package in PACKAGES:
        [path] = importlib.import_module(f"wakelog.{package}").__path__
        for module in pkgutil.walk_packages([path], f"wakelog.{package}."):
            spec = importlib.util.find_spec(module.name)
            assert spec is not None and spec.origin is not None
            for node in ast.parse(Path(spec.origin).read_text()).body:
                targets = node.targets if isinstance(node, ast.Assign) else []
                targets += [node.target] if isinstance(node, ast.AnnAssign) else []
                for target in targets:
                    if isinstance(target, ast.Name) and WAITS.search(target.id):
                        yield f"{module.name.rsplit('.', 1)[1]}.{target.id}"


def test_every_wait_of_the_code_is_in_the_table_of_what_it_costs() -> None:
    text = (Path(wakelog.__path__[0]).parent / "docs" / "overload.md").read_text()
    section = text.split(SECTION, 1)[1].split("\n## ", 1)[0]
    written = set(re.findall(r"`([a-z_]+\.[A-Z_]+)`", section))
    found = {name for name in waits() if not name.endswith("_PER_STEP")}
    assert "`*_PER_STEP`" in section
    assert sorted(found - written) == [], "add a row: what does it cost a client that is alone?"
    assert sorted(written - found) == [], "the code has no such wait any more"
