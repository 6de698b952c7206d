"""Requests, attempts, and what is said of those that fail."""

from __future__ import annotations

import asyncio

import pytest

from tests.spark.remote.clusters import NAME_SERVER, FakeCluster, messages
from wakelog.network.errors import CallTimeout, ConnectFailed
from wakelog.protocol.bodies import BrokerData, QueueData, TopicRouteData
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.spark.options import RemoteOptions
from wakelog.spark.remote.calls import open_calls, readable_queues
from wakelog.spark.remote.plan import QueueAt
from wakelog.spark.remote.routes import WireFailed

AT = QueueAt("a", "T", 0, "a:10911")


def test_a_queue_is_asked_for_its_offsets_times_and_messages() -> None:
    cluster = FakeCluster({("a", "T", 0): messages(5, first=7)})
    cluster.first["a", "T", 0] = 7
    cluster.committed = {("g", "a", "T", 0): 9, ("minus", "a", "T", 0): -1}
    calls = cluster.calls()

    async def run() -> None:
        assert await calls.topics() == {"T"}
        assert await calls.queues("T") == [AT]
        assert await calls.queues("U") is None
        assert (await calls.min_offset(AT), await calls.max_offset(AT)) == (7, 12)
        assert await calls.committed(AT, "g") == 9
        assert await calls.committed(AT, "minus") is await calls.committed(AT, "new") is None
        await calls.commit(AT, "g", 11)
        assert await calls.committed(AT, "g") == 11
        found = await calls.pull(AT, 8, 2)
        assert (found.next_offset, found.min_offset, found.max_offset) == (10, 7, 12)
        assert found.body == b"".join(messages(2, first=8))
        moved = await calls.pull(AT, 3, 2)
        assert (moved.code, moved.body) == (ResponseCode.PULL_OFFSET_MOVED, b"")
        gone = await calls.pull(QueueAt("a", "U", 0, "a:10911"), 3, 2)
        assert (gone.code, gone.next_offset) == (ResponseCode.TOPIC_NOT_EXIST, 3)

    asyncio.run(run())


def test_a_call_that_fails_goes_to_where_the_broker_is_by_then() -> None:
    cluster = FakeCluster({("a", "T", 0): messages(1)})
    moved = QueueAt("a", "T", 0, "old:1")

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if address == "old:1":
            raise ConnectFailed(address, "Connection refused")
        return None

    cluster.fail = fail
    calls = cluster.calls()
    assert asyncio.run(calls.max_offset(moved)) == 1
    cluster.asked.clear()
    assert asyncio.run(calls.min_offset(moved)) == 0
    assert cluster.asked == [("a:10911", RequestCode.GET_MIN_OFFSET)]


@pytest.mark.parametrize("retries", [0, 3])
def test_who_does_not_answer_is_named(retries: int) -> None:
    cluster = FakeCluster({("a", "T", 0): messages(1)})

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        raise CallTimeout(address, "no answer within 3000 ms")

    cluster.fail = fail
    calls = cluster.calls(RemoteOptions((NAME_SERVER, "b:1"), retries_max=retries))
    with pytest.raises(WireFailed, match="a does not answer GET_MAX_OFFSET: a:10911: no answer"):
        asyncio.run(calls.max_offset(AT))
    assert [x for x, _ in cluster.asked].count("a:10911") == retries + 1
    with pytest.raises(WireFailed, match="no name server says where topic T is: names:9876: no"):
        asyncio.run(calls.queues("T"))
    assert cluster.asked[-1][0] == "b:1"


@pytest.mark.parametrize(
    ("code", "attempts", "remedy"),
    [
        (ResponseCode.SYSTEM_BUSY, 4, "Look at that broker's log"),
        (ResponseCode.NO_PERMISSION, 1, "Give the topic and the group leave to be read"),
        (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, 1, "updateSubGroup"),
    ],
)
def test_a_refusal_is_said_with_what_to_do(code: ResponseCode, attempts: int, remedy: str) -> None:
    cluster = FakeCluster({("a", "T", 0): messages(1)})
    cluster.fail = lambda address, command: (
        answer(command, code, "because") if address == "a:10911" else None
    )
    with pytest.raises(WireFailed, match=f"{code.value} .{code.name}.: because") as failed:
        asyncio.run(cluster.calls().pull(AT, 0, 1))
    assert remedy in failed.value.remedy
    assert [x for x, _ in cluster.asked].count("a:10911") == attempts
    with pytest.raises(WireFailed, match="answered GET_MIN_OFFSET for queue 0 of topic T with"):
        asyncio.run(cluster.calls().min_offset(AT))


def test_masters_are_read_and_slaves_where_there_is_none() -> None:
    route = TopicRouteData(
        queue_datas=[QueueData("b", 1, 1, 4), QueueData("a", 2, 0, 6), QueueData("w", 4, 4, 2)],
        broker_datas=[
            BrokerData("c", "a", {0: "a:1", 1: "a:2"}),
            BrokerData("c", "b", {2: "b:3", 1: "b:2"}),
            BrokerData("c", "w", {0: "w:1"}),
        ],
    )
    found = readable_queues(route, "T")
    assert found == [
        QueueAt("a", "T", 0, "a:1"),
        QueueAt("a", "T", 1, "a:1"),
        QueueAt("b", "T", 0, "b:2"),
    ]


def test_connections_end_with_the_block() -> None:
    async def run() -> None:
        async with open_calls(RemoteOptions(("127.0.0.1:1",), timeout_ms=500)) as calls:
            with pytest.raises(WireFailed, match="no name server says which topics there are"):
                await calls.topics()
        with pytest.raises(WireFailed, match="this client is closed"):
            await calls.topics()

    asyncio.run(run())
