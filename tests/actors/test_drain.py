"""A broker that drains before it stops: its producers move first, and no send fails."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.actors.bounded import run
from tests.actors.client import Client, route_of
from tests.actors.deployments import small_plan, wait_until
from wakelog.actors.deploy.local import LocalDeployment
from wakelog.broker import drain
from wakelog.client import instance
from wakelog.client.producer import Producer
from wakelog.protocol.sys_flag import PERM_READ

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
