"""What is read of the life of a message, and what is said of parts that are missing."""

import asyncio
from collections.abc import Iterator

import pytest

from wakelog.client.admin import open_admin
from wakelog.client.message_life import Life, life_of
from wakelog.client.message_search import by_id
from wakelog.client.sync import Producer
from wakelog.testing.embedded_broker import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def life(broker: EmbeddedBroker, offset_message_id: str, seconds_max: float = 10.0) -> Life:
    async def main() -> Life:
        async with open_admin(broker.name_server) as admin:
            [message] = await by_id(admin, offset_message_id)
            return await life_of(admin, message, seconds_max)

    return asyncio.run(main())


def test_a_message_has_its_queue_and_others_of_its_key(broker: EmbeddedBroker) -> None:
    broker.create_topic("lived", queues=1)
    with Producer(broker.name_server, group="living") as producer:
        first, second = (producer.send("lived", b"x", keys=["shared"]) for _ in range(2))
    broker.wait_for_messages("lived", count=2)
    found = life(broker, first.offset_message_id)
    assert found.ends == (0, 2)
    assert [each.offset_message_id for each in found.copies] == [second.offset_message_id]
    assert (found.tracks, found.retries, found.dead, found.missing) == ([], [], [], [])


def test_parts_that_come_too_late_are_said(broker: EmbeddedBroker) -> None:
    with Producer(broker.name_server, group="living") as producer:
        receipt = producer.send("late", b"x", keys=["k"])
    found = life(broker, receipt.offset_message_id, seconds_max=0)
    assert "its queue: no answer within 0 s" in found.missing
    assert found.message.body == b"x"
