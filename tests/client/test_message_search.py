"""Searches for messages: by time, key, id and place, each with its limits."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from tests.client.clusters import NAME_SERVER, FakeCluster, Queue
from tests.fakes.records import STORE_MS, properties, record
from wakelog.client.admin import Admin, open_admin
from wakelog.client.errors import ClientError
from wakelog.client.message_search import (
    KEYED_MAX,
    Found,
    SearchBounds,
    Sought,
    anywhere,
    at_offset,
    by_id,
    by_key,
    by_time,
)
from wakelog.client.options import ClientOptions
from wakelog.client.received import ReceivedMessage
from wakelog.client.sync import Producer
from wakelog.protocol.bodies import BrokerData, TopicRouteData
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.message_id import create_message_id
from wakelog.protocol.record import MessageRecord, decode_record
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


class Searched:
    """An Admin over fake brokers: random messages in three queues, two of them at broker a."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        times = chance.sample(range(STORE_MS, STORE_MS + 10_000), 60)
        places = [("a", TOPIC, 0), ("a", TOPIC, 1), ("b", TOPIC, 0)]
        chosen: dict[Queue, list[int]] = {place: [] for place in places}
        for time_ms in sorted(times):
            chosen[chance.choice(places)].append(time_ms)
        self.cluster = FakeCluster(
            {
                (broker, topic, queue_id): [
                    record(
                        1000 * n, topic=topic, queue_id=queue_id, queue_offset=n,
                        store_timestamp_ms=time_ms, body=b"%d" % time_ms,
                    )
                    for n, time_ms in enumerate(found)
                ]
                for (broker, topic, queue_id), found in chosen.items()
            }
        )  # fmt: skip
        self.chosen = chosen

    def search(self, wanted: Sought, **limits: Any) -> tuple[list[int], Found]:
        """Return the times of what is found, and all that is said of it."""
        admin = Admin(self.cluster, ClientOptions((NAME_SERVER,), retries_max=0))
        found = asyncio.run(by_time(admin, wanted, SearchBounds(**limits)))
        return [each.record.store_timestamp_ms for each in found.messages], found


@pytest.mark.parametrize("is_oldest_first", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_what_is_found_is_what_a_plain_search_finds(seed: int, is_oldest_first: bool) -> None:
    searched = Searched(seed)
    every = sorted(chain.from_iterable(searched.chosen.values()), reverse=not is_oldest_first)
    wanted = Sought(TOPIC, is_oldest_first=is_oldest_first)
    word = "oldest" if is_oldest_first else "newest"
    for rows in (1, 7, len(every) - 1, len(every), len(every) + 1):
        times, found = searched.search(wanted, rows=rows)
        assert times == every[:rows]
        said = [f"the {word} {rows:,} are shown, and there may be more"]
        assert found.limits == (said if rows < len(every) else [])
    low, high = sorted(every)[10], sorted(every)[50]
    for from_ms, to_ms in ((low, 0), (0, high), (low, high), (low + 1, high - 1), (high, high)):
        times, _ = searched.search(wanted._replace(from_ms=from_ms, to_ms=to_ms))
        assert times == [each for each in every if from_ms <= each <= (to_ms or each)]


def test_a_search_reads_so_many_messages_and_says_if_there_are_more() -> None:
    searched = Searched(9)
    count = 60
    for examined in (1, count // 2, count - 1, count, count + 1):
        _, found = searched.search(Sought(TOPIC, text="nowhere"), examined=examined)
        more = [f"{found.examined:,} messages were read, and there are more"]
        assert found.limits == (more if found.examined < count else [])
        assert min(examined, count) <= found.examined <= min(examined + 3 * 32, count)
    body_bytes = len(str(STORE_MS))
    for held in (1, 5):
        times, found = searched.search(Sought(TOPIC), body_bytes=held * body_bytes)
        assert len(times) == held + 1 and found.limits == ["bodies of 0 MiB were found"]


@pytest.mark.parametrize("code", [RequestCode.GET_MAX_OFFSET, RequestCode.PULL_MESSAGE])
def test_a_queue_that_cannot_be_read_is_named_and_the_others_are_searched(
    code: RequestCode,
) -> None:
    searched = Searched(5)

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if address == "b:10911" and command.code == code:
            return answer(command, ResponseCode.NO_PERMISSION, "no")
        return None

    searched.cluster.fail = fail
    times, found = searched.search(Sought(TOPIC))
    read = searched.chosen["a", TOPIC, 0] + searched.chosen["a", TOPIC, 1]
    assert times == sorted(read, reverse=True)
    [said] = found.limits
    assert said.startswith("queue 0 of b is missing: ")


@pytest.mark.parametrize("count", [3, KEYED_MAX - 1, KEYED_MAX])
def test_a_search_by_key_says_its_limits(count: int) -> None:
    """One of the messages has the hash of the key, and another key."""
    made = [
        decode_record(
            record(n, properties(KEYS="k" if n else "l"), store_timestamp_ms=STORE_MS + n)
        )
        for n in range(count)
    ]

    async def query(_topic: str, _key: str, asked: int) -> list[MessageRecord]:
        assert asked == KEYED_MAX
        return made

    async def route(_topic: str) -> TopicRouteData:
        return TopicRouteData(broker_datas=[BrokerData("c", "a", {0: "127.0.0.1:10911"})])

    admin = cast(Admin, SimpleNamespace(query_messages=query, route=route))
    for rows in (2, count - 1, count):
        found = asyncio.run(by_key(admin, TOPIC, "k", SearchBounds(rows=rows)))
        newest = [STORE_MS + n for n in range(count - 1, 0, -1)]
        assert [each.record.store_timestamp_ms for each in found.messages] == newest[:rows]
        assert {each.broker for each in found.messages} == {"a"} and found.examined == count
        said = ["brokers were asked for 64 messages of the key each"] * (count == KEYED_MAX)
        assert found.limits == said + [f"the newest {rows:,} are shown"] * (rows < count - 1)
