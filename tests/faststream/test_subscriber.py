"""Subscribers beside a broker: what comes, in which order, and how each message ends."""

import asyncio
from typing import Any

import pytest
from faststream import AckPolicy, Context, Depends
from faststream.exceptions import (
    AckMessage,
    NackMessage,
    RejectMessage,
    SetupError,
    StopConsume,
)
from pydantic import BaseModel

from tests.faststream.applications import Lines, broker_of, dead_letters, run
from tests.faststream.waiting import until, until_count
from wakelog.client import ClientError
from wakelog.client.admin import Admin
from wakelog.faststream import RocketMQBroker, RocketMQMessage, RocketMQResponse
from wakelog.faststream import subscriber as module
from wakelog.faststream.annotations import Consumer
from wakelog.testing import EmbeddedBroker

pytestmark = pytest.mark.slow


class Order(BaseModel):
    number: int
    paid: bool = False


def test_a_function_gets_models_dependencies_and_context(
    cluster: EmbeddedBroker, topic: str
) -> None:
    broker, found = broker_of(cluster), list[Any]()

    async def shop() -> str:
        return "north"

    @broker.subscriber(topic)
    async def take(
        order: Order,
        message: RocketMQMessage,
        consumer: Consumer,
        shop: str = Depends(shop),
        tenant: str = Context("message.headers.tenant"),
    ) -> None:
        [raw] = message.raw_messages
        found.append((order, raw.tags, raw.keys, shop, tenant, consumer.is_open))

    async def body() -> None:
        order = Order(number=4711, paid=True)
        await broker.publish(order, topic, tags="paid", keys="4711", headers={"tenant": "a"})
        await until_count(found, 1)

    run(broker, body)
    assert found == [(Order(number=4711, paid=True), "paid", ["4711"], "north", "a", True)]


def test_one_function_consumes_several_topics(cluster: EmbeddedBroker, topic: str) -> None:
    broker, found = broker_of(cluster), list[str]()
    other = f"{topic}-other"

    @broker.subscriber(topic, other)
    async def take(body: str) -> None:
        found.append(body)

    async def body() -> None:
        await broker.publish("a", topic)
        await broker.publish("b", other)
        await until_count(found, 2)

    run(broker, body)
    assert sorted(found) == ["a", "b"]


def test_each_function_of_a_topic_gets_every_message_and_a_group_shares_them(
    cluster: EmbeddedBroker, topic: str
) -> None:
    broker, found = broker_of(cluster), list[tuple[str, str]]()

    @broker.subscriber(topic)
    async def first(body: str) -> None:
        found.append(("first", body))

    @broker.subscriber(topic, group_id=f"{topic}-shared")
    async def second(body: str) -> None:
        found.append(("shared", body))

    @broker.subscriber(topic, group_id=f"{topic}-shared")
    async def third(body: str) -> None:
        found.append(("shared", body))

    async def body() -> None:
        for number in range(8):
            await broker.publish(str(number), topic)
        await until(lambda: len(set(found)) == 16)  # a queue that changes hands gives some again

    run(broker, body)
    assert set(found) == {(name, str(n)) for name in ("first", "shared") for n in range(8)}


def test_a_batch_is_one_list(cluster: EmbeddedBroker, topic: str) -> None:
    broker, found = broker_of(cluster), list[int]()
    sizes = list[int]()

    @broker.subscriber(topic, batch=True, max_records=3)
    async def take(numbers: list[int], message: RocketMQMessage) -> None:
        sizes.append(len(numbers))
        found.extend(numbers)
        assert [int(raw.body) for raw in message.raw_messages] == numbers

    async def body() -> None:
        await broker.publish_batch(*range(20), topic=topic)
        await until(lambda: len(found) == 20)

    run(broker, body)
    assert sorted(found) == list(range(20))
    assert max(sizes) == 3


