"""Processes killed at random moments under load: nothing acknowledged is lost or doubled.

The moments come from a seed, which a failure names.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.actors.deployments import small_plan, wait_until
from tests.actors.load import (
    Load,
    check_nothing_lost_or_doubled,
    pull_all,
)
from wakelog.actors.cluster.ray_cluster import RayCluster
from wakelog.actors.plan import Plan, Transport
from wakelog.actors.services import SERVICES
from wakelog.actors.supervised import SupervisedActors, deployment_plan

pytestmark = [pytest.mark.ray, pytest.mark.kill, pytest.mark.slow]

SEED = 20_493
STALL_MS_MAX = 500
SYNCHRONOUS_STALL_MS_MAX = 2_000
BACK_SECONDS_MAX = 10.0
BROKER_STALL_MS_MAX = 8_000

ROLES = [*(row.actor_name for row in SERVICES.values()), "NameServer", "Supervisor", "Broker"]


class Running:
    """A deployment that is killed in parts."""

    def __init__(self, plan: Plan, actors: SupervisedActors) -> None:
        self.plan = plan
        self.actors = actors
        self.address = plan.brokers[0].address

    async def process_id(self, role: str) -> int:
        """Return the id of a role's process, 0 while it is not known."""
        supervisor = (await self.actors.statistics()).get("supervisor", {})
        if role == "Supervisor":
            return int(supervisor.get("process_id", 0))
        found = supervisor.get("process_ids", {})
        return next((found[name] for name in found if name.endswith(f".{role}")), 0)

    async def all_attached(self) -> bool:
        statistics = await self.actors.statistics()
        links = statistics.get("brokers", {}).get("broker-a", {}).get("links", {})
        return all(links.get("attached", {"": False}).values())


@pytest.fixture(scope="module", params=[Transport.BELLS, Transport.REFERENCES])
def broker(
    request: pytest.FixtureRequest, ray_cluster: RayCluster, tmp_path_factory: Any
) -> Iterator[Running]:
    plan = small_plan(
        tmp_path_factory.mktemp("store"),
        is_local=False,
        transport=request.param,
        segment_bytes=256 << 10,
    )
    actors = SupervisedActors(deployment_plan(plan, ray_cluster.shared_directory))
    asyncio.run(actors.start(lambda what: None))
    yield Running(plan, actors)
    asyncio.run(actors.stop())


@pytest.mark.parametrize("role", ROLES)
def test_a_kill_loses_and_doubles_nothing(broker: Running, role: str) -> None:
    async def body() -> None:
        await wait_until(broker.all_attached, "every neighbour")
        process_id = await wait_until(lambda: broker.process_id(role), f"the process of {role}")
        chance = random.Random(f"{SEED} {role}")
        load = Load(broker.address, f"kill-{role}")
        load.start()
        await asyncio.sleep(chance.uniform(0.3, 0.8))
        began = time.monotonic()
        os.kill(process_id, signal.SIGKILL)
        await asyncio.sleep(chance.uniform(0.2, 0.6))
        await wait_until(broker.all_attached, f"{role} is back")
        back_seconds = time.monotonic() - began
        await asyncio.sleep(0.5)
        account = await load.stop()
        assert account.acknowledged
        queues = await wait_until(
            lambda: _complete(broker.address, f"kill-{role}", len(account.acknowledged)), "queues"
        )
        check_nothing_lost_or_doubled(account, queues)
        stall_ms = account.longest_gap_ms(began)
        print(
            role,
            "stall",
            round(stall_ms),
            "ms, back",
            round(back_seconds, 2),
            account.refused_codes,
            len(account.acknowledged),
        )
        assert stall_ms <= (BROKER_STALL_MS_MAX if role == "Broker" else STALL_MS_MAX)

    asyncio.run(body())


async def _complete(address: str, topic: str, count: int) -> dict[int, list[bytes]] | None:
    queues = await pull_all(address, topic)
    return queues if sum(map(len, queues.values())) >= count else None
