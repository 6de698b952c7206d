"""Routers, routes and publishers: prefixes, nesting, and what functions return."""

from typing import Any

import pytest
from faststream import BaseMiddleware
from faststream._internal.broker.router import BrokerRouter
from faststream._internal.configs import BrokerConfig
from faststream.exceptions import SetupError

from tests.faststream.applications import broker_of, run
from tests.faststream.waiting import until, until_count
from wakelog.faststream import (
    RocketMQBroker,
    RocketMQMessage,
    RocketMQPublisher,
    RocketMQResponse,
    RocketMQRoute,
    RocketMQRouter,
)
from wakelog.faststream.publisher import BatchTopicPublisher, TopicPublisher
from wakelog.testing import EmbeddedBroker

pytestmark = pytest.mark.slow


def test_a_prefix_is_before_topics_of_subscribers_and_publishers(
    cluster: EmbeddedBroker, topic: str
) -> None:
    broker, found = broker_of(cluster), list[str]()
    outer, inner = RocketMQRouter(prefix=f"{topic}-"), RocketMQRouter(prefix="eu-")

    @inner.subscriber("in")
    @inner.publisher("out", tags="copied", headers={"by": "copy"})
    async def copy(body: str) -> str:
        return f"{body} again"

    async def hear(body: str, message: RocketMQMessage) -> None:
        found.append(f"{body} {message.raw_message.tags} {message.headers['by']}")

    outer.include_router(inner)
    broker.include_router(outer)
    broker.subscriber(f"{topic}-eu-out")(hear)

    async def body() -> None:
        await broker.publish("x", f"{topic}-eu-in")
        await until_count(found, 1)

    run(broker, body)
    assert found == ["x again copied copy"]


def test_routes_are_declared_beside_their_functions(cluster: EmbeddedBroker, topic: str) -> None:
    found = list[Any]()

    async def split(body: str) -> list[str]:
        return body.split()

    async def hear(words: list[str]) -> None:
        found.extend(words)

    words = RocketMQPublisher(f"{topic}-words", batch=True, key="k")
    router = RocketMQRouter(
        handlers=[
            RocketMQRoute(split, topic, publishers=[words]),
            RocketMQRoute(hear, f"{topic}-words", batch=True),
        ]
    )
    broker = broker_of(cluster, routers=[router])

    async def body() -> None:
        await broker.publish("a b c", topic)
        await until(lambda: len(found) == 3)

    run(broker, body)
    assert found == ["a", "b", "c"]


def test_publishers_have_fields_that_messages_replace(cluster: EmbeddedBroker, topic: str) -> None:
    broker = broker_of(cluster)
    single = broker.publisher(topic, tags="default", key="k", headers={"a": "1", "b": "1"})
    batches = broker.publisher(topic, batch=True, tags="batch")
    assert type(single) is TopicPublisher and type(batches) is BatchTopicPublisher

    async def body() -> None:
        await single.publish("one", headers={"b": "2"})
        await single.publish("two", tags="own")
        await batches.publish("three", RocketMQResponse("four", tags="own"))

    run(broker, body)
    found = {one.body: one for one in cluster.wait_for_messages(topic, count=4)}
    assert {body: one.tags for body, one in found.items()} == {
        b"one": "default", b"two": "own", b"three": "batch", b"four": "own",
    }  # fmt: skip
    headers = found[b"one"].properties
    assert (headers["a"], headers["b"], found[b"one"].keys) == ("1", "2", ["k"])


def test_middlewares_of_a_router_are_within_those_of_the_broker(
    cluster: EmbeddedBroker, topic: str
) -> None:
    seen = list[str]()

    def noting(name: str) -> Any:
        class Noting(BaseMiddleware[Any, Any]):
            async def consume_scope(self, call_next: Any, msg: Any) -> Any:
                seen.append(name)
                return await call_next(msg)

        return Noting

    router = RocketMQRouter(middlewares=[noting("router")])

    @router.subscriber(topic)
    async def take(body: str) -> None:
        seen.append(body)

    broker = broker_of(cluster, middlewares=[noting("broker")], routers=[router])

    async def body() -> None:
        await broker.publish("x", topic)
        await until_count(seen, 3)

    run(broker, body)
    assert seen == ["broker", "router", "x"]


def test_a_router_of_another_broker_is_refused() -> None:
    class Other(BrokerRouter[Any]):
        def subscriber(self, *given: Any, **more: Any) -> Any: ...

        def publisher(self, *given: Any, **more: Any) -> Any: ...

    other = Other(config=BrokerConfig(), handlers=(), routers=())
    with pytest.raises(SetupError, match="Other is no router of RocketMQ"):
        RocketMQBroker().include_router(other)
