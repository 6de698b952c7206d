"""The deployments of actors that tests of a session share: one for each transport."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

from tests.actors.deployments import small_plan, wait_until
from wakelog.actors.cluster.ray_cluster import RayCluster
from wakelog.actors.plan import Plan, Transport
from wakelog.actors.supervised import SupervisedActors, deployment_plan

SEGMENT_BYTES = 256 << 10

STALL_MS_MAX = 500
SYNCHRONOUS_STALL_MS_MAX = 2_000
BROKER_STALL_MS_MAX = 8_000


class Kind(NamedTuple):
    """What a deployment is like."""

    transport: Transport
    settings: tuple[str, ...]
    stall_ms_max: int


KINDS = {
    "bells": Kind(Transport.BELLS, ("flushDiskType=SYNC_FLUSH",), SYNCHRONOUS_STALL_MS_MAX),
    "references": Kind(
        Transport.REFERENCES,
        ("transientStorePoolEnable=true", "transientStorePoolSize=3"),
        STALL_MS_MAX,
    ),
}


class SupervisedBroker:
    """A running deployment of one broker."""

    def __init__(self, kind: Kind, plan: Plan, actors: SupervisedActors) -> None:
        self.kind = kind
        self.plan = plan
        self.actors = actors
        self.address = plan.brokers[0].address

    async def broker_statistics(self) -> dict[str, Any]:
        """Return what the broker and its services say, nothing while they cannot."""
        statistics = await self.actors.statistics()
        found: dict[str, Any] = statistics.get("brokers", {}).get("broker-a", {})
        return found

    async def references(self) -> dict[str, int]:
        """Return how many references crossed, by kind."""
        links = (await self.broker_statistics()).get("links", {})
        found: dict[str, int] = links.get("references", {})
        return found

    async def process_id(self, role: str) -> int:
        """Return the id of a role's process, 0 while it is not known."""
        supervisor = (await self.actors.statistics()).get("supervisor", {})
        if role == "Supervisor":
            return int(supervisor.get("process_id", 0))
        found = supervisor.get("process_ids", {})
        return next((found[name] for name in found if name.endswith(f".{role}")), 0)

    async def all_attached(self) -> bool:
        """Say whether the broker has every neighbour."""
        links = (await self.broker_statistics()).get("links", {})
        return all(links.get("attached", {"": False}).values())

    async def wait_whole(self) -> None:
        """Return once everybody is there."""
        await wait_until(self.all_attached, "every neighbour")


def start_supervised(kind: Kind, cluster: RayCluster, store: Path) -> SupervisedBroker:
    """Start a deployment in a Ray that this process is connected to."""
    plan = small_plan(
        store,
        *kind.settings,
        is_local=False,
        transport=kind.transport,
        segment_bytes=SEGMENT_BYTES,
    )
    actors = SupervisedActors(deployment_plan(plan, cluster.shared_directory))
    asyncio.run(actors.start(lambda what: None))
    return SupervisedBroker(kind, plan, actors)
