"""A whole broker in one process: what its services do together, over real sockets and files."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.actors.client import Client, brokers_in, records, route_of
from tests.actors.deployments import running, small_plan, wait_until
from wakelog.actors.deploy.local import LocalBroker, LocalDeployment
from wakelog.broker.access import addresses
from wakelog.network.bound_ports import BoundPorts
from wakelog.network.errors import ConnectFailed, SendFailed
from wakelog.network.server import Server
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.storage.errors import StoreLocked

pytestmark = pytest.mark.slow

STOP_SECONDS_MAX = 10.0
BROKER_PORTS_COUNT = 2  # its own, and the VIP channel's; a name server has one

PATIENT = "waitTimeMillsInSendQueue=20000"
"""On a busy machine the last of many sends at once waits longer than it may by default."""

Body = Callable[[LocalDeployment, Client], Awaitable[None]]


def run(store: Path, body: Body, *settings: str, segment_bytes: int = 1 << 20) -> None:
    async def whole() -> None:
        plan = small_plan(store, *settings, segment_bytes=segment_bytes)
        async with running(plan) as (deployment, client):
            assert isinstance(deployment, LocalDeployment)
            await body(deployment, client)

    asyncio.run(whole())


def broker_of(deployment: LocalDeployment) -> LocalBroker:
    return deployment.brokers[0]


async def bodies(client: Client, topic: str, count: int) -> list[bytes]:
    """Return the bodies of a queue once it has `count` messages."""

    async def pull_all() -> list[bytes]:
        found: list[bytes] = []
        while True:
            answer = await client.pull(topic, len(found))
            if answer.code != ResponseCode.SUCCESS:
                return found if len(found) >= count else []
            found += [record.body for record in records(answer)]

    return list(await wait_until(pull_all, f"{count} messages of {topic}"))


def test_a_held_pull_is_woken_by_a_message_and_held_no_longer_than_it_asked_for(
    tmp_path: Path,
) -> None:
    async def body(deployment: LocalDeployment, client: Client) -> None:
        assert (await client.send("t", b"first")).code == ResponseCode.SUCCESS
        assert await bodies(client, "t", 1) == [b"first"]
        held = asyncio.ensure_future(client.pull("t", 1, hold_ms=15_000))
        pull_hold = broker_of(deployment)._services["pull_hold"]
        await wait_until(lambda: pull_hold.statistics()["hold_count"], "the hold")
        await client.send("t", b"second")
        answer = await held
        assert [record.body for record in records(answer)] == [b"second"]
        await wait_until(lambda: pull_hold.statistics()["woken_by_arrival_count"], "the arrival")
        began = time.monotonic()
        answer = await client.pull("t", 2, hold_ms=300)
        assert answer.code == ResponseCode.PULL_NOT_FOUND
        assert 0.25 < time.monotonic() - began < 5

    run(tmp_path, body)


def test_a_broker_that_holds_pulls_stops_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        plan = small_plan(tmp_path)
        deployment = LocalDeployment(plan)
        client = Client(plan.brokers[0].address)
        await deployment.start(lambda what: None)
        await client.send("t", b"first")
        await bodies(client, "t", 1)
        held = [asyncio.ensure_future(client.pull("t", 1, hold_ms=15_000)) for _ in range(3)]
        pull_hold = broker_of(deployment)._services["pull_hold"]
        await wait_until(lambda: pull_hold.statistics()["hold_count"] == 3, "the holds")
        async with asyncio.timeout(STOP_SECONDS_MAX):
            assert await deployment.stop(lambda what: None)
        answers = await asyncio.gather(*held, return_exceptions=True)
        assert all(isinstance(answer, SendFailed) for answer in answers)
        await client.close()

    asyncio.run(main())


def test_synchronous_sends_are_answered_once_durable_and_share_flushes(tmp_path: Path) -> None:
    async def body(deployment: LocalDeployment, client: Client) -> None:
        broker = broker_of(deployment)
        assert (await client.send("t", b"x" * 1000)).code == ResponseCode.SUCCESS
        watermarks = broker.statistics()["watermarks"]
        assert watermarks["flushed"] == watermarks["appended"] > 1000
        assert await bodies(client, "t", 1) == [b"x" * 1000]
        answers = await asyncio.gather(*(client.send("t", b"%d" % i) for i in range(200)))
        assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
        assert len(await bodies(client, "t", 201)) == 201
        assert 1 <= broker.statistics()["service_clients"]["references"]["flush"] < 100

    run(tmp_path, body, "flushDiskType=SYNC_FLUSH", PATIENT)


def test_asynchronous_messages_are_flushed_in_time(tmp_path: Path) -> None:
    async def body(deployment: LocalDeployment, client: Client) -> None:
        await client.send("t", b"x" * 50_000)
        broker = broker_of(deployment)
        await wait_until(
            lambda: broker.statistics()["watermarks"]["flushed"] > 50_000, "a timed flush"
        )

    run(tmp_path, body, "flushIntervalCommitLog=50")


def test_the_log_rolls_into_segments_that_were_made_ahead(tmp_path: Path) -> None:
    async def body(deployment: LocalDeployment, client: Client) -> None:
        broker = broker_of(deployment)
        made = broker._services["allocate_mapped_file"].statistics
        for i in range(30):
            await client.send("t", b"%02d" % i * 5000)
            await wait_until(lambda: made()["made_count"] >= 2, "segments made ahead")
        assert len(await bodies(client, "t", 30)) == 30
        links = broker.statistics()["service_clients"]
        assert links["counters"]["allocate_mapped_file"]["taken_count"] >= 5
        assert (
            links["counters"]["allocate_mapped_file"]["own_count"]
            < links["counters"]["allocate_mapped_file"]["taken_count"]
        )
        assert links["references"]["allocate"] >= 5

    run(tmp_path, body, segment_bytes=64 << 10)


def test_a_delayed_message_comes_when_it_is_due_and_not_before(tmp_path: Path) -> None:
    async def body(_deployment: LocalDeployment, client: Client) -> None:
        await client.send("t", b"now")
        began = time.monotonic()
        await client.send("t", b"later", properties="DELAY\x011\x02")
        assert await bodies(client, "t", 2) == [b"now", b"later"]
        assert 0.45 < time.monotonic() - began < 5

    run(tmp_path, body, "messageDelayLevel=1s 5s")


def test_a_store_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    async def first(_deployment: LocalDeployment, client: Client) -> None:
        for i in range(5):
            await client.send("t", b"%d" % i)

    async def second(deployment: LocalDeployment, client: Client) -> None:
        # Consumers see everything from the first moment on.
        answer = await client.pull("t", 0)
        assert [record.body for record in records(answer)] == [b"%d" % i for i in range(5)]
        answer = await client.send("t", b"5")
        assert answer.ext_fields["queueOffset"] == "5"
        assert await bodies(client, "t", 6) == [b"%d" % i for i in range(6)]

    run(tmp_path, first)
    assert not (tmp_path / "abort").exists()
    run(tmp_path, second)


def test_a_transient_pool_is_committed_and_survives_the_broker(tmp_path: Path) -> None:
    async def body(deployment: LocalDeployment, client: Client) -> None:
        for i in range(40):
            await client.send("t", b"%02d" % i * 1000)
        assert len(await bodies(client, "t", 40)) == 40
        broker = broker_of(deployment)
        assert broker._services["commit"].statistics()["copied_bytes"] >= 80_000
        assert broker.statistics()["service_clients"]["references"]["commit"] >= 1
        await wait_until(
            lambda: broker.statistics()["watermarks"]["flushed"] > 80_000, "a timed flush"
        )

    pool = ("transientStorePoolEnable=true", "transientStorePoolSize=2")
    run(tmp_path, body, *pool, "flushIntervalCommitLog=50", segment_bytes=64 << 10)
    assert not (tmp_path / "abort").exists()


def test_a_topic_that_a_client_makes_is_routed_when_it_hears_of_it(tmp_path: Path) -> None:
    async def body(deployment: LocalDeployment, client: Client) -> None:
        await client.create_topic("made", 4)
        asking = Client(deployment._plan.name_server_address)
        route = await asking.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "made"})
        assert route.code == ResponseCode.SUCCESS
        await asking.close()

    run(tmp_path, body)


def test_a_broker_on_an_address_of_the_network_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "is_loopback", lambda host: False)

    async def body(deployment: LocalDeployment, client: Client) -> None:
        assert (await client.send("t", b"first")).code == ResponseCode.SUCCESS
        assert brokers_in(await route_of(deployment._plan.name_server_address, "t"))

    run(tmp_path, body)


def test_a_store_that_runs_is_refused_and_left_alone(tmp_path: Path) -> None:
    async def body(deployment: LocalDeployment, client: Client) -> None:
        attached = broker_of(deployment).statistics
        await wait_until(
            lambda: all(attached()["service_clients"]["attached"].values()), "the services"
        )
        before = sorted((path, path.stat().st_size) for path in tmp_path.rglob("*"))
        other = LocalDeployment(small_plan(tmp_path))
        with pytest.raises(StoreLocked):
            await other.start(lambda what: None)
        await other.stop(lambda what: None)
        assert sorted((path, path.stat().st_size) for path in tmp_path.rglob("*")) == before
        assert (await client.send("t", b"y")).code == ResponseCode.SUCCESS

    run(tmp_path, body)


def test_its_ports_accept_once_it_is_in_the_route_and_no_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = small_plan(tmp_path)
    address = plan.brokers[0].address
    listen = Server.listen
    seen: list[set[str]] = []

    async def check_and_listen(server: Server, ports: BoundPorts) -> None:
        if len(ports._bound) == BROKER_PORTS_COUNT:
            seen.append(brokers_in(await route_of(plan.name_server_address, "TBW102")))
            client = Client(address)
            with pytest.raises(ConnectFailed):
                await client.pull("t", 0)
            await client.close()
        await listen(server, ports)

    async def whole() -> None:
        monkeypatch.setattr(Server, "listen", check_and_listen)
        async with running(plan) as (_, client):
            assert (await client.send("t", b"x")).code == ResponseCode.SUCCESS

    asyncio.run(whole())
    assert seen == [{address}]


def test_several_brokers_share_one_name_server(tmp_path: Path) -> None:
    async def whole() -> None:
        plan = small_plan(tmp_path, broker_count=2)
        async with running(plan) as (deployment, _):
            for broker in plan.brokers:
                client = Client(broker.address)
                assert (await client.send("t", b"x")).code == ResponseCode.SUCCESS
                await client.close()
            statistics = await deployment.statistics()
            assert set(statistics["brokers"]) == {"broker-a", "broker-b"}

    asyncio.run(whole())
    assert (tmp_path / "broker-a" / "commitlog").is_dir()
