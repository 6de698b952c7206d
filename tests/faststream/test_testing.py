"""TestRocketMQBroker: functions without a RocketMQ, and the same functions beside one."""

import asyncio
from typing import Any

import pytest
from faststream import AckPolicy
from faststream.exceptions import SetupError, SubscriberNotFound
from faststream.message import AckStatus
from pydantic import BaseModel, ValidationError

from tests.faststream.applications import broker_of
from wakelog.client import InvalidArgument, Sql
from wakelog.faststream import (
    RocketMQBroker,
    RocketMQMessage,
    RocketMQResponse,
    TestRocketMQBroker,
)
from wakelog.faststream.testing import NoClients, NoConsumer, NoSettler
from wakelog.testing import EmbeddedBroker


class Order(BaseModel):
    number: int


def shop(**options: Any) -> tuple[RocketMQBroker, Any, Any]:
    """Return an application: its broker, its function, and where it publishes."""
    broker = RocketMQBroker(logger=None, **options)
    publisher = broker.publisher("announced")

    @publisher
    @broker.subscriber("orders", tags="paid")
    async def take(order: Order) -> str:
        return f"order {order.number}"

    return broker, take, publisher


def test_a_function_is_called_without_a_cluster() -> None:
    broker, take, publisher = shop()

    async def body() -> None:
        async with TestRocketMQBroker(broker) as under_test:
            await under_test.publish(Order(number=1), "orders", tags="paid")
            take.mock.assert_called_once_with({"number": 1})
            await take.assert_called_once_with(Order(number=1))
            publisher.mock.assert_called_once_with("order 1")
            await under_test.publish(Order(number=2), "orders", tags="open")
            await under_test.publish(Order(number=3), "other")
            take.mock.assert_called_once()

    asyncio.run(body())


def test_an_error_of_a_function_comes_out() -> None:
    broker, *_ = shop()

    async def body() -> None:
        async with TestRocketMQBroker(broker):
            with pytest.raises(ValidationError):
                await broker.publish({"number": "x"}, "orders", tags="paid")
            with pytest.raises(InvalidArgument, match="cannot be sent"):
                await broker.publish("x", "no topic")
            with pytest.raises(SubscriberNotFound):
                await broker.request("x", "other")

    asyncio.run(body())


def test_a_request_returns_what_the_function_returns_with_its_headers() -> None:
    broker = RocketMQBroker(logger=None)

    @broker.subscriber("costs", batch=True)
    async def cost(items: list[str]) -> RocketMQResponse:
        return RocketMQResponse({"cents": len(items[0])}, headers={"currency": "EUR"})

    @broker.subscriber("slow")
    async def slow(body: str) -> None:
        await asyncio.sleep(1)

    async def body() -> None:
        async with TestRocketMQBroker(broker):
            reply = await broker.request("apple", "costs", correlation_id="c")
            assert await reply.decode() == {"cents": 5}
            assert (reply.headers["currency"], reply.correlation_id) == ("EUR", "c")
            await reply.ack()  # it is no message of a queue
            with pytest.raises(TimeoutError):
                await broker.request("x", "slow", timeout=0.01)

    asyncio.run(body())


def test_groups_filters_and_batches_are_those_of_a_cluster() -> None:
    broker, found = RocketMQBroker(logger=None), list[Any]()

    def hear(name: str, **given: Any) -> None:
        async def heard(body: Any) -> None:
            found.append((name, body))

        broker.subscriber("numbers", **given)(heard)

    hear("one of two", group_id="shared")
    hear("other of two", group_id="shared")
    hear("everyone", group_id="b", broadcast=True)
    hear("everyone too", group_id="b", broadcast=True)
    hear("large", group_id="large", sql="n > 1")
    hear("batch", group_id="batch", batch=True, sql="n > 0")

    async def body() -> None:
        async with TestRocketMQBroker(broker):
            await broker.publish_batch("x", "y", topic="numbers", headers={"n": 1})
            await broker.publish("z", "numbers", headers={"n": 2})

    asyncio.run(body())
    heard = {name: [body for one, body in found if one == name] for name, _ in found}
    shared = heard.pop("one of two", []) + heard.pop("other of two", [])
    assert sorted(shared) == ["x", "y", "z"]
    assert heard == {
        "everyone": ["x", "y", "z"], "everyone too": ["x", "y", "z"], "large": ["z"],
        "batch": [["x", "y"], ["z"]],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "status"),
    [
        (AckPolicy.NACK_ON_ERROR, AckStatus.NACKED),
        (AckPolicy.REJECT_ON_ERROR, AckStatus.REJECTED),
        (AckPolicy.ACK, AckStatus.ACKED),
        (AckPolicy.ACK_FIRST, AckStatus.ACKED),
        (AckPolicy.MANUAL, None),
    ],
)
def test_a_message_says_how_it_ended(policy: AckPolicy, status: AckStatus | None) -> None:
    broker, found = RocketMQBroker(logger=None, ack_policy=policy), list[RocketMQMessage]()

    @broker.subscriber("orders")
    async def fail(body: str, message: RocketMQMessage) -> None:
        found.append(message)
        raise ValueError(body)

    async def body() -> None:
        async with TestRocketMQBroker(broker):
            with pytest.raises(ValueError, match="x"):
                await broker.publish("x", "orders")

    asyncio.run(body())
    assert [message.committed for message in found] == [status]


