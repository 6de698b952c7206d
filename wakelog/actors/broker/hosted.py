"""HostedBroker: a broker as its deployment has it, in whatever role.

The settings say which role a broker has, or a register does (`replica.py`). With a register each
change of role is another `BrokerService`.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import NamedTuple

from wakelog.actors.broker.replica import Replica, start_replica
from wakelog.actors.broker.resources import open_resources
from wakelog.actors.broker.service import BrokerService
from wakelog.actors.broker.wiring import make_broker
from wakelog.actors.transport.calls import ServiceCalls
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.storage.file_system import FileSystem


class HostedBroker(NamedTuple):
    """See the module.

    first: the broker in the role that it began in.
    replica: what gives it others; None if its settings say which role it has.
    """

    first: BrokerService
    replica: Replica | None = None

    @property
    def service(self) -> BrokerService:
        """The broker in its present role."""
        return self.first if self.replica is None else self.replica.service

    async def drain(self, seconds_max: float) -> None:
        """Return when clients have moved to other brokers, or after `seconds_max`.

        A follower has no producers. After a master that drained, `stop` hands over to another one.
        """
        if self.replica is None or self.replica.leads:
            await self.service.drain(seconds_max)

    async def stop(self) -> bool:
        """Stop in order and return whether the store was left as after a normal exit."""
        return await (self.first if self.replica is None else self.replica).stop()


async def start_broker(
    plan: ServicePlan,
    calls_by_service: Mapping[str, ServiceCalls],
    fs: FileSystem | None = None,
    expected_store_id: str | None = None,
) -> HostedBroker:
    """Return a broker that is in the route and accepts.

    fs: the disk; the machine's if None.
    expected_store_id: the store that this broker ran on before; None if any may be opened.

    Raises: PortUnavailable, TlsRefused, StoreError, DeploymentFailed. Nothing is left open then.
    """
    fs = fs or FileSystem()
    if plan.register:
        replica = await start_replica(plan, calls_by_service, fs, expected_store_id)
        return HostedBroker(replica.service, replica)
    async with AsyncExitStack() as undo:
        resources = await open_resources(
            plan, calls_by_service, fs, undo, expected_store_id=expected_store_id
        )
        service = make_broker(resources, None)
        undo.pop_all()
    await service.serve()
    return HostedBroker(service)
