"""A broker under hostile frames: it answers, quickly, keeps its invariants and no memory."""

from typing import Any, get_args

import msgspec
import pytest

from tests.broker.access.requests import FILE as ACCOUNTS
from tests.broker.access.requests import LOW, access_control
from tests.broker.harness import (
    NOW_MS,
    FakeChannel,
    Harness,
    Waiting,
    pull_fields,
    send_fields,
    sql_subscription,
    subscription,
)
from tests.hostile_frames import Attack, HostileFrames, Process
from wakelog.broker.decision import (
    AwaitFlush,
    Continue,
    HoldPull,
    Outcome,
    Push,
)
from wakelog.broker.effects import Ask, Dispatched, Work
from wakelog.broker.error_response import error_response
from wakelog.broker.processors.table import PROCESSORS
from wakelog.network.errors import SendFailed
from wakelog.network.signing import Credentials, sign
from wakelog.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    LockBatchRequestBody,
    ProducerData,
    SubscriptionGroupConfig,
    encode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.ext_fields import Header
from wakelog.protocol.names import is_legal_group, is_topic

FRAMES_COUNT = 16_000
SIGNED_FRAMES_COUNT = 3_000
LONG = (pytest.mark.long, pytest.mark.timeout(900))
LONG_FRAMES_COUNT = 800_000

