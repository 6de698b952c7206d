"""Routes from name servers, asked in turn, and the error if none of them helps."""

import asyncio
import gc
from collections.abc import Callable

import pytest

from tests.client.clusters import FakeCluster
from wakelog.client.errors import ClientError, describe
from wakelog.client.options import ClientOptions
from wakelog.client.route import (
    NEW_TOPIC_QUEUES,
    QueueAt,
    Routes,
    readable_queues,
    writable_queues,
)
from wakelog.protocol.bodies import BrokerData, QueueData, TopicRouteData
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.names import AUTO_CREATE_TOPIC

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


def test_a_name_server_that_does_not_answer_is_asked_last_from_then_on() -> None:
    cluster = FakeCluster(routes={"T": {"a": 2}})
    cluster.refuse("gone:1")
    routes = routes_of(cluster)

    async def asked() -> list[str]:
        del cluster.asked[:]
        await routes.find("T")
        return [address for address, _ in cluster.asked]

    assert asyncio.run(asked()) == ["gone:1", "names:9876"]
    assert asyncio.run(asked()) == ["names:9876"]
    cluster.refuse("names:9876")
    assert asyncio.run(asked()) == ["names:9876", "gone:1"]
    assert asyncio.run(asked()) == ["gone:1"]


def test_all_reasons_are_named_and_a_code_only_if_every_name_server_refused() -> None:
    cluster, command = FakeCluster(), RemotingCommand(int(RequestCode.GET_KV_CONFIG))
    servers = routes_of(cluster).name_servers

    def refuse(code: ResponseCode) -> Callable[[str, RemotingCommand], RemotingCommand]:
        return lambda address, command: answer(command, code, f"{address} refuses")

    async def failure() -> ClientError:
        with pytest.raises(ClientError) as raised:
            await servers.ask(command, "a value")
        return raised.value

    async def run() -> None:
        cluster.fail = refuse(ResponseCode.NO_PERMISSION)
        refused = await failure()
        assert all(f"{address} refuses" in refused.cause for address in BOTH)
        assert (refused.code, refused.remark) == (16, "names:9876 refuses")
        assert "Ask as an account" in refused.remedy
        cluster.refuse("gone:1")
        away = cluster.fail
        cluster.fail = lambda address, command: (
            away(address, command) or refuse(ResponseCode.NO_PERMISSION)(address, command)
        )
        mixed = await failure()
        assert "gone:1: Connection refused" in mixed.cause and "names:9876 refuses" in mixed.cause
        assert mixed.code is None

    asyncio.run(run())
    with pytest.raises(ClientError, match=r"no name server is given\. Give -n HOST:PORT"):
        asyncio.run(Routes(cluster, ClientOptions(())).check())


def test_a_broker_at_the_address_is_no_name_server() -> None:
    cluster = FakeCluster()
    cluster.fail = lambda _, command: answer(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    routes = routes_of(cluster)
    for ask in (routes.check, routes.topics):
        with pytest.raises(ClientError, match="mostly port 9876"):
            asyncio.run(ask())
    with pytest.raises(ClientError, match="no name server gave routes: gone:1 answered"):
        asyncio.run(routes.check())


def test_topics_are_those_of_the_name_server() -> None:
    cluster = FakeCluster({("a", "T", 0): [], ("a", "U", 0): []})
    routes = routes_of(cluster)
    assert asyncio.run(routes.topics()) == {"T", "U"}
    cluster.fail = lambda _, command: answer(command, ResponseCode.SUCCESS)
    assert asyncio.run(routes.topics()) == frozenset()


def test_only_masters_that_may_be_written_to_are_and_so_many_queues() -> None:
    route = TopicRouteData(
        queue_datas=[
            QueueData("b", 1, 3, 6), QueueData("a", 4, 2, 2), QueueData("r", 4, 4, 4),
            QueueData("s", 4, 4, 6), QueueData("gone", 4, 4, 6),
        ],
        broker_datas=[
            BrokerData("c", "a", {0: "a:1", 1: "a:2"}),
            BrokerData("c", "b", {0: "b:1"}),
            BrokerData("c", "r", {0: "r:1"}),
            BrokerData("c", "s", {1: "s:2"}),
        ],
    )  # fmt: skip
    every = [QueueAt("a", "T", n, "a:1") for n in range(2)]
    every += [QueueAt("b", "T", n, "b:1") for n in range(3)]
    assert writable_queues(route, "T") == every
    assert writable_queues(route, "T", queues_max=2) == every[:4]
    assert writable_queues(route, "T", queues_max=0) == []
    assert [one.broker for one in readable_queues(route, "T")] == ["b", *"rrrr", *"ssss"]


@pytest.mark.parametrize(
    ("perm", "addresses", "cause", "passes"),
    [
        (4, {0: "a:1"}, "no broker accepts messages for topic T", False),
        (6, {1: "a:2"}, "broker a of topic T has no master now", True),
        (6, {}, "no broker accepts messages for topic T", False),
    ],
)
def test_why_no_queue_can_be_written_to(
    perm: int, addresses: dict[int, str], cause: str, *, passes: bool
) -> None:
    route = TopicRouteData(
        queue_datas=[QueueData("a", 2, 2, perm)], broker_datas=[BrokerData("c", "a", addresses)]
    )
    routes = routes_of(FakeCluster())

    async def find(topic: str, **_: object) -> TopicRouteData | None:
        routes._known[topic] = route
        return route

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes, "find", find)
        with pytest.raises(ClientError, match=cause) as error:
            asyncio.run(routes.writable("T"))
    assert error.value.passes is passes
    assert routes.known_writable("T") == ()