@pytest.mark.parametrize("wanted", [{"tags": "paid || late"}, {"sql": "amount > 100"}])
def test_a_filter_leaves_out_what_is_not_wanted(
    cluster: EmbeddedBroker, topic: str, wanted: Any
) -> None:
    broker, found = broker_of(cluster), list[str]()

    @broker.subscriber(topic, **wanted)
    async def take(body: str) -> None:
        found.append(body)

    async def body() -> None:
        for tags, amount in (("paid", 200), ("open", 50), ("late", 300)):
            await broker.publish(tags, topic, tags=tags, headers={"amount": amount})
        await until_count(found, 2)

    run(broker, body)
    assert sorted(found) == ["late", "paid"]


def test_messages_of_a_key_stay_in_order(cluster: EmbeddedBroker, topic: str) -> None:
    broker, found = broker_of(cluster), list[tuple[str, int]]()
    running = set[str]()

    @broker.subscriber(topic, ordered=True, max_workers=4)
    async def take(number: int, message: RocketMQMessage) -> None:
        [key] = message.raw_message.keys
        assert key not in running
        running.add(key)
        await asyncio.sleep(0.001)
        found.append((key, number))
        running.remove(key)

    async def body() -> None:
        for number in range(5):
            for key in ("a", "b", "c"):
                await broker.publish(number, topic, key=key)
        await until_count(found, 15)

    run(broker, body)
    for key in ("a", "b", "c"):
        assert [number for one, number in found if one == key] == list(range(5))


@pytest.mark.parametrize("workers", [1, 3])
def test_as_many_functions_run_at_a_time_as_there_are_workers(
    cluster: EmbeddedBroker, topic: str, workers: int
) -> None:
    broker, running, most = broker_of(cluster), set[int](), list[int]()

    @broker.subscriber(topic, max_workers=workers)
    async def take(number: int) -> None:
        running.add(number)
        for _ in range(20):
            await asyncio.sleep(0.001)
        most.append(len(running))
        running.remove(number)

    async def body() -> None:
        await broker.publish_batch(*range(9), topic=topic)
        await until_count(most, 9)

    run(broker, body)
    assert max(most) == workers


# How a message ends


class Failing:
    """A subscriber whose function raises what it is told to, and counts its calls."""

    def __init__(self, cluster: EmbeddedBroker, topic: str, error: Exception, **given: Any) -> None:
        self.broker = broker_of(cluster)
        self.group = f"{topic}-group"
        self.attempts = list[int]()

        @self.broker.subscriber(topic, group_id=self.group, **given)
        async def take(body: str, message: RocketMQMessage) -> None:
            self.attempts.append(message.raw_message.reconsume_times)
            if message.raw_message.reconsume_times == 0:
                raise error

        self.take = take


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, ValueError("x")),
        ({"ack_policy": AckPolicy.NACK_ON_ERROR}, ValueError("x")),
        ({"ack_policy": AckPolicy.ACK}, NackMessage(delay=0.001)),
    ],
)
def test_what_fails_is_delivered_again(
    cluster: EmbeddedBroker, topic: str, given: Any, error: Exception
) -> None:
    failing = Failing(cluster, topic, error, **given)

    async def body() -> None:
        await failing.broker.publish("x", topic)
        await until_count(failing.attempts, 1)
        await until(lambda: cluster.messages("SCHEDULE_TOPIC_XXXX"))
        await asyncio.to_thread(cluster.advance, 20)
        await until_count(failing.attempts, 2)

    run(failing.broker, body)
    assert failing.attempts == [0, 1]
    assert dead_letters(cluster, failing.group) == []


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        (AckPolicy.REJECT_ON_ERROR, ValueError("x")),
        (AckPolicy.NACK_ON_ERROR, RejectMessage()),
    ],
)
def test_what_is_rejected_is_a_dead_letter(
    cluster: EmbeddedBroker, topic: str, policy: AckPolicy, error: Exception
) -> None:
    failing = Failing(cluster, topic, error, ack_policy=policy)

    async def body() -> None:
        await failing.broker.publish("x", topic)
        await until(lambda: dead_letters(cluster, failing.group))

    run(failing.broker, body)
    assert failing.attempts == [0]
    assert dead_letters(cluster, failing.group) == [b"x"]


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        (AckPolicy.ACK, ValueError("x")),
        (AckPolicy.ACK_FIRST, ValueError("x")),
        (AckPolicy.NACK_ON_ERROR, AckMessage()),
    ],
)
def test_what_is_acknowledged_comes_no_more(
    cluster: EmbeddedBroker, topic: str, policy: AckPolicy, error: Exception
) -> None:
    failing = Failing(cluster, topic, error, ack_policy=policy)
    again = Failing(cluster, topic, error, ack_policy=policy)

    async def body() -> None:
        await failing.broker.publish("x", topic)
        await until_count(failing.attempts, 1)

    async def body_again() -> None:
        await again.broker.publish("y", topic)
        await until_count(again.attempts, 1)

    run(failing.broker, body)
    run(again.broker, body_again)
    assert dead_letters(cluster, failing.group) == []


