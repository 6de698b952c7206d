"""The broker: publish, batches, requests, delays, accounts, health, and a second start."""

import asyncio
import ssl
from datetime import timedelta
from typing import Any

import pytest
from faststream import BaseMiddleware, FastStream, TestApp
from faststream.exceptions import IncorrectState, SetupError
from faststream.security import BaseSecurity, SASLPlaintext, SASLScram256
from pydantic import BaseModel

from tests.faststream.applications import Lines, broker_of, run
from tests.faststream.waiting import until_count
from wakelog.client import InvalidArgument, NotAcknowledged, Receipt, Tls
from wakelog.client.options import Settings
from wakelog.faststream import RocketMQBroker, RocketMQMessage, RocketMQPublishMessage
from wakelog.faststream.annotations import Producer
from wakelog.faststream.config import Clients, settings_of
from wakelog.testing import EmbeddedBroker

pytestmark = pytest.mark.slow


class Cost(BaseModel):
    cents: int


def test_a_message_is_stored_with_its_fields(cluster: EmbeddedBroker, topic: str) -> None:
    broker = broker_of(cluster)

    async def body() -> None:
        receipt = await broker.publish(
            {"a": 1}, topic, tags="paid", key=b"4711", headers={"n": 5}, correlation_id="c"
        )
        assert isinstance(receipt, Receipt)
        assert await broker.publish("lost?", topic, oneway=True) is None
        receipts = await broker.publish_batch(
            RocketMQPublishMessage("x", keys=["k1", "k2"], sharding_key="s"),
            "y",
            topic=topic,
            tags="many",
        )
        assert [one.topic for one in receipts] == [topic, topic]

    run(broker, body)
    found = {message.body: message for message in cluster.wait_for_messages(topic, count=4)}
    stored = found[b'{"a":1}']
    assert (stored.tags, stored.keys) == ("paid", ["4711"])
    properties = {name: stored.properties[name] for name in ("content-type", "correlation_id", "n")}
    assert properties == {"content-type": "application/json", "correlation_id": "c", "n": "5"}
    assert stored.properties["__SHARDINGKEY"] == "4711"
    assert (found[b"x"].keys, found[b"x"].tags) == (["k1", "k2"], "many")
    assert (found[b"y"].keys, found[b"y"].tags) == ([], "many")
    assert b"lost?" in found


def test_a_request_gets_what_the_function_returns(cluster: EmbeddedBroker, topic: str) -> None:
    broker = broker_of(cluster)

    @broker.subscriber(topic)
    async def cost(item: str) -> Cost | None:
        return Cost(cents=len(item)) if item else None

    async def body() -> None:
        reply = await broker.request("apple", topic, timeout=5, correlation_id="c1")
        assert await reply.decode() == {"cents": 5}
        assert (reply.correlation_id, reply.content_type) == ("c1", "application/json")
        none = await broker.publisher(topic).request("", timeout=timedelta(seconds=5))
        assert await none.decode() == b""

    run(broker, body)


def test_a_request_that_is_not_answered_in_time_is_a_timeout(
    cluster: EmbeddedBroker, topic: str
) -> None:
    broker = broker_of(cluster)

    @broker.subscriber(topic, no_reply=True)
    async def silent(body: str) -> str:
        return "not sent"

    async def body() -> None:
        with pytest.raises(TimeoutError, match="no consumer replied within 50 ms"):
            await broker.request("x", topic, timeout=0.05)

    run(broker, body)


def test_a_delay_is_waited_for(cluster: EmbeddedBroker, topic: str) -> None:
    broker, found = broker_of(cluster), list[str]()

    @broker.subscriber(topic)
    async def take(body: str) -> None:
        found.append(body)

    async def body() -> None:
        await broker.publish("later", topic, delay=5)
        await broker.publish("now", topic, delay=timedelta(0))
        await until_count(found, 1)
        await asyncio.to_thread(cluster.advance, 6)
        await until_count(found, 2)

    run(broker, body)
    assert found == ["now", "later"]


def test_a_body_that_is_empty_comes_so(cluster: EmbeddedBroker, topic: str) -> None:
    broker, found = broker_of(cluster), list[Any]()

    @broker.subscriber(topic)
    async def take(body: bytes, message: RocketMQMessage) -> None:
        found.append((body, message.raw_message.body, dict(message.headers).get("empty-body")))

    async def body() -> None:
        await broker.publish(None, topic)
        await until_count(found, 1)

    run(broker, body)
    assert found == [(b"", b"null", None)]


def test_middlewares_see_messages_on_both_ways(cluster: EmbeddedBroker, topic: str) -> None:
    seen = list[str]()

    class Notes(BaseMiddleware[Any, Any]):
        async def consume_scope(self, call_next: Any, msg: Any) -> Any:
            seen.append(f"in {await msg.decode()}")
            return await call_next(msg)

        async def publish_scope(self, call_next: Any, cmd: Any) -> Any:
            seen.append(f"out {cmd.body} to {cmd.destination}")
            cmd.fields = {**cmd.fields, "tags": "noted"}
            return await call_next(cmd)

    broker = broker_of(cluster, middlewares=[Notes])

    @broker.subscriber(topic)
    async def take(body: str) -> None: ...

    async def body() -> None:
        await broker.publish("x", topic)
        await until_count(seen, 2)

    run(broker, body)
    assert seen == [f"out x to {topic}", "in x"]
    [message] = cluster.messages(topic)
    assert message.tags == "noted"