def test_a_new_topic_has_the_queues_of_its_template() -> None:
    cluster = FakeCluster(routes={AUTO_CREATE_TOPIC: {"a": NEW_TOPIC_QUEUES + 3}})
    routes = routes_of(cluster, "names:9876")
    found = asyncio.run(routes.writable("new"))
    assert found == [QueueAt("a", "new", n, "a:10911") for n in range(NEW_TOPIC_QUEUES)]
    assert list(routes.known_writable("new")) == found
    assert not routes.lacks_master("new", "a"), "known by the template"
    assert routes.brokers == {"a": {0: "a:10911"}}


def test_calls_that_come_meanwhile_wait_for_one_answer() -> None:
    cluster = FakeCluster(routes={"T": {"a": 1}})
    routes = routes_of(cluster, "names:9876")

    async def main() -> None:
        found = await asyncio.gather(*(routes.writable("T") for _ in range(5)))
        assert found == [found[0]] * 5 and len(cluster.asked) == 1
        await routes.writable("T", refresh=True)
        assert len(cluster.asked) == 2
        cancelled = asyncio.ensure_future(routes.writable("T", refresh=True))
        other = asyncio.ensure_future(routes.writable("T", refresh=True))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert await other == found[0], "one that gives up takes nothing from the others"
        assert not routes._finding

    asyncio.run(main())


def test_a_refresh_asks_for_every_topic_in_use_and_keeps_what_is_not_found() -> None:
    cluster = FakeCluster(routes={"T": {"a": 1}, "U": {"a": 1}, "V": {"a": 1}})
    routes = routes_of(cluster, "names:9876")

    async def main() -> None:
        await routes.writable("T")
        await routes.writable("U")
        await routes.find("V")
        cluster.routes |= {"T": {"b": 1}, "V": {"c": 1}}
        del cluster.routes["U"]
        await routes.refresh()

    asyncio.run(main())
    assert [one.broker for one in routes.known_writable("T")] == ["b"]
    assert [one.broker for one in routes.known_writable("U")] == ["a"]
    assert set(routes.brokers) == {"a", "b", "c"} and routes.known_writable("V") == ()


@pytest.mark.parametrize("ends", ["failed", "cancelled"])
def test_an_answer_that_none_waits_for_any_more_is_dropped_in_silence(
    ends: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster(routes={"T": {"a": 1}})
    routes = routes_of(cluster, "names:9876")

    async def run() -> None:
        cluster.fail = lambda _, command: answer(command, ResponseCode.SYSTEM_BUSY)
        caller = asyncio.ensure_future(routes.writable("T"))
        await asyncio.sleep(0)
        [finding] = routes._finding.values()
        caller.cancel()
        if ends == "cancelled":
            finding.cancel()
        await asyncio.wait([caller, finding])
        del finding
        await asyncio.sleep(0)
        assert not routes._finding
        cluster.fail = lambda *_: None
        assert len(await routes.writable("T")) == 1

    asyncio.run(run())
    gc.collect()
    assert not caplog.messages
