"""A name server that is gone while a broker serves: clients go on, and the broker comes back."""

from functools import partial
from pathlib import Path

import pytest

from tests.actors.bounded import run
from tests.actors.client import Client, brokers_in, records, route_of
from tests.actors.deployments import running, small_plan, wait_until
from wakelog.actors.deploy.local import LocalDeployment
from wakelog.actors.deploy.plan import Plan
from wakelog.actors.name_server import start_name_server
from wakelog.broker import housekeeping
from wakelog.client.producer import Producer
from wakelog.protocol.codes import ResponseCode

pytestmark = [pytest.mark.process, pytest.mark.slow]

PERIOD_MS = 100
MESSAGES_COUNT = 20
QUEUES_COUNT = 4


async def bodies(client: Client, topic: str) -> set[bytes]:
    """Return what the first pull of each queue brings."""
    found: set[bytes] = set()
    for queue_id in range(QUEUES_COUNT):
        answer = await client.pull(topic, 0, queue_id=queue_id)
        if answer.code == ResponseCode.SUCCESS:
            found.update(record.body for record in records(answer))
    return found


async def serve_without_it(plan: Plan) -> None:
    assert plan.name_server is not None
    address = plan.name_server_address
    async with (
        running(plan) as (deployment, client),
        Producer(address, group="first") as producer,
    ):
        assert isinstance(deployment, LocalDeployment)
        expected = {b"%d" % number for number in range(MESSAGES_COUNT)}
        await producer.send("known", b"0")
        await deployment._name_servers.pop().stop()
        for body in expected - {b"0"}:
            await producer.send("known", body)
        assert (await client.send("new", b"made without it")).code == ResponseCode.SUCCESS

        async def all_are_seen() -> bool:
            return await bodies(client, "known") == expected

        await wait_until(all_are_seen, "what was sent meanwhile")

        deployment._name_servers.append(await start_name_server(plan.name_server))
        for topic in ("known", "new"):
            await wait_until(partial(is_routed, plan, topic), f"the route of {topic}")
        async with Producer(address, group="later") as later:
            await later.send("new", b"after")


async def is_routed(plan: Plan, topic: str) -> bool:
    route = await route_of(plan.name_server_address, topic)
    return brokers_in(route) == {plan.brokers[0].address}


def test_clients_go_on_without_a_name_server_and_the_broker_registers_once_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "REGISTER_MS_MIN", PERIOD_MS)
    plan = small_plan(tmp_path, f"registerNameServerPeriod={PERIOD_MS}")
    run(partial(serve_without_it, plan))