def test_a_message_that_is_not_settled_comes_again(cluster: EmbeddedBroker, topic: str) -> None:
    broker, found = broker_of(cluster), list[str]()

    @broker.subscriber(topic, group_id=f"{topic}-group", ack_policy=AckPolicy.MANUAL)
    async def take(body: str, message: RocketMQMessage) -> None:
        found.append(body)
        if len(found) > 1:
            await message.ack()
            await message.nack()  # it does nothing now

    async def send() -> None:
        await broker.publish("x", topic)
        await until_count(found, 1)

    async def receive() -> None:
        await until_count(found, 2)

    async def send_another() -> None:
        await broker.publish("y", topic)
        await until_count(found, 3)

    run(broker, send, receive, send_another)
    assert found == ["x", "x", "y"]


def test_a_batch_ends_as_a_whole(cluster: EmbeddedBroker, topic: str) -> None:
    broker, group = broker_of(cluster), f"{topic}-group"

    @broker.subscriber(topic, group_id=group, batch=True, ack_policy=AckPolicy.REJECT_ON_ERROR)
    async def take(bodies: list[str]) -> None:
        raise ValueError(bodies)

    async def body() -> None:
        await broker.publish_batch("a", "b", "c", topic=topic)
        await until(lambda: len(dead_letters(cluster, group)) == 3)

    run(broker, body)
    assert dead_letters(cluster, group) == [b"a", b"b", b"c"]


# Begin and end


def test_a_stop_lets_a_running_function_end(cluster: EmbeddedBroker, topic: str) -> None:
    broker, found = broker_of(cluster), list[str]()

    @broker.subscriber(topic, group_id=f"{topic}-group")
    async def take(body: str) -> None:
        found.append("began")
        await asyncio.sleep(0.1)
        found.append("ended")

    async def body() -> None:
        await broker.publish("x", topic)
        await until_count(found, 1)

    run(broker, body)
    assert found == ["began", "ended"]


def test_a_function_that_takes_too_long_is_cancelled_and_gets_the_message_again(
    cluster: EmbeddedBroker, topic: str
) -> None:
    broker, found = broker_of(cluster, graceful_timeout=0.05), list[str]()

    @broker.subscriber(topic, group_id=f"{topic}-group")
    async def take(body: str) -> None:
        found.append(body)
        if len(found) == 1:
            await asyncio.sleep(60)

    async def body() -> None:
        await broker.publish("x", topic)
        await until_count(found, 1)

    async def body_again() -> None:
        await until_count(found, 2)

    run(broker, body, body_again)  # the same broker, started again
    assert found == ["x", "x"]


def test_a_function_stops_its_own_subscriber(cluster: EmbeddedBroker, topic: str) -> None:
    broker = broker_of(cluster)
    found = list[str]()
    subscriber = broker.subscriber(topic)

    @subscriber
    async def take(body: str) -> None:
        found.append(body)
        raise StopConsume

    async def body() -> None:
        await broker.publish("x", topic)
        await until(lambda: subscriber.consumer is None)
        await broker.publish("y", topic)
        await asyncio.sleep(0.1)

    run(broker, body)
    assert found == ["x"]


