"""When the oldest message of a topic was stored: asked for once, by few requests."""

import asyncio
from typing import Any

import pytest

from wakelog.client.admin import Admin
from wakelog.client.options import ClientOptions
from wakelog.console import oldest
from wakelog.console.oldest import (
    EMPTY_FRESH_MS,
    FRESH_MS,
    IN_FLIGHT_MAX,
    QUEUES_MAX,
    Oldest,
    OldestMessages,
)
from wakelog.protocol.bodies import TopicOffset, TopicStatsTable
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer

ADDRESSES = {"a": "a:1"}


class Peer:
    """A broker that says when queues begin, refuses queue 1, and hangs while it is to."""

    def __init__(self) -> None:
        self.hangs = False
        self.count = self.in_flight = self.in_flight_max = 0

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        self.count += 1
        if self.hangs:
            await asyncio.Event().wait()
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight, self.in_flight_max)
        await asyncio.sleep(0)
        self.in_flight -= 1
        queue_id = int(command.ext_fields["queueId"])
        if queue_id == 1:
            return answer(command, ResponseCode.SYSTEM_ERROR, "no")
        found = answer(command, ResponseCode.SUCCESS)
        found.ext_fields["timestamp"] = "-1" if queue_id == 2 else str(500 + queue_id)
        return found


class Clock:
    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def opened(peer: Peer, clock: Clock) -> OldestMessages:
    connections: Any = peer
    return OldestMessages(Admin(connections, ClientOptions(("n:1",))), clock)


def table(queues: int) -> TopicStatsTable:
    return TopicStatsTable({MessageQueue("T", "a", n): TopicOffset(3, 9) for n in range(queues)})


def test_the_oldest_of_its_queues_is_asked_for_once_while_it_is_fresh() -> None:
    peer, clock = Peer(), Clock()

    async def main() -> None:
        found = opened(peer, clock)
        first, second = await asyncio.gather(
            found.of("T", table(4), ADDRESSES), found.of("T", table(4), ADDRESSES)
        )
        assert first == second == Oldest(1_000, 500, 0)
        assert await found.of("T", table(4), ADDRESSES) == first
        assert peer.count == 4
        clock.now_ms += FRESH_MS
        assert (await found.of("T", table(4), ADDRESSES) or first).read_ms == clock.now_ms
        assert peer.count == 8

    asyncio.run(main())


def test_empty_queues_and_brokers_without_an_address_are_not_asked() -> None:
    peer = Peer()
    empty = TopicStatsTable({MessageQueue("T", "a", 0): TopicOffset(3, 3)})
    empty.offset_table[MessageQueue("T", "away", 0)] = TopicOffset(3, 9)
    assert asyncio.run(opened(peer, Clock()).of("T", empty, ADDRESSES)) == Oldest(1_000, 0, 0)
    assert peer.count == 0


def test_a_topic_of_many_queues_costs_a_bounded_number_of_requests() -> None:
    peer = Peer()
    found = asyncio.run(opened(peer, Clock()).of("T", table(QUEUES_MAX + 7), ADDRESSES))
    assert found == Oldest(1_000, 500, 7)
    assert (peer.count, peer.in_flight_max) == (QUEUES_MAX, IN_FLIGHT_MAX)


def test_a_broker_that_hangs_holds_up_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oldest, "PAGE_SECONDS_MAX", 0.01)
    monkeypatch.setattr(oldest, "TOPIC_SECONDS_MAX", 0.05)
    peer = Peer()
    peer.hangs = True

    async def main() -> None:
        found = opened(peer, Clock())
        assert await found.of("T", table(1), ADDRESSES) is None
        [task] = found._asked.values()
        await asyncio.wait([task])
        assert await found.of("T", table(1), ADDRESSES) == Oldest(1_000, 0, 0)

    asyncio.run(main())


def test_a_bounded_number_of_topics_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oldest, "TOPICS_MAX", 2)

    async def main() -> None:
        found = opened(Peer(), Clock())
        for topic in ("a", "b", "c"):
            await found.of(topic, TopicStatsTable(), ADDRESSES)
        assert set(found._known) == {"b", "c"}

    asyncio.run(main())


def test_a_topic_without_messages_is_asked_for_again_soon() -> None:
    peer, clock = Peer(), Clock()

    async def main() -> None:
        found = opened(peer, clock)
        assert await found.of("T", TopicStatsTable({}), ADDRESSES) == Oldest(1_000, 0, 0)
        clock.now_ms += EMPTY_FRESH_MS - 1
        assert await found.of("T", table(4), ADDRESSES) == Oldest(1_000, 0, 0)
        clock.now_ms += 1
        assert await found.of("T", table(4), ADDRESSES) == Oldest(clock.now_ms, 500, 0)

    asyncio.run(main())
