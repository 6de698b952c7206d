"""Bodies that no decoder can read go where the user said, with place and reason; none is lost."""

import asyncio
import json
import zlib
from typing import Any

import pytest
from faststream import AckPolicy
from faststream.message import StreamMessage

from tests.faststream.applications import Lines, broker_of, dead_letters, run
from tests.faststream.waiting import until, until_count
from wakelog.client import Message, Producer
from wakelog.client.messages import EncodedMessage, SendRequest, encode
from wakelog.faststream import RocketMQBroker, RocketMQMessage, TestRocketMQBroker
from wakelog.faststream.bad_body import BadBodies
from wakelog.faststream.testing import NoSettler
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED
from wakelog.testing import EmbeddedBroker

pytestmark = pytest.mark.slow
JSON = {"content-type": "application/json"}


async def send_bad(cluster: EmbeddedBroker, topic: str) -> None:
    """Send what is said to be JSON and is none, what is, and bytes that cannot be inflated."""
    async with Producer(cluster.name_server) as producer:
        await producer.send(topic, b"{", properties=JSON, queue=("", 0))
        await producer.send(topic, b'{"a": 1}', properties=JSON, queue=("", 0))
        whole = encode(Message(topic, b"x", properties=JSON, queue=("", 0)), f"{0:032X}")
        damaged = whole._replace(body=zlib.compress(b"x" * 99)[:-9], sys_flag=MESSAGE_COMPRESSED)
        await send_encoded(producer, damaged)


async def send_encoded(producer: Producer, message: EncodedMessage) -> None:
    await producer._sender.send(SendRequest((message._replace(is_alone=True),)))


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("goes", ["skip", "dead_letters"])
@pytest.mark.parametrize("policy", [AckPolicy.NACK_ON_ERROR, AckPolicy.MANUAL])
def test_unreadable_bodies_go_where_the_user_said(
    cluster: EmbeddedBroker, topic: str, goes: Any, batch: bool, policy: AckPolicy
) -> None:
    group, logger = f"{topic}-group", Lines()
    broker = broker_of(cluster, logger=logger, bad_body=goes)
    found = list[Any]()

    @broker.subscriber(topic, group_id=group, batch=batch, ack_policy=policy, start="first")
    async def take(body: Any, message: RocketMQMessage) -> None:
        found.extend(body if batch else [body])
        await message.ack()

    async def body() -> None:
        await send_bad(cluster, topic)
        await until(lambda: len(logger.having("unreadable body")) == 2)
        await until_count(found, 1)

    async def receive_nothing() -> None:
        await asyncio.sleep(0.1)

    run(broker, body, receive_nothing)
    assert found == [{"a": 1}]
    word = "skipped" if goes == "skip" else "a dead letter"
    first, second = sorted(logger.having("unreadable body"))
    assert f"at offset 0 of queue 0 of topic {topic} at broker-a, {word}: JSONDecodeError" in first
    assert f"at offset 2 of queue 0 of topic {topic} at broker-a, {word}: ClientError" in second
    assert len(dead_letters(cluster, group)) == (0 if goes == "skip" else 2)
    assert goes == "skip" or b"{" in dead_letters(cluster, group)


@pytest.mark.parametrize(
    ("policy", "dead"), [(AckPolicy.REJECT_ON_ERROR, 2), (AckPolicy.NACK_ON_ERROR, 0)]
)
def test_raise_is_the_way_of_every_error(
    cluster: EmbeddedBroker, topic: str, policy: AckPolicy, dead: int
) -> None:
    group, logger, found = f"{topic}-group", Lines(), list[Any]()
    broker = broker_of(cluster, logger=logger)

    @broker.subscriber(topic, group_id=group, ack_policy=policy, start="first")
    async def take(body: Any) -> None:
        found.append(body)

    async def body() -> None:
        await send_bad(cluster, topic)
        await until_count(found, 1)
        await until(lambda: logger.having("JSONDecodeError:") and logger.having("ClientError:"))
        if dead:
            await until(lambda: len(dead_letters(cluster, group)) == dead)
        else:
            await until(lambda: len(cluster.messages("SCHEDULE_TOPIC_XXXX")) >= 2)

    run(broker, body)
    assert found == [{"a": 1}]
    assert len(dead_letters(cluster, group)) == dead


def test_a_decoder_of_the_user_is_asked(cluster: EmbeddedBroker, topic: str) -> None:
    group, found = f"{topic}-group", list[Any]()

    async def decoder(message: StreamMessage[Any]) -> Any:
        return json.loads(message.body)["value"]

    broker = broker_of(cluster)

    @broker.subscriber(
        topic, group_id=group, bad_body="dead_letters", decoder=decoder, start="first"
    )
    async def take(value: int) -> None:
        found.append(value)

    async def body() -> None:
        await broker.publish({"value": 1}, topic)
        await broker.publish({"other": 2}, topic)
        await until_count(found, 1)
        await until(lambda: dead_letters(cluster, group))

    run(broker, body)
    assert (found, dead_letters(cluster, group)) == ([1], [b'{"other":2}'])


def test_a_dead_letter_that_no_broker_takes_is_not_acknowledged(
    cluster: EmbeddedBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = list[str]()

    async def refuse(self: BadBodies, raw: Any, error: Exception) -> None:
        attempts.append(raw.message_id)
        if len(attempts) == 1:
            raise OSError("the disk is full")
        await raw.reject()

    monkeypatch.setattr(BadBodies, "settle", refuse)
    group = f"{topic}-group"
    broker = broker_of(cluster, bad_body="dead_letters", ack_policy=AckPolicy.NACK_ON_ERROR)

    @broker.subscriber(topic, group_id=group, start="first")
    async def take(body: Any) -> None: ...

    async def body() -> None:
        await broker.publish(b"{", topic, headers=JSON)
        await until_count(attempts, 1)
        await until(lambda: cluster.messages(f"%RETRY%{group}") or _delayed(cluster, topic))
        await asyncio.to_thread(cluster.advance, 20)
        await until(lambda: dead_letters(cluster, group))

    run(broker, body)
    assert dead_letters(cluster, group) == [b"{"]
    assert len(set(attempts)) == 1


def _delayed(cluster: EmbeddedBroker, topic: str) -> list[Any]:
    found = cluster.messages("SCHEDULE_TOPIC_XXXX")
    return [one for one in found if one.properties.get("RETRY_TOPIC") == topic]


@pytest.mark.parametrize("policy", [AckPolicy.ACK, AckPolicy.NACK_ON_ERROR])
@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(("goes", "word"), [("skip", "ack"), ("dead_letters", "reject")])
def test_an_unreadable_body_is_settled_once(
    goes: Any, word: str, batch: bool, policy: AckPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = list[str]()
    for name in ("ack", "nack", "reject"):

        async def note(self: NoSettler, *_: Any, name: str = name) -> None:
            done.append(name)

        monkeypatch.setattr(NoSettler, name, note)
    broker = RocketMQBroker(logger=None, bad_body=goes, ack_policy=policy)

    @broker.subscriber("T", batch=batch)
    async def take(body: Any) -> None: ...

    async def body() -> None:
        async with TestRocketMQBroker(broker):
            await broker.publish(b"{", "T", headers=JSON)
            take.mock.assert_not_called()

    asyncio.run(body())
    assert done == [word]