def test_a_stop_waits_for_a_function_that_stops_its_own_subscriber(
    cluster: EmbeddedBroker, topic: str
) -> None:
    broker = broker_of(cluster)
    steps = list[str]()
    subscriber = broker.subscriber(topic)

    @subscriber
    async def take(body: str) -> None:
        raise StopConsume

    async def body() -> None:
        consumer = subscriber.consumer
        assert consumer is not None
        close = consumer.close

        async def slow_close() -> None:
            steps.append("begins")
            await asyncio.sleep(0.05)
            await close()
            steps.append("closed")

        consumer.close = slow_close  # type: ignore[method-assign]
        await broker.publish("x", topic)
        await until_count(steps, 1)

    run(broker, body)
    assert steps == ["begins", "closed"]


def test_messages_are_taken_without_a_function(cluster: EmbeddedBroker, topic: str) -> None:
    broker = broker_of(cluster)
    subscriber = broker.subscriber(topic, ack_policy=AckPolicy.ACK_FIRST)
    batches = broker.subscriber(topic, group_id=f"{topic}-batches", batch=True)

    async def body() -> None:
        assert await subscriber.get_one(timeout=0.01) is None
        await broker.publish("x", topic)
        message = await subscriber.get_one(timeout=10)
        assert message is not None and message.committed is not None
        assert await message.decode() == "x"
        batch = await batches.get_one(timeout=10)
        assert batch is not None and batch.committed is None
        assert await batch.decode() == ["x"]
        await batch.ack()
        await broker.publish("y", topic)
        async for message in subscriber:
            assert await message.decode() == "y"
            break

    run(broker, body)


def test_what_brokers_refuse_is_in_the_log_and_tried_again(
    cluster: EmbeddedBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.01)
    logger, found = Lines(), list[str]()
    broker = broker_of(cluster, logger=logger)
    subscriber = broker.subscriber(topic)

    @subscriber
    async def take(body: str) -> None:
        found.append(body)

    async def body() -> None:
        consumer = subscriber.consumer
        assert consumer is not None
        fetch, failures = consumer.fetch, [ClientError("no right", "Ask for it")]

        async def failing(max: int, wait: float) -> list[Any]:
            if failures:
                raise failures.pop()
            return await fetch(max, wait)

        monkeypatch.setattr(consumer, "fetch", failing)
        await broker.publish("x", topic)
        await broker.publish("y", topic)
        await until_count(found, 2)

    run(broker, body)
    assert logger.having("nothing is consumed: no right. Ask for it")


def test_a_topic_is_created_only_if_that_is_wanted(cluster: EmbeddedBroker, topic: str) -> None:
    names = [f"{topic}-wanted", f"{topic}-unwanted"]
    there = []
    for name, wanted in zip(names, (True, False), strict=True):
        broker = broker_of(cluster, allow_auto_create_topics=wanted)
        subscriber = broker.subscriber(name)

        async def body(broker: RocketMQBroker = broker, subscriber: Any = subscriber) -> None:
            there.append(len(subscriber.consumer.assignment))

        run(broker, body)
    assert there == [4, 0]


def test_a_topic_that_is_there_keeps_its_queues(cluster: EmbeddedBroker, topic: str) -> None:
    cluster.create_topic(f"shop%{topic}", queues=2)
    broker, there = broker_of(cluster, namespace="shop"), list[int]()
    subscriber = broker.subscriber(topic)

    async def body() -> None:
        assert subscriber.consumer is not None
        there.append(len(subscriber.consumer.assignment))

    run(broker, body)
    assert there == [2]


