"""Typed views: values in place of bodies, and where a body goes that cannot be read."""

import asyncio
import logging
import pickle
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.client.clusters import FakeCluster, run_producer
from tests.client.group_cluster import GroupCluster
from tests.client.test_consumer import run
from tests.fakes.records import record
from wakelog.client import (
    BadBody,
    Consumer,
    InvalidArgument,
    JsonCodec,
    Producer,
    RetryPolicy,
    TypedConsumer,
    TypedProducer,
)


class Order(msgspec.Struct):
    amount: int


CODEC = JsonCodec(Order)
BODIES = [b'{"amount":1}', b"{", b'{"amount":3}']


def cluster_of(bodies: list[bytes]) -> GroupCluster:
    places = enumerate(bodies)
    found = [record(100 * n, b"", topic="T", queue_offset=n, body=body) for n, body in places]
    return GroupCluster({("a", "T", 0): found})


def consume(cluster: GroupCluster, work: Callable[[Consumer], Awaitable[None]]) -> None:
    run(cluster, work)


async def fetch(orders: TypedConsumer[Order], count: int) -> list[int]:
    """Return the amounts of the next messages, which are acknowledged."""
    amounts: list[int] = []
    while len(amounts) < count:
        for each in await orders.fetch(10, 5.0):
            amounts.append(each.value.amount)
            await each.ack()
    return amounts


def test_a_bad_body_is_an_error_that_names_its_place() -> None:
    cluster = cluster_of(BODIES)

    async def work(consumer: Consumer) -> None:
        orders = TypedConsumer(consumer, CODEC)
        with pytest.raises(BadBody) as caught:
            while True:
                for each in await orders.fetch(10, 5.0):
                    assert each.value == Order(1)
                    consumer.untake([each.message])
        error = caught.value
        assert error.cause == (
            "the body of the message at offset 1 of queue 0 of topic T at a cannot be read: "
            f"DecodeError: {error.reason}"
        )
        assert pickle.loads(pickle.dumps(error)).cause == error.cause
        assert orders.bad_count == 1
        await error.message.ack()
        assert await fetch(orders, 2) == [1, 3]  # nothing of that call is lost

    consume(cluster, work)
    assert cluster.committed["g", "a", "T", 0] == 3


@pytest.mark.parametrize("bad", ["skip", "dead_letters"])
def test_a_bad_body_goes_where_the_user_said(bad: Any, caplog: pytest.LogCaptureFixture) -> None:
    cluster = cluster_of(BODIES)

    async def work(consumer: Consumer) -> None:
        orders = TypedConsumer(consumer, CODEC, bad=bad)
        assert await fetch(orders, 2) == [1, 3]
        assert orders.bad_count == 1

    with caplog.at_level(logging.WARNING, "wakelog.client"):
        consume(cluster, work)
    [line] = [x.getMessage() for x in caplog.records if "cannot be read" in x.getMessage()]
    assert "offset 1 of queue 0 of topic T at a" in line
    assert cluster.committed["g", "a", "T", 0] == 3
    delays = [command.ext_fields["delayLevel"] for command in cluster.sent_back]
    assert delays == ([] if bad == "skip" else ["-1"])


def test_an_iteration_gives_values() -> None:
    async def work(consumer: Consumer) -> None:
        amounts = []
        async for each in TypedConsumer(consumer, CODEC, bad="skip"):
            amounts.append(each.value.amount)
            await each.ack()
            if len(amounts) == 2:
                break
        assert amounts == [1, 3]

    consume(cluster_of(BODIES), work)


def test_work_that_fails_is_tried_again_or_given_up(caplog: pytest.LogCaptureFixture) -> None:
    cluster = cluster_of([b'{"amount":1}', b'{"amount":2}', b'{"amount":3}'])

    async def work(consumer: Consumer) -> None:
        seen: list[int] = []

        async def handle(order: Order) -> None:
            seen.append(order.amount)
            if order.amount == 1:
                raise LookupError("fatal")
            if order.amount == 2 and seen.count(2) == 1:
                raise ValueError("once")
            if seen[-2:] == [3, 2] or seen.count(2) == 2:
                await consumer.close()

        policy = RetryPolicy(first=timedelta(seconds=1), fatal=(LookupError,))
        orders = TypedConsumer(consumer, CODEC)
        with pytest.raises(Exception, match=r"not open|closed"):
            await asyncio.wait_for(orders.run(handle, policy), 20)
        assert seen[:3] == [1, 2, 3]

    with caplog.at_level(logging.WARNING, "wakelog.client"):
        consume(cluster, work)
    delays = [command.ext_fields["delayLevel"] for command in cluster.sent_back]
    assert delays[:2] == ["-1", "1"]
    said = [line.getMessage() for line in caplog.records]
    assert any("is a dead letter: LookupError: fatal" in line for line in said)
    assert any("comes again after 0:00:01: ValueError: once" in line for line in said)


def test_values_are_sent_as_their_bodies() -> None:
    cluster = FakeCluster(routes={"T": {"a": 2}})

    async def work(producer: Producer) -> None:
        orders = TypedProducer(producer, CODEC, "T")
        await orders.send(Order(1), tags="t")
        assert len(await orders.send_many([Order(2), Order(3)], keys="k")) == 2
        other: Any = 7
        with pytest.raises(InvalidArgument, match="cannot be encoded: it is of type int"):
            await orders.send(other)
        with pytest.raises(InvalidArgument, match="nothing was sent"):
            await orders.send_many([Order(4), other])

    run_producer(cluster, work)
    assert sorted(body for _, _, body in cluster.stored) == [
        b'{"amount":1}',
        b'{"amount":2}',
        b'{"amount":3}',
    ]


def test_what_no_view_can_be_of_is_refused() -> None:
    given: Any = 7

    async def work(consumer: Consumer) -> None:
        for call in (
            lambda: TypedConsumer(given, CODEC),
            lambda: TypedConsumer(consumer, given),
            lambda: TypedConsumer(consumer, CODEC, bad=given),
            lambda: TypedProducer(given, CODEC, "T"),
        ):
            with pytest.raises(InvalidArgument):
                call()
        with pytest.raises(InvalidArgument):
            await TypedConsumer(consumer, CODEC).run(given, given)

    consume(cluster_of([]), work)
