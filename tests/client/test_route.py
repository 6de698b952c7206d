"""Routes from name servers, asked in turn, and the error if none of them helps."""

import asyncio

import pytest

from tests.client.clusters import FakeCluster
from wakelog.client.errors import ClientError, describe
from wakelog.client.options import ClientOptions
from wakelog.client.route import QueueAt, Routes, readable_queues
from wakelog.protocol.bodies import BrokerData, QueueData, TopicRouteData
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer

BOTH = ("gone:1", "names:9876")


def routes_of(cluster: FakeCluster, *name_servers: str) -> Routes:
    return Routes(cluster, ClientOptions(name_servers or BOTH, timeout_ms=100))


def test_the_first_name_server_that_answers_gives_the_route() -> None:
    cluster = FakeCluster(routes={"T": {"a": 2}})
    cluster.refuse("gone:1")
    route = asyncio.run(routes_of(cluster).find("T"))
    assert route is not None and route.queue_datas[0].read_queue_nums == 2
    assert asyncio.run(routes_of(cluster).find("U")) is None
    with pytest.raises(ClientError, match=r"route of topic T: gone:1: Connection refused\. Check"):
        asyncio.run(routes_of(cluster, "gone:1").find("T"))


def test_a_response_that_is_no_route_is_an_error() -> None:
    cluster = FakeCluster(routes={"T": {"a": 2}})
    cluster.fail = lambda address, command: answer(command, ResponseCode.SUCCESS, body=b"<html>")
    with pytest.raises(ClientError, match="the route of topic T cannot be read"):
        asyncio.run(routes_of(cluster).find("T"))
    cluster.fail = lambda address, command: answer(command, ResponseCode.SYSTEM_BUSY)
    busy = r"gone:1 answered 2 \(SYSTEM_BUSY\): no reason given; na"
    with pytest.raises(ClientError, match=busy):
        asyncio.run(routes_of(cluster).find("T"))


def test_writable_queues_stay_known_while_the_name_server_lacks_them() -> None:
    cluster = FakeCluster(routes={"T": {"a": 2}})
    routes = routes_of(cluster, "names:9876")
    queues = [QueueAt("a", "T", 0, "a:10911"), QueueAt("a", "T", 1, "a:10911")]

    async def run() -> None:
        assert await routes.writable("T") == queues
        cluster.routes.clear()
        assert await routes.writable("T", refresh=True) == queues
        cluster.routes["T"] = {"b": 1}
        assert await routes.writable("T") == queues
        assert await routes.writable("T", refresh=True) == [QueueAt("b", "T", 0, "b:10911")]
        with pytest.raises(ClientError, match="no broker accepts messages for topic U"):
            await routes.writable("U")

    asyncio.run(run())


def test_masters_are_read_and_a_slave_if_there_is_no_master() -> None:
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


def test_a_code_without_a_name_is_described_too() -> None:
    assert describe(answer(RemotingCommand(11), 999, "why")) == "999 (unknown): why"


def test_a_remark_of_several_lines_is_described_in_one() -> None:
    refusal = answer(RemotingCommand(11), 1, 'Encountered "<EOF>".\nWas expecting:\n    ")" ...\n')
    assert describe(refusal) == '1 (SYSTEM_ERROR): Encountered "<EOF>". Was expecting: ")"'


def test_a_broker_lacks_its_master_if_its_replicas_alone_are_known() -> None:
    cluster = FakeCluster(routes={"T": {"a": 1}})
    routes = routes_of(cluster, "names:9876")

    async def lacks(addresses: dict[int, str]) -> tuple[bool, bool]:
        route = TopicRouteData(broker_datas=[BrokerData("c", "a", addresses)])
        routes._known["T"] = route
        return routes.lacks_master("T", "a"), routes.has_replicas(QueueAt("a", "T", 0, "a:1"))

    assert asyncio.run(lacks({})) == (False, False)
    assert asyncio.run(lacks({0: "a:1"})) == (False, False)
    assert asyncio.run(lacks({1: "a:2"})) == (True, False)
    assert asyncio.run(lacks({1: "a:2", 2: "a:3"})) == (True, True)
    assert asyncio.run(lacks({0: "a:1", 1: "a:2"})) == (False, True)