_HEARTBEAT = HeartbeatData(
    "c1",
    [ProducerData("pg")],
    [
        ConsumerData("g", subscription_data_set=[subscription("T", "A||B"), subscription("U")]),
        ConsumerData("h", subscription_data_set=[sql_subscription("a > 1 AND b = 'x'")]),
    ],
)
_LOCKS = LockBatchRequestBody("g", "c1", {MessageQueue("T", "broker-a", n) for n in range(3)})
_BODIES: dict[int, list[bytes]] = {
    Code.HEART_BEAT: [encode_body(_HEARTBEAT)],
    Code.LOCK_BATCH_MQ: [encode_body(_LOCKS)],
    Code.UNLOCK_BATCH_MQ: [encode_body(_LOCKS)],
    Code.UPDATE_BROKER_CONFIG: [
        b"traceOn=true\nbrokerPermission=6\nflushIntervalCommitLog=500",
        b"traceOn=false",
    ],
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: [
        encode_body(SubscriptionGroupConfig("g", retry_queue_nums=2))
    ],
    Code.CHECK_CLIENT_CONFIG: [
        b'{"clientId":"c","group":"g","subscriptionData":{"expressionType":"SQL92",'
        b'"subString":"a > 1","topic":"T"}}'
    ],
}
_VALUES = {
    **{"topic": "T", "consumerGroup": "g", "group": "g", "producerGroup": "pg", "clientId": "c1"},
    **{"clientID": "c1", "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "perm": "6"},
    **{"srcGroup": "g", "destGroup": "h", "statsName": "TOPIC_PUT_NUMS", "statsKey": "T"},
    **{"readQueueNums": "4", "writeQueueNums": "4", "groupName": "g", "maxNum": "32", "count": "9"},
    **{"endTimestamp": str(NOW_MS), "originTopic": "T", "subscription": "*", "key": "k"},
    **{"properties": "KEYS\x01k\x02TAGS\x01A\x02", "offset": "0", "delayLevel": "1"},
}
"""What a valid request has in a field; 0 or false in every other."""

_FILE = ACCOUNTS.replace("[read=SUB,", "[T=PUB|SUB, read=SUB,")
"""The accounts, of which the limited one may send to T and read it."""

_BATCH = b"".join(b"\x00\x00\x00\x1f" + b"\x00" * 8 + b"\x00\x00\x00\x00" for _ in range(2))


def _fields(header: type[Header] | None) -> dict[str, str]:
    if header is None:
        return {}
    fields = {}
    for field in msgspec.structs.fields(header):
        kinds = {field.type, *get_args(field.type)}
        plain = "T" if str in kinds else "false" if bool in kinds else "0"
        fields[field.encode_name] = _VALUES.get(field.encode_name, plain)
    return fields


def valid_requests() -> list[RemotingCommand]:
    """Return a request of every code, sends and pulls in several forms."""
    requests = [
        (code, _fields(row.header), body)
        for code, row in PROCESSORS.items()
        for body in _BODIES.get(code, [b""])
    ]
    properties = "DELAY\x011\x02WAIT\x01true\x02"
    for code in (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE_V2):
        requests += [
            (code, send_fields(), b"body"),
            (code, send_fields(i=properties), b"body"),
            (code, send_fields(m="true"), _BATCH),
            (code, send_fields(i="TRAN_MSG\x01true\x02PGROUP\x01pg\x02", f="4"), b"half"),
        ]
    for changes in ({}, {"sysFlag": 7}, {"expressionType": "SQL92", "subscription": "a > 1"}):
        requests.append((Code.PULL_MESSAGE, pull_fields(**changes), b""))
    whole = {"groupName": "g", "removeOffset": "true"}
    requests.append((Code.DELETE_SUBSCRIPTIONGROUP, whole, b""))
    lowest = {"topic": "T", "filterGroups": "g", "compareGroup": ""}
    requests.append((Code.QUERY_CORRECTION_OFFSET, lowest, b""))
    return [make_request(code, fields, body, opaque=0) for code, fields, body in requests]


class _Core:
    """A broker whose outcomes are carried out at once.

    by: whose signature each frame gets, with access control; None without access control.
    """

    def __init__(self, by: Credentials | None = None) -> None:
        self.harness = Harness(enablePropertyFilter="true")
        self.harness.send("T")
        self.harness.beat("g", subscription())
        self._by = by
        if by is not None:
            self.harness.broker.state.access = access_control(_FILE)
        self._channels = [FakeChannel(number) for number in range(1, 6)]

    def process(self, command: RemotingCommand) -> list[RemotingCommand]:
        harness = self.harness
        harness.now_ms += 1
        channel = self._channels[command.opaque % len(self._channels)]
        if self._by is not None:
            command = sign(command, self._by)
        outcome = self._settled(command, harness.broker.process(command, channel, harness.now_ms))
        sent = [outcome] if isinstance(outcome, RemotingCommand) else []
        for instruction in harness.broker.take_instructions():
            if isinstance(instruction, Push):
                sent.append(instruction.command)
            assert not isinstance(instruction, Continue)
        if command.opaque % 500 == 0:
            harness.broker.channel_closed(channel, harness.now_ms)
            harness.broker.tick(harness.now_ms)
        return sent

    def validate(self) -> None:
        harness = self.harness
        harness.validate()
        # What was put may become a path; what was committed becomes a line of a file.
        for topic, queue_id in harness.store.queues_by_name:
            assert is_topic(topic), topic
            assert 0 <= queue_id < 1 << 31
        for group, topic, _ in harness.broker.state.offsets.committed():
            assert is_topic(topic), topic
            assert is_legal_group(group), group

    def _settled(self, command: RemotingCommand, given: Outcome | Work) -> Any:
        harness = self.harness
        try:
            outcome = harness.settle(given)
            while isinstance(outcome, Waiting):
                match outcome.effect:
                    case Ask():
                        outcome = harness.resume(outcome, error=SendFailed("c", "closed"))
                    case Dispatched():
                        return None
                    case _:
                        outcome = harness.resume(outcome, "")
        except Exception as error:
            return error_response(command, error)
        if isinstance(outcome, AwaitFlush):
            return outcome.response
        return None if isinstance(outcome, HoldPull) else outcome


@pytest.mark.slow
@pytest.mark.parametrize("count", [FRAMES_COUNT, pytest.param(LONG_FRAMES_COUNT, marks=LONG)])
def test_hostile_frames_are_answered_quickly_and_leave_nothing(count: int) -> None:
    attack = _attacked(None, count)
    assert attack.closed_count > count // 100
    assert attack.codes[ResponseCode.SUCCESS] > count // 10
    assert attack.codes[ResponseCode.SYSTEM_ERROR] > count // 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "count", [SIGNED_FRAMES_COUNT, pytest.param(LONG_FRAMES_COUNT // 10, marks=LONG)]
)
def test_hostile_frames_that_a_limited_account_has_signed_do_no_more(count: int) -> None:
    attack = _attacked(LOW, count)
    assert attack.codes[ResponseCode.SUCCESS] > count // 10
    assert attack.codes[ResponseCode.SYSTEM_ERROR] > count // 4  # with all administration


def _attacked(by: Credentials | None, count: int) -> Attack:
    """Attack brokers; return what became of it once all that has to hold was checked."""
    cores: list[_Core] = []

    def make_core() -> Process:
        for core in cores:
            core.validate()
        cores[:] = [_Core(by)]
        return cores[0].process

    attack = Attack(make_core)
    attack.run(HostileFrames(valid_requests()), count)
    cores[0].validate()
    attack.check()
    return attack


def test_most_requests_are_valid_before_something_is_made_wrong() -> None:
    """Without this the test above could pass by refusing everything."""
    core = _Core()
    successful = set()
    for request in valid_requests():
        codes = {sent.code for sent in core.process(request) if sent.is_response}
        if ResponseCode.SUCCESS in codes:
            successful.add(request.code)
    assert len(successful) > 35, sorted(PROCESSORS.keys() - successful)
