"""The deployments of actors that tests of a session share: one for each transport."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ray.exceptions import RayError

from tests.actors.deployments import small_plan, wait_until
from wakelog.actors.deploy.group import BROKER, NAME_SERVER, SUPERVISOR
from wakelog.actors.deploy.plan import Plan
from wakelog.actors.deploy.supervised import SupervisedActors, placed
from wakelog.actors.ray.options import actor_name, find_actor
from wakelog.actors.ray.private_ray import RayCluster
from wakelog.actors.services.table import SERVICES
from wakelog.actors.transport.service_plan import Transport

SEGMENT_BYTES = 256 << 10
FILE_SIZES = {
    "mappedFileSizeCommitLog": str(SEGMENT_BYTES),
    "mappedFileSizeConsumeQueue": "1200",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
}
"""So small that every kind of file is made several times a second under load."""

STALL_MS_MAX = 500
SYNCHRONOUS_STALL_MS_MAX = 2_000
BROKER_STALL_MS_MAX = 8_000

SLAVES = "replicationEnable=true"
"""The Broker accepts slaves, although none comes."""


class Kind(NamedTuple):
    """What a deployment is like."""

    transport: Transport
    settings: tuple[str, ...]
    stall_ms_max: int

    @property
    def roles(self) -> tuple[str, ...]:
        """Every actor of such a deployment: Commit is there with a setting."""
        has_pool = any(setting.startswith("transientStorePool") for setting in self.settings)
        absent = set() if has_pool else {"Commit"}
        return tuple(role for role in ROLES if role not in absent)


KINDS = {
    "notifications": Kind(
        Transport.NOTIFICATIONS, ("flushDiskType=SYNC_FLUSH", SLAVES), SYNCHRONOUS_STALL_MS_MAX
    ),
    "references": Kind(
        Transport.REFERENCES,
        ("transientStorePoolEnable=true", "transientStorePoolSize=3", SLAVES),
        STALL_MS_MAX,
    ),
}

REPEATED_KILL_KINDS = {
    "asynchronous": Kind(Transport.REFERENCES, ("flushDiskType=ASYNC_FLUSH",), STALL_MS_MAX),
    "synchronous": KINDS["notifications"],
    "transient pool": Kind(Transport.NOTIFICATIONS, KINDS["references"].settings, STALL_MS_MAX),
}
"""One for each mode of durability, in which every process is killed again and again."""

ROLES = (*(row.actor_name for row in SERVICES.values()), NAME_SERVER, SUPERVISOR, BROKER)
"""Every actor of a deployment of one broker with a transient pool."""

_SERVICE_OF = {row.actor_name: name for name, row in SERVICES.items()}


class SupervisedBroker:
    """A running deployment of one broker.

    Actors are asked directly: the Supervisor would wait for those that are dead.
    """

    def __init__(self, kind: Kind, plan: Plan) -> None:
        self.kind = kind
        self.plan = plan
        self.actors = SupervisedActors(plan)
        self.address = plan.brokers[0].address
        self._handles: dict[str, Any] = {}

    def make_supervisor_again(self) -> None:
        """Make a Supervisor where one has ended."""
        self.actors = SupervisedActors(self.plan)

    async def broker_statistics(self) -> dict[str, Any]:
        """Return what the Broker says of itself, nothing while it cannot."""
        return dict(await self._ask(BROKER, "statistics") or {})

    async def references(self) -> dict[str, int]:
        """Return how many references crossed, by kind."""
        links = (await self.broker_statistics()).get("service_clients", {})
        found: dict[str, int] = links.get("references", {})
        return found

    async def process_id(self, role: str) -> int:
        """Return the id of a role's process, 0 while it does not answer."""
        return int(await self._ask(role, "ping") or 0)

    async def process_ids(self) -> dict[str, int]:
        """Return the id of every role's process."""
        return {role: await self.process_id(role) for role in self.kind.roles}

    async def attached_count(self, role: str) -> int:
        """Return how often the Broker has attached a service, 0 while it is not attached."""
        links = (await self.broker_statistics()).get("service_clients", {})
        name = _SERVICE_OF[role]
        is_attached = links.get("attached", {}).get(name, False)
        return int(links["attached_count"][name]) if is_attached else 0

    async def all_attached(self) -> bool:
        """Return whether the broker has every service."""
        links = (await self.broker_statistics()).get("service_clients", {})
        return all(links.get("attached", {"": False}).values())

    async def wait_whole(self) -> None:
        """Return once everybody is there."""
        await wait_until(self.all_attached, "every service")

    async def is_ready(self) -> bool:
        """Say whether the Supervisor says that everything runs."""
        state = await self._ask(SUPERVISOR, "wait_ready", 0.01)
        return bool(state and state["ready"])

    def find(self, role: str) -> Any | None:
        """Return a role's actor, None if there is none."""
        alone = role in (NAME_SERVER, SUPERVISOR)
        return find_actor(role if alone else actor_name("broker-a", role))

    async def _ask(self, role: str, method: str, *arguments: Any) -> Any:
        """Return an actor's answer, None if there is none."""
        handle = self._handles.get(role) or self.find(role)
        if handle is None:
            return None
        self._handles[role] = handle
        try:
            return await getattr(handle, method).remote(*arguments)
        except RayError:
            self._handles.pop(role, None)  # it may be another actor by now
            return None


def start_supervised(
    kind: Kind, cluster: RayCluster, store: Path, file_sizes: Mapping[str, str] = FILE_SIZES
) -> SupervisedBroker:
    """Start a deployment in a Ray that this process is connected to."""
    plan = small_plan(
        store,
        *kind.settings,
        *(f"{key}={value}" for key, value in file_sizes.items()),
        is_local=False,
        transport=kind.transport,
        segment_bytes=SEGMENT_BYTES,
    )
    broker = SupervisedBroker(kind, placed(plan, cluster.shared_directory))
    asyncio.run(broker.actors.wait_ready(lambda what: None))
    return broker
