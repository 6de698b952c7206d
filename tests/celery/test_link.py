"""One connection: what is put comes to the queues that it is for, and what is settled stays so."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.tasks.brokers import broker
from wakelog.celery.link import Link, Settled, Source, Taken
from wakelog.celery.options import Options, read_place
from wakelog.celery.payload import Payload
from wakelog.client import ClientError
from wakelog.testing import EmbeddedBroker

__all__ = ["broker"]
pytestmark = pytest.mark.slow

SECONDS = 5.0


def payload(text: str, **headers: Any) -> Payload:
    info = {"exchange": "", "routing_key": "any"}
    properties = {"delivery_info": info, "delivery_tag": "of the sender"}
    return {"body": text, "properties": properties, "headers": headers}


def play(server: EmbeddedBroker, work: Callable[[Link], Awaitable[None]]) -> None:
    async def run() -> None:
        place = read_place(f"rocketmq://{server.name_server}")
        async with Link(place, Options(queues=1), lambda: None) as link:
            await work(link)

    asyncio.run(run())


async def taken(link: Link, *queues: str) -> Taken:
    found = await link.take(queues, SECONDS)
    assert found is not None
    return found


def test_a_message_goes_to_each_queue_and_is_settled(broker: EmbeddedBroker) -> None:
    async def work(link: Link) -> None:
        await link.put(["one", "other"], None, payload("hello", id="task-1", task="app.add"))
        for queue in ("one", "other"):
            await link.read(Source(queue, None, True), lambda _: True)
        assert await link.take(["nobody's"], 0.05) is None
        first, second = await taken(link, "one"), await taken(link, "other")
        assert {first.queue, second.queue} == {"one", "other"}
        assert first.payload["body"] == "hello"
        assert first.payload["properties"]["delivery_tag"] == first.tag != second.tag
        await link.settle(first.tag, Settled.DONE)
        await link.settle(first.tag, Settled.DONE)  # no harm
        await link.settle(second.tag, Settled.AGAIN)
        again = await taken(link, "one", "other")
        assert again.queue == "other"
        assert again.payload["properties"]["delivery_info"]["redelivered"] is True
        await link.settle(again.tag, Settled.GIVEN_UP)

    play(broker, work)
    [message] = broker.messages("kombu-one")
    assert (message.keys, message.tags) == (["task-1"], "app.add")
    [dead] = broker.wait_for_messages("%DLQ%kombu-other")
    assert b"hello" in dead.body


def test_a_temporary_queue_reads_an_exchange_from_now_on(broker: EmbeddedBroker) -> None:
    async def work(link: Link) -> None:
        await link.put([], "news", payload("old"))
        await link.read(Source("mine", "news", False), lambda found: found["body"] != "no")
        await link.put(["there"], "news", payload("no"))
        await link.put(["there"], "news", payload("new"))
        found = await taken(link, "mine")
        assert found.payload["body"] == "new"
        assert found.payload["put_in"] == ["there"]
        await link.forget("mine")
        assert await link.take(["mine"], 0.05) is None

    play(broker, work)


def test_what_is_no_message_of_kombu_holds_nothing_up(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(link: Link) -> None:
        await link.declare("mixed")
        await link._sender.put("kombu-mixed", b"4711 paid")
        await link.put(["mixed"], None, payload("good"))
        await link.read(Source("mixed", None, True), lambda _: True)
        assert (await taken(link, "mixed")).payload["body"] == "good"

    play(broker, work)
    assert "a dead letter: no JSON of kombu: " in caplog.text
    assert [each.body for each in broker.wait_for_messages("%DLQ%kombu-mixed")] == [b"4711 paid"]


def test_the_readers_of_several_queues_take_turns(broker: EmbeddedBroker) -> None:
    async def work(link: Link) -> None:
        for queue in ("left", "right"):
            await link.read(Source(queue, None, True), lambda _: True)
            for _ in range(5):
                await link.put([queue], None, payload(queue))
        first = [await taken(link, "left", "right") for _ in range(10)]
        assert {each.queue for each in first[:4]} == {"left", "right"}

    play(broker, work)


def test_a_reader_that_cannot_start_is_not_kept(broker: EmbeddedBroker) -> None:
    async def work(link: Link) -> None:
        await link.declare("broken")
        broker.stop()
        with pytest.raises(ClientError):
            await link.read(Source("broken", None, True), lambda _: True)
        assert not link._readers

    with EmbeddedBroker() as broker:
        play(broker, work)