def test_a_topic_that_cannot_be_created_is_named_in_the_log(
    cluster: EmbeddedBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(self: Admin, topic: str, **given: Any) -> None:
        raise ClientError("no right", "Ask for it")

    monkeypatch.setattr(Admin, "create_topic", refuse)
    logger = Lines()
    broker = broker_of(cluster, logger=logger)
    subscriber = broker.subscriber(topic)

    async def body() -> None:
        assert subscriber.running

    run(broker, body)
    assert logger.having(f"topic {topic} is not created: no right")


def test_a_filter_that_brokers_refuse_fails_the_start_and_leaves_nothing(topic: str) -> None:
    with EmbeddedBroker() as plain:  # without enablePropertyFilter
        broker = broker_of(plain)
        subscriber = broker.subscriber(topic, sql="n > 1")

        async def body() -> None:
            raise AssertionError(subscriber)

        with pytest.raises(ClientError, match="SQL92"):
            run(broker, body)
    assert subscriber.consumer is None


# Arguments


@pytest.mark.parametrize(
    ("topics", "given", "text"),
    [
        ([], {}, "No topic is given"),
        (["T"], {"tags": "a", "sql": "b = 1"}, "tags and sql are both given"),
        (["T"], {"max_workers": 0}, "max_workers is 0, which is not accepted"),
        (["T"], {"max_workers": "3"}, "max_workers is '3'.* Give a whole number"),
        (["T"], {"batch": True, "max_records": "5"}, "max_records is '5'"),
        (["T"], {"batch": True, "batch_timeout_ms": "5"}, "batch_timeout_ms is '5'"),
        (["T"], {"batch": "no"}, "batch is 'no'.* Give True or False"),
        (["T"], {"ack_policy": "manual"}, "ack_policy='manual' is no AckPolicy"),
        (["T"], {"start": "first", "auto_offset_reset": "latest"}, "are both given"),
        (["T"], {"auto_offset_reset": "none"}, "auto_offset_reset='none' is unknown"),
        (["T"], {"bad_body": "drop"}, "bad_body='drop' is unknown"),
    ],
)
def test_arguments_that_cannot_be_are_refused(topics: list[str], given: Any, text: str) -> None:
    with pytest.raises(SetupError, match=text):
        RocketMQBroker().subscriber(*topics, **given)


def test_a_start_checks_groups_and_what_they_want() -> None:
    broker = RocketMQBroker()

    @broker.subscriber("orders", "parcels")
    async def take(body: str) -> None: ...

    [subscriber] = broker.subscribers
    assert subscriber.group_id == "orders-parcels-Take"  # type: ignore[attr-defined]
    same_name = broker.subscriber("orders", "parcels")
    same_name(take)
    with pytest.raises(SetupError, match="Two functions of one name"):
        asyncio.run(broker.start())

    other = RocketMQBroker()
    first = other.subscriber("orders", group_id="billing", tags="paid")
    second = other.subscriber("orders", group_id="billing", tags="open")
    with pytest.raises(SetupError, match="'billing' has two subscriptions"):
        asyncio.run(other.start())
    assert first is not second

    early = RocketMQBroker(bad_body="dead_letters", ack_policy=AckPolicy.ACK_FIRST)
    third = early.subscriber("orders", group_id="billing")
    with pytest.raises(SetupError, match="acknowledges before a body is read"):
        asyncio.run(early.start())
    assert third.consumer is None


def test_a_reply_goes_to_the_topic_that_the_message_names(
    cluster: EmbeddedBroker, topic: str
) -> None:
    broker, found = broker_of(cluster), list[Any]()

    @broker.subscriber(topic)
    async def take(body: str) -> RocketMQResponse:
        return RocketMQResponse(f"{body} taken", tags="reply", headers={"by": "take"})

    @broker.subscriber(topic, group_id=f"{topic}-silent", no_reply=True)
    async def silent(body: str) -> str:
        return "not wanted"

    @broker.subscriber(f"{topic}-replies")
    async def hear(body: str, message: RocketMQMessage) -> None:
        found.append((body, message.raw_message.tags, message.headers["by"]))
        assert message.correlation_id == "c1"

    async def body() -> None:
        await broker.publish("x", topic, reply_to=f"{topic}-replies", correlation_id="c1")
        await until_count(found, 1)

    run(broker, body)
    assert found == [("x taken", "reply", "take")]
