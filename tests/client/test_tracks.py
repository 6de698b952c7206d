"""Whether groups have consumed a message."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.compat.driver import wait_until
from wakelog.client.admin import open_admin
from wakelog.client.message_search import by_id
from wakelog.client.receipts import Receipt
from wakelog.client.sync import Consumer, Producer
from wakelog.client.tracks import CONSUMED, NOT_CONSUME_YET, NOT_ONLINE, Track, tracks_of
from wakelog.testing.embedded_broker import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def send(broker: EmbeddedBroker, topic: str) -> Receipt:
    with Producer(broker.name_server, group="tracked") as producer:
        return producer.send(topic, b"x", keys=["shared"])


def tracks(broker: EmbeddedBroker, receipt: Receipt) -> list[Track]:
    async def main() -> list[Track]:
        async with open_admin(broker.name_server) as admin:
            [message] = await by_id(admin, receipt.offset_message_id)
            return await tracks_of(admin, message.record)

    return asyncio.run(main())


def test_a_group_that_is_beyond_a_message_has_consumed_it(broker: EmbeddedBroker) -> None:
    broker.create_topic("tracked", queues=1)
    receipt, next_receipt = send(broker, "tracked"), send(broker, "tracked")
    settings = {"group": "trackers", "topics": ["tracked"], "start": "first"}
    with Consumer(broker.name_server, **settings) as consumer:  # type: ignore[arg-type]
        next(iter(consumer)).ack()
        wanted = [Track("trackers", CONSUMED, None, 1)]
        wait_until(lambda: tracks(broker, receipt) == wanted, what="consumed")
        assert tracks(broker, next_receipt) == [Track("trackers", NOT_CONSUME_YET, None, 1)]
    [found] = tracks(broker, receipt)
    assert found.kind == NOT_ONLINE and "CODE:206" in (found.description or "")
