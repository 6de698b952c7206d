"""Searches for messages: by time, key, id and place, each with its limits."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TypeVar

import pytest

from wakelog.client.admin import Admin, open_admin
from wakelog.client.errors import ClientError
from wakelog.client.message_search import (
    SearchBounds,
    Sought,
    anywhere,
    at_offset,
    by_id,
    by_key,
    by_time,
)
from wakelog.client.received import ReceivedMessage
from wakelog.client.sync import Producer
from wakelog.protocol.message_id import create_message_id
from wakelog.testing.embedded_broker import EmbeddedBroker

Result = TypeVar("Result")
TOPIC = "sought"
COUNT = 90


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        broker.create_topic(TOPIC, queues=3)
        with Producer(broker.name_server, group="seekers") as producer:
            for n in range(COUNT):
                properties = {"n": str(n)}
                tag = "even" if n % 2 == 0 else "odd"
                producer.send(TOPIC, b"%d" % n, tags=tag, keys=[f"k{n % 5}"], properties=properties)
        broker.wait_for_messages(TOPIC, count=COUNT)
        yield broker


def ask(broker: EmbeddedBroker, what: Callable[[Admin], Awaitable[Result]]) -> Result:
    async def main() -> Result:
        async with open_admin(broker.name_server) as admin:
            return await what(admin)

    return asyncio.run(main())


def numbers(messages: list[ReceivedMessage]) -> list[int]:
    return [int(each.body) for each in messages]


def test_the_newest_come_first_in_the_order_of_time(broker: EmbeddedBroker) -> None:
    found = ask(broker, lambda admin: by_time(admin, Sought(TOPIC)))
    times = [each.record.store_timestamp_ms for each in found.messages]
    assert sorted(numbers(found.messages)) == list(range(COUNT))
    assert times == sorted(times, reverse=True)
    assert found.limits == []


def test_the_oldest_come_first_if_they_are_wanted(broker: EmbeddedBroker) -> None:
    wanted = Sought(TOPIC, is_oldest_first=True)
    found = ask(broker, lambda admin: by_time(admin, wanted, SearchBounds(rows=5)))
    assert max(numbers(found.messages)) < 15
    assert found.limits == ["the oldest 5 are shown, and there may be more"]


def test_filters_are_applied_and_limits_are_said(broker: EmbeddedBroker) -> None:
    wanted = Sought(TOPIC, tags="even", sql="n > 10", text="k2")
    found = ask(broker, lambda admin: by_time(admin, wanted))
    assert sorted(numbers(found.messages)) == list(range(12, COUNT, 10))
    few = SearchBounds(examined=9)
    found = ask(broker, lambda admin: by_time(admin, Sought(TOPIC, text="nowhere"), few))
    assert (found.examined, found.messages) == (9, [])
    assert found.limits == ["9 messages were read, and there are more"]
    found = ask(broker, lambda admin: by_time(admin, Sought(TOPIC), SearchBounds(body_bytes=4)))
    assert found.limits == ["bodies of 0 MiB were found"]


def test_a_time_bounds_what_is_found(broker: EmbeddedBroker) -> None:
    every = ask(broker, lambda admin: by_time(admin, Sought(TOPIC))).messages
    times = sorted({each.record.store_timestamp_ms for each in every})
    low, high = times[len(times) // 3], times[2 * len(times) // 3]
    found = ask(broker, lambda admin: by_time(admin, Sought(TOPIC, low, high)))
    expected = [x for x in every if low <= x.record.store_timestamp_ms <= high]
    assert sorted(numbers(found.messages)) == sorted(numbers(expected))


def test_a_search_ends_in_time(broker: EmbeddedBroker) -> None:
    found = ask(broker, lambda admin: by_time(admin, Sought(TOPIC), SearchBounds(seconds=0)))
    assert (found.messages, found.limits) == ([], ["the search ended after 0 s"])


def test_a_message_is_found_by_key_id_and_place(broker: EmbeddedBroker) -> None:
    keyed = ask(broker, lambda admin: by_key(admin, TOPIC, "k3"))
    assert sorted(numbers(keyed.messages)) == list(range(3, COUNT, 5))
    one = keyed.messages[0]
    for found in (
        ask(broker, lambda admin: by_id(admin, one.offset_message_id)),
        ask(broker, lambda admin: by_id(admin, one.message_id, TOPIC)),
        ask(
            broker,
            lambda admin: at_offset(admin, TOPIC, one.broker, one.queue_id, one.queue_offset),
        ),
    ):
        assert [(each.body, each.broker) for each in found] == [(one.body, one.broker)]


def test_what_is_not_there_is_an_error_with_a_remedy(broker: EmbeddedBroker) -> None:
    with pytest.raises(ClientError, match="no broker of this cluster gave"):
        ask(broker, lambda admin: by_id(admin, "nothing"))
    with pytest.raises(ClientError, match="has no message with the id"):
        ask(broker, lambda admin: by_id(admin, "nothing", TOPIC))
    with pytest.raises(ClientError, match="has no message at offset 999"):
        ask(broker, lambda admin: at_offset(admin, TOPIC, "broker-a", 0, 999))


def test_an_id_leads_to_no_host_outside_of_the_cluster(broker: EmbeddedBroker) -> None:
    with pytest.raises(ClientError, match="no broker of this cluster gave"):
        ask(broker, lambda admin: by_id(admin, create_message_id("127.0.0.1", 9, 0)))


def test_a_key_is_found_without_its_topic(broker: EmbeddedBroker) -> None:
    topics = ["no-such-topic", TOPIC]
    keyed = ask(broker, lambda admin: anywhere(admin, "k3", topics))
    assert sorted(numbers(keyed.messages)) == list(range(3, COUNT, 5))
    times = [each.record.store_timestamp_ms for each in keyed.messages]
    assert times == sorted(times, reverse=True)
    assert keyed.limits == ["1 of 2 topics were not searched"]
    one = keyed.messages[0]
    for name in (one.message_id, one.offset_message_id):
        found = ask(broker, partial(anywhere, name=name, topics=[TOPIC]))
        assert [(each.body, each.broker) for each in found.messages] == [(one.body, one.broker)]
    few = ask(broker, lambda admin: anywhere(admin, "k3", [TOPIC], SearchBounds(rows=2)))
    assert len(few.messages) == 2
    assert few.limits == ["the newest 2 are shown"]
    with pytest.raises(ClientError, match="no-such-topic"):
        ask(broker, lambda admin: anywhere(admin, "k3", ["no-such-topic"]))
    late = ask(broker, lambda admin: anywhere(admin, "k3", [TOPIC], SearchBounds(seconds=0)))
    assert late.limits == ["1 of 1 topics were not searched"]