def test_an_application_starts_serves_and_stops(cluster: EmbeddedBroker, topic: str) -> None:
    logger, found = Lines(), list[str]()
    broker = broker_of(cluster, logger=logger)
    app = FastStream(broker, logger=None)

    @broker.subscriber(topic)
    async def take(body: str, producer: Producer) -> None:
        found.append(body)
        assert producer.is_open

    async def serve() -> None:
        async with TestApp(app):
            await broker.publish("x", topic)
            await until_count(found, 1)

    for _ in range(2):
        found.clear()
        asyncio.run(serve())
        with pytest.raises(IncorrectState, match=r"Call `broker\.start\(\)` first"):
            asyncio.run(broker.publish("x", topic))
    assert logger.having("`Take` waiting for messages")


def test_a_ping_is_true_if_the_cluster_answers(cluster: EmbeddedBroker) -> None:
    assert asyncio.run(broker_of(cluster).ping(timeout=5.0)) is True
    assert asyncio.run(RocketMQBroker("127.0.0.1:9").ping(timeout=0.3)) is False


def test_a_cluster_that_refuses_is_an_error_of_publish(cluster: EmbeddedBroker, topic: str) -> None:
    broker = broker_of(cluster, retries_max=0)

    async def body() -> None:
        await broker.publish("x", topic)
        with cluster.refused_sends(), pytest.raises(NotAcknowledged):
            await broker.publish("y", topic)

    run(broker, body)


# Arguments


@pytest.mark.parametrize(
    ("security", "given", "expected"),
    [
        (None, {"namespace": "n"}, {"namespace": "n"}),
        (BaseSecurity(use_ssl=True), {}, {"tls": True}),
        (
            SASLPlaintext("key", "secret"),
            {},
            {"tls": False, "access_key": "key", "secret_key": "secret"},
        ),
        (
            SASLPlaintext("key", "secret", use_ssl=True),
            {"tls": Tls(trust_path="ca.pem"), "log_level": 10},
            {"tls": Tls(trust_path="ca.pem"), "access_key": "key", "secret_key": "secret"},
        ),
    ],
)
def test_security_objects_are_settings_of_the_client(
    security: BaseSecurity | None, given: Any, expected: Settings
) -> None:
    assert settings_of(security, given) == expected


def test_security_that_rocketmq_has_not_is_refused() -> None:
    with pytest.raises(SetupError, match="RocketMQ has no SASLScram256"):
        RocketMQBroker(security=SASLScram256("a", "b"))
    context = ssl.create_default_context()
    with pytest.raises(SetupError, match="trust_path"):
        RocketMQBroker(security=BaseSecurity(ssl_context=context))


def test_a_misspelled_argument_is_refused() -> None:
    broker = RocketMQBroker()
    for call in (
        lambda: RocketMQBroker(ack_polic=None),  # type: ignore[call-arg]
        lambda: broker.subscriber("T", group="x"),  # type: ignore[call-arg]
        lambda: broker.publisher("T", header={}),  # type: ignore[call-overload]
        lambda: RocketMQPublishMessage("x", tag="a"),  # type: ignore[call-arg]
    ):
        with pytest.raises(InvalidArgument, match=r"unknown (arguments|fields)"):
            call()


def test_a_value_that_is_none_is_refused_at_once() -> None:
    refused: list[dict[str, Any]] = [{"graceful_timeout": "5"}, {"allow_auto_create_topics": "no"}]
    for given in refused:
        with pytest.raises(InvalidArgument, match=next(iter(given))):
            RocketMQBroker(**given)
    with pytest.raises(SetupError, match="'manual' is no AckPolicy"):
        RocketMQBroker(ack_policy="manual")  # type: ignore[arg-type]
    RocketMQBroker(graceful_timeout=None)


def test_clients_have_the_account_of_the_broker(cluster: EmbeddedBroker) -> None:
    clients = Clients(cluster.name_server, "g", False, access_key="k", secret_key="s")
    assert clients.producer()._options.credentials.access_key == "k"
    consumer = clients.consumer(group="c", topics="T")
    assert consumer._options.credentials.secret_key == "s"
    assert consumer._options.group == "c"


def test_addresses_are_those_of_the_document() -> None:
    broker = RocketMQBroker("a:1;b:2", security=BaseSecurity(use_ssl=True))
    specification = broker.specification
    assert (specification.url, specification.protocol) == (["a:1", "b:2"], "rocketmq-secure")
    assert RocketMQBroker(specification_url="c:3").specification.url == ["c:3"]
