"""A broker that drains before it stops: its producers move first, and no send fails."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.actors.bounded import run
from tests.actors.client import Client, route_of
from tests.actors.deployments import small_plan, wait_until
from tests.actors.group_in_process import TOPIC as BUILT_IN
from tests.actors.group_in_process import group_of
from tests.actors.plans import service_plan
from tests.actors.test_name_server import make_plan as name_server_plan
from tests.compat.processes import free_port
from wakelog.actors.deploy.local import LocalDeployment, start_local_broker
from wakelog.actors.name_server import start_name_server
from wakelog.broker import drain
from wakelog.client import instance
from wakelog.client.producer import Producer
from wakelog.protocol.bodies import DataVersion
from wakelog.protocol.sys_flag import PERM_READ, PERM_WRITE

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOPIC = "orders"


async def send_on(producer: Producer, sent: list[str], is_over: asyncio.Event) -> None:
    """Send one after the other. Raises: whatever a send raises."""
    while not is_over.is_set():
        receipt = await producer.send(TOPIC, b"body")
        sent.append(receipt.broker)
        await asyncio.sleep(0.005)


def test_producers_move_before_a_broker_stops(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "QUIET_MS", 500)
    monkeypatch.setattr(instance, "HEARTBEAT_SECONDS", 0.2)

    async def main() -> None:
        plan = small_plan(short_path, broker_count=2)
        deployment = LocalDeployment(plan)
        await deployment.start(lambda step: None)
        for broker in plan.brokers:
            client = Client(broker.address)
            await client.send(TOPIC, b"which makes the topic")
            held = asyncio.create_task(client.pull(TOPIC, 3, hold_ms=1_500))
        sent: list[str] = []
        is_over = asyncio.Event()
        async with Producer(plan.name_server_address, group="g") as producer:
            sending = asyncio.create_task(send_on(producer, sent, is_over))
            await wait_until(lambda: {"broker-a", "broker-b"} <= set(sent), "both get messages")
            await deployment.brokers[1].hosted.drain(10.0)
            assert held.done(), "the pull has ended by its own deadline"
            route = await route_of(plan.name_server_address, TOPIC)
            perms = {each.broker_name: each.perm for each in route.queue_datas}
            assert perms == {"broker-a": 6, "broker-b": PERM_READ}
            sent.clear()
            assert await deployment.brokers.pop().stop()
            await wait_until(lambda: len(sent) > 20, "sends go on")
            is_over.set()
            await sending
            assert set(sent) == {"broker-a"}
            # There is no other broker any more, so that this ends at once.
            await deployment.brokers[0].hosted.drain(60.0)
            assert not deployment.brokers[0].service.broker.state.is_draining
        await deployment.stop(lambda step: None)

    run(main)


def test_a_stop_drains_for_as_long_as_the_plan_says(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drained: list[float] = []

    async def note(_hosted: object, seconds_max: float) -> None:
        drained.append(seconds_max)

    monkeypatch.setattr("wakelog.actors.broker.hosted.HostedBroker.drain", note)

    async def main() -> None:
        for seconds in (0, 7):
            plan = msgspec.structs.replace(small_plan(short_path), drain_seconds=seconds)
            deployment = LocalDeployment(plan)
            await deployment.start(lambda step: None)
            await deployment.stop(lambda step: None)

    run(main)
    assert drained == [7]


def test_a_master_drains_before_another_replica_leads(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower has nothing to drain, and the next master has the permission to write."""
    monkeypatch.setattr(drain, "QUIET_MS", 200)

    async def main() -> None:
        port = free_port()
        address = f"127.0.0.1:{port}"
        name_server = await start_name_server(name_server_plan(str(short_path / "kv.json"), port))
        (short_path / "other").mkdir()
        other = await start_local_broker(
            service_plan(
                short_path / "other",
                brokerName="broker-b",
                listenPort=free_port(-2, 1),
                namesrvAddr=address,
            )
        )

        async def permissions() -> dict[str, int]:
            route = await route_of(address, BUILT_IN)
            return {each.broker_name: each.perm for each in route.queue_datas}

        async with group_of(short_path) as group:

            def version_at(number: int) -> DataVersion:
                return group.replica(number).service.broker.state.topics.data_version

            group.settings = {"namesrvAddr": address}
            await group.start(1)
            master = await group.until_serving(1)
            await group.start(2)
            await wait_until(lambda: group.state().in_sync == {1, 2}, "both are in sync")
            before = await permissions()
            assert before["broker-a"] & PERM_WRITE
            await group.brokers[2].hosted.drain(60.0)
            assert not group.replica(2).service.broker.state.is_draining
            await group.brokers[1].hosted.drain(10.0)
            assert master.service.broker.state.is_draining
            assert await permissions() == {**before, "broker-a": PERM_READ}
            await wait_until(lambda: version_at(2) == version_at(1), "the table is copied")
            drained = version_at(1)
            group.name_master(2)
            await group.until_serving(2)
            # Else a name server takes its topics for those that it knows, without the permission.
            assert version_at(2) != drained

            async def are_as_before() -> bool:
                return await permissions() == before

            await wait_until(are_as_before, "the next master takes sends")
        await other.stop()
        await name_server.stop()

    run(main)
