"""What a consumer answers to brokers, and what it does then."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import cast

import pytest

from tests.client.clusters import NAME_SERVER, messages
from tests.client.group_cluster import SETTLER, GroupCluster, two_queues
from tests.fakes.records import STORE_MS
from wakelog.client import consumer_questions as module
from wakelog.client.consumer import Consumer
from wakelog.client.consumer_message import ConsumerMessage
from wakelog.client.consumer_questions import ConsumerQuestions
from wakelog.client.group_member import GroupMember
from wakelog.client.inbox import Inbox, Queue
from wakelog.client.instance import ClientInstance
from wakelog.client.options import ClientOptions
from wakelog.client.process_queue import ProcessQueue
from wakelog.protocol.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    GetConsumerStatusBody,
    ResetOffsetBody,
    SubscriptionData,
)
from wakelog.protocol.body_codec import MessageQueue, decode_body, encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.record import decode_record

Q0, Q1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)


def run(body: Callable[[GroupCluster, Consumer], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = two_queues()
        given = {"group": "g", "topics": "T", "start": "first", "retries_max": 0}
        async with Consumer(NAME_SERVER, connect=cluster.join, **given) as consumer:  # type: ignore[arg-type]
            await body(cluster, consumer)

    asyncio.run(main())


async def ask(
    cluster: GroupCluster,
    code: RequestCode,
    given: bytes = b"",
    fields: dict[str, str] | None = None,
) -> RemotingCommand | None:
    command = RemotingCommand(int(code), ext_fields=fields or {}, body=given)
    return await cluster.instances[0].answer("a:10911", command)


def test_reset_offsets_count_at_once() -> None:
    async def body(cluster: GroupCluster, consumer: Consumer) -> None:
        old = await consumer.fetch(100)
        new = encode_body(ResetOffsetBody({Q0: 2, MessageQueue("T", "b", 0): 1}))
        assert await ask(cluster, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, new) is None
        await consumer.ack(*old)
        assert (consumer.position(Q0), cluster.committed["g", "a", "T", 0]) == (2, 2)
        again = await consumer.fetch(100)
        assert [(each.queue, each.queue_offset) for each in again if each.queue == Q0] == [
            (Q0, 2), (Q0, 3),
        ]  # fmt: skip

    run(body)


def test_an_operator_sees_the_offsets_and_what_the_consumer_does() -> None:
    async def body(cluster: GroupCluster, consumer: Consumer) -> None:
        found = await consumer.fetch(100)
        while len(found) < 8:
            found += await consumer.fetch(100)
        for message in found:
            if message.queue == Q0:
                await message.ack()
        fields = {"topic": "T", "group": "g"}
        reported = await ask(cluster, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, fields=fields)
        assert reported is not None
        assert decode_body(GetConsumerStatusBody, reported.body).message_queue_table == {
            Q0: 4,
            Q1: 0,
        }
        asked = {"consumerGroup": "g", "jstackEnable": "true"}
        reported = await ask(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, fields=asked)
        assert reported is not None
        info = decode_body(ConsumerRunningInfo, reported.body)
        assert (info.mq_table[Q1]["cachedMsgCount"], info.mq_table[Q0]["commitOffset"]) == (4, 4)
        assert [each.topic for each in info.subscription_set] == ["%RETRY%g", "T"]
        assert info.status_table["T"]["consumeOKTPS"] > 0
        assert info.jstack is not None
        assert "queue_reader.py" in info.jstack

    run(body)


@pytest.mark.parametrize(
    ("settle", "outcome"),
    [
        (ConsumerMessage.ack, "CR_SUCCESS"),
        (ConsumerMessage.nack, "CR_LATER"),
        (ConsumerMessage.reject, "CR_LATER"),
    ],
)
def test_an_operator_has_a_message_consumed(
    settle: Callable[[ConsumerMessage], Awaitable[None]], outcome: str
) -> None:
    async def body(cluster: GroupCluster, consumer: Consumer) -> None:
        consumer.pause()
        [record] = messages(1, first=99)
        code = RequestCode.CONSUME_MESSAGE_DIRECTLY
        asking = asyncio.create_task(ask(cluster, code, record, {"brokerName": "a"}))
        [message] = await consumer.fetch(1)
        assert (message.body, message.queue) == (b"99", Q0)
        await settle(message)
        reported = await asking
        assert reported is not None
        assert reported.code == ResponseCode.SUCCESS
        result = decode_body(ConsumeMessageDirectlyResult, reported.body)
        assert (result.consume_result, result.order) == (outcome, False)
        assert 0 <= result.spent_time_mills < 60_000

    run(body)


def test_a_message_without_a_consumer_comes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakelog.client.consumer_questions.DIRECTLY_SECONDS_MAX", 0.01)

    async def body(cluster: GroupCluster, consumer: Consumer) -> None:
        consumer.pause()
        [record] = messages(1)
        reported = await ask(
            cluster, RequestCode.CONSUME_MESSAGE_DIRECTLY, record, {"brokerName": "a"}
        )
        assert reported is not None
        result = decode_body(ConsumeMessageDirectlyResult, reported.body)
        assert result.consume_result == "CR_LATER"
        assert "neither ack() nor nack()" in str(result.remark)
        assert await consumer.fetch(1, 0.01) == []

    run(body)


AWAY = MessageQueue("U", "a", 0)


def reported(
    is_ordered: bool, taken_ms: int, monkeypatch: pytest.MonkeyPatch
) -> ConsumerRunningInfo:
    """Return what is said ten seconds after the start: of a queue, and of one that leaves.

    taken_ms: when three of four messages were taken, of which one is in hand, one is gone, and one
        came back; 0 if none was.
    """
    clock = {"steady": 1_000}
    monkeypatch.setattr(module, "steady_ms", lambda: clock["steady"])
    monkeypatch.setattr(module, "wall_ms", lambda: STORE_MS + clock["steady"])
    inbox = Inbox()
    instance = SimpleNamespace(
        address="10.0.0.1", options=ClientOptions(("n:1", "m:2"), group="g"),
        connections=None, routes=None,
    )  # fmt: skip
    subscriptions = {name: SubscriptionData(topic=name) for name in ("U", "T")}
    member = SimpleNamespace(subscriptions=subscriptions, is_ordered=is_ordered)
    questions = ConsumerQuestions(
        SETTLER, cast(ClientInstance, instance), cast(GroupMember, member), inbox
    )
    for place, count in ((Q1, 4), (AWAY, 0)):
        held: Queue = ProcessQueue(place, 7, is_ordered=False)
        inbox.add(held)
        records = map(decode_record, messages(count, queue_id=1, first=7))
        held.put([ConsumerMessage(each, place, SETTLER) for each in records], 7 + count)
    inbox.leaving.add(AWAY)
    queue = inbox.queues[Q1]
    queue.pulled_ms = 300
    if taken_ms:
        first, second, _ = queue.take(taken_ms, 3)
        queue.ack([first])
        queue.put_back(second, due_ms=9_000)
    inbox.locked(Q1, 1_000)
    queue.size_bytes, clock["steady"] = 3 << 20, 11_000
    command = RemotingCommand(int(RequestCode.GET_CONSUMER_RUNNING_INFO))
    found = asyncio.run(questions._report_all("a:1", command))
    return decode_body(ConsumerRunningInfo, found.body)


@pytest.mark.parametrize("taken_ms", [0, 400])
@pytest.mark.parametrize("is_ordered", [False, True])
def test_all_that_an_operator_sees(
    is_ordered: bool, taken_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = reported(is_ordered, taken_ms, monkeypatch)
    idle = dict.fromkeys(
        (
            "transactionMsgMinOffset",
            "transactionMsgMaxOffset",
            "tryUnlockTimes",
            "lastLockTimestamp",
        ),
        0,
    )
    nothing = dict.fromkeys(
        ("cachedMsgMinOffset", "cachedMsgMaxOffset", "cachedMsgCount", "cachedMsgSizeInMiB",
         "transactionMsgCount", "lastPullTimestamp", "lastConsumeTimestamp"), 0,
    )  # fmt: skip
    assert info.mq_table == {
        Q1: idle
        | {
            "commitOffset": 8 if taken_ms else 7,
            "cachedMsgMinOffset": 8 if taken_ms else 7,
            "cachedMsgMaxOffset": 10,
            "cachedMsgCount": 3 if taken_ms else 4,
            "cachedMsgSizeInMiB": 3,
            "transactionMsgCount": 1 if taken_ms else 0,
            "locked": True,
            "droped": False,
            "lastPullTimestamp": STORE_MS + 300,
            "lastConsumeTimestamp": STORE_MS + taken_ms if taken_ms else 0,
        },
        AWAY: idle | nothing | {"commitOffset": 7, "locked": False, "droped": True},
    }
    still = {"pullRT": 0.0, "consumeRT": 0.0}
    rates = ("pullTPS", "consumeOKTPS", "consumeFailedTPS", "consumeFailedMsgs")
    figures = (0.3, 0.1, 0.1, 1.0) if taken_ms else (0.0,) * 4
    assert info.status_table == {
        "T": still | dict(zip(rates, figures, strict=True)),
        "U": still | dict.fromkeys(rates, 0.0),
    }
    assert [each.topic for each in info.subscription_set] == ["T", "U"]
    assert info.properties == {
        "PROP_NAMESERVER_ADDR": "n:1;m:2",
        "PROP_CONSUMEORDERLY": "true" if is_ordered else "false",
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_CLIENT_VERSION": "V4_9_3",
        "PROP_CONSUMER_START_TIMESTAMP": str(STORE_MS + 1_000),
        "PROP_THREADPOOL_CORE_SIZE": "1",
        "clientIP": "10.0.0.1",
        "consumerGroup": "g",
    }
    assert info.jstack is None
