"""How often the shell of the console reads, and how much while there is no viewer."""

import asyncio
from collections import Counter

import pytest

from tests.console.test_cluster_reading import ANSWERS, Peers
from wakelog.client.admin import Admin
from wakelog.client.options import ClientOptions
from wakelog.console import reader as reader_module
from wakelog.console.ends import Ends
from wakelog.console.reader import RATE_MS_MAX, WATCHED_MS, ClusterReader, pause_after
from wakelog.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    TopicOffset,
    TopicRouteData,
    TopicStatsTable,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.command import RemotingCommand


@pytest.mark.parametrize(
    ("taken_seconds", "is_watched", "pause_seconds"),
    [
        (0.1, True, 5.0),
        (0.1, False, 120.0),
        (2.0, True, 20.0),
        (2.0, False, 120.0),
        (9.0, True, 60.0),
    ],
)
def test_a_reading_that_takes_long_is_made_less_often(
    taken_seconds: float, is_watched: bool, pause_seconds: float
) -> None:
    assert pause_after(taken_seconds, is_watched=is_watched) == pytest.approx(pause_seconds)


class Counted(Peers):
    """One broker, and how often it is asked for what."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: Counter[Code] = Counter()

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        self.codes[Code(command.code)] += 1
        return await super().invoke(address, command, timeout_ms=timeout_ms)


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Counted:
    broker = BrokerData("c", "a", {0: "a0:1"})
    answers = {
        Code.GET_BROKER_CLUSTER_INFO: ClusterInfo({"a": broker}),
        Code.GET_ROUTEINFO_BY_TOPIC: TopicRouteData(broker_datas=[broker]),
    }
    for code, body in answers.items():
        monkeypatch.setitem(ANSWERS, code, body)
    return Counted()


def test_without_a_viewer_no_ends_of_topics_are_read(peers: Counted) -> None:
    now = [10 * WATCHED_MS]

    async def main() -> None:
        reader = ClusterReader(Admin(peers, ClientOptions(("n:1",))), lambda: now[0])
        for _ in range(3):
            await reader.read()
            now[0] += 1_000
        letters_alone = peers.codes[Code.GET_TOPIC_STATS_INFO]
        assert letters_alone == 3 and not reader.known_ends
        assert len(reader.history.times_ms) > 1  # the hour goes on
        reader.on_viewer()
        await reader.read()
        assert set(reader.known_ends) == {"T", "%DLQ%g"}
        now[0] += WATCHED_MS
        assert not reader.is_watched

    asyncio.run(main())


def test_a_rate_is_between_two_readings_that_are_near(peers: Counted) -> None:
    now = [RATE_MS_MAX]

    async def main() -> None:
        reader = ClusterReader(Admin(peers, ClientOptions(("n:1",))), lambda: now[0])
        for elapsed_ms, is_known in ((0, False), (RATE_MS_MAX, True), (RATE_MS_MAX + 1, False)):
            now[0] += elapsed_ms
            ends = (await reader.topic_ends(["T"]))["T"]
            assert (ends.a_second is not None) == is_known, elapsed_ms

    asyncio.run(main())


def test_the_first_page_after_a_while_waits_a_moment_for_a_new_reading(
    peers: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "FRESH_SECONDS_MAX", 10)
    now = [10 * WATCHED_MS]

    async def main() -> None:
        reader = ClusterReader(Admin(peers, ClientOptions(("n:1",))), lambda: now[0])
        reading = asyncio.ensure_future(reader.run())
        async with asyncio.timeout(5):
            await reader.viewed()
            assert reader.number == 1
            await reader.viewed()  # it is new
            now[0] += 2 * WATCHED_MS
            await reader.viewed()
            assert (reader.number, reader.age_ms) == (2, 0)
            now[0] += WATCHED_MS - 1
            await reader.viewed()  # watched: the next reading comes by itself
            assert reader.number == 2
        reading.cancel()

    asyncio.run(main())


def test_a_late_viewer_is_shown_the_next_reading_soon(
    peers: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "WATCHED_SECONDS", 0.05)

    async def main() -> None:
        reader = ClusterReader(Admin(peers, ClientOptions(("n:1",))), lambda: 10 * WATCHED_MS)
        reading = asyncio.ensure_future(reader.run())
        await reader.next(0)
        reader.on_viewer()  # at the moment of the reading: what is shown is new
        async with asyncio.timeout(5):  # and the next without a viewer comes after 120 s
            await reader.next(2)
        reading.cancel()

    asyncio.run(main())


TABLE = TopicStatsTable(
    {
        MessageQueue("T", "a", 0): TopicOffset(10, 30, 1_000),
        MessageQueue("T", "a", 1): TopicOffset(0, 5, 2_000),
    }
)


def test_a_topic_holds_what_lies_between_the_ends_of_its_queues() -> None:
    ends = Ends(5_000, TABLE, 35)
    assert (ends.held, ends.last_stored_ms) == (25, 2_000)
    assert Ends(5_000, TopicStatsTable(), 0).last_stored_ms == 0


def test_a_rate_needs_two_readings() -> None:
    assert Ends(5_000, TABLE, 35).a_second is None
    assert Ends(5_000, TABLE, 35, 5_000, 15).a_second is None
    assert Ends(5_000, TABLE, 35, 3_000, 15).a_second == 10


def test_a_topic_that_was_made_again_has_no_rate_below_zero() -> None:
    assert Ends(5_000, TABLE, 35, 3_000, 90).a_second == 0