def test_what_a_start_refuses_is_refused_here() -> None:
    broker = RocketMQBroker(logger=None)
    subscribers = [broker.subscriber("T", group_id="g", tags=tags) for tags in ("a", "b")]

    async def body() -> None:
        with pytest.raises(SetupError, match="two subscriptions"):
            async with TestRocketMQBroker(broker):
                raise AssertionError(subscribers)

    asyncio.run(body())


def test_a_subscriber_in_memory_waits_and_stops() -> None:
    broker = RocketMQBroker(logger=None)
    subscriber = broker.subscriber("T")

    async def body() -> None:
        async with TestRocketMQBroker(broker):
            await subscriber.start()
            assert await subscriber.get_one(timeout=0.01) is None
            await subscriber.stop()
            consumer = NoConsumer()
            waiting = asyncio.create_task(consumer.fetch(1, 60.0))
            await asyncio.sleep(0)
            await consumer.close()
            assert await waiting == []

    asyncio.run(body())
    assert NoSettler.namespace == ""


@pytest.mark.slow
def test_with_real_the_same_test_runs_beside_a_cluster(cluster: EmbeddedBroker, topic: str) -> None:
    broker = broker_of(cluster)
    publisher = broker.publisher(f"{topic}-out")

    @publisher
    @broker.subscriber(topic)
    async def take(order: Order) -> str:
        return f"order {order.number}"

    async def body() -> None:
        async with TestRocketMQBroker(broker, with_real=True) as real:
            await real.publish(Order(number=1), topic)
            await take.wait_call(timeout=10)
            take.mock.assert_called_once_with({"number": 1})
            async with asyncio.timeout(10):
                while not publisher.mock.called:
                    await asyncio.sleep(0.01)
            publisher.mock.assert_called_once_with("order 1")

    asyncio.run(body())
    assert [message.body for message in cluster.messages(topic)] == [b'{"number":1}']


def test_a_consumer_gets_the_arguments_of_its_subscriber(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[dict[str, Any]]()

    def note(self: NoClients, **options: Any) -> NoConsumer:
        made.append(options)
        return NoConsumer()

    monkeypatch.setattr(NoClients, "consumer", note)
    broker = RocketMQBroker(logger=None)
    plain = broker.subscriber("T", group_id="plain")
    given = broker.subscriber(
        "T", "U", group_id="given", sql="a > 1", auto_offset_reset="earliest", ordered=True,
        max_retries=3,
    )  # fmt: skip

    async def body() -> None:
        async with TestRocketMQBroker(broker):
            for subscriber in (plain, given):
                await subscriber.start()
                await subscriber.stop()

    asyncio.run(body())
    assert made == [
        {"group": "plain", "topics": {"T": "*"}, "start": "last"},
        {
            "group": "given", "topics": {"T": Sql("a > 1"), "U": Sql("a > 1")}, "start": "first",
            "ordered": True, "max_retries": 3,
        },
    ]  # fmt: skip


def test_nothing_returned_is_one_empty_message_also_of_a_batch() -> None:
    broker = RocketMQBroker(logger=None)
    single, batches = broker.publisher("single"), broker.publisher("batches", batch=True)

    @single
    @batches
    @broker.subscriber("T")
    async def take(body: str) -> None: ...

    async def body() -> None:
        async with TestRocketMQBroker(broker):
            await broker.publish("x", "T")
            single.mock.assert_called_once_with(b"")
            batches.mock.assert_called_once_with([b""])

    asyncio.run(body())
