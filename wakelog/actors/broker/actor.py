"""The Broker actor: a `HostedBroker` on an actor's loop, with services that are actors.

Public methods take and return builtins. The reason why a start failed is a value: an exception of
ours does not survive the way through Ray in one piece.
"""

import asyncio
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from wakelog.actors.broker.hosted import HostedBroker, start_broker
from wakelog.actors.broker.service import BrokerService
from wakelog.actors.broker.snapshots import NOT_RUNNING
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.ray.options import (
    actor_name,
    find_actor,
    own_node_address,
    own_node_id,
)
from wakelog.actors.services.table import services_of
from wakelog.actors.start_outcome import describe_failure, started
from wakelog.actors.transport.calls import ActorCalls
from wakelog.actors.transport.channel_actor import ChannelActor
from wakelog.actors.transport.service_plan import at_address, read_plan
from wakelog.network.errors import PortUnavailable, TlsRefused
from wakelog.storage.errors import StoreError

FIND_SECONDS = 0.05
"""The pause before an actor that is not made yet is searched again."""


class BrokerActor(ChannelActor):
    """One broker; `start` after each construction, also after Ray started the process again."""

    def __init__(self, plan: dict[str, Any]) -> None:
        super().__init__()
        self._plan = read_plan(plan)
        if self._plan.names_own_node:
            self._plan = at_address(self._plan, own_node_address())
        self._hosted: HostedBroker | None = None  # None also after a start that failed, or a stop

    async def start(self, store_id: str | None = None) -> dict[str, Any]:
        """Start unless it runs; return its node and store, or why it cannot start.

        store_id: the store that this broker ran on before; None if any may be opened.
        """
        async with self._starting:
            if self._hosted is None:
                calls_by_service = {
                    name: await _calls_of(actor_name(self._plan.name, row.actor_name))
                    for name, row in services_of(self._plan).items()
                }
                try:
                    hosted = await start_broker(
                        self._plan, calls_by_service, expected_store_id=store_id
                    )
                except (StoreError, PortUnavailable, TlsRefused, DeploymentFailed) as error:
                    return describe_failure(error)
                self._hosted = hosted
                self.open_channels(lambda: hosted.service.make_connection())
            service = self._hosted.service
            return started(
                store_id=service.store_id,
                epoch=service.epoch,
                node_id=own_node_id(),
                notices=service.notices,
            )

    @property
    def _service(self) -> BrokerService | None:
        """The broker in its present role; None if it does not run."""
        return None if self._hosted is None else self._hosted.service

    async def address(self) -> str:
        """Return the address by which routes name this broker."""
        return self._plan.settings.broker.broker_addr

    async def register(self) -> None:
        """Register now: a name server has just started again."""
        if (service := self._service) is not None:
            service.register()

    async def drain(self, seconds_max: float) -> None:
        """Return when clients have moved to other brokers, or after `seconds_max`."""
        if self._hosted is not None:
            await self._hosted.drain(seconds_max)

    async def stop(self) -> bool:
        """Stop in order; return whether the store was left as after a normal exit.

        False also if the broker did not run: how its store was left is not known here.
        """
        async with self._starting:
            hosted, self._hosted = self._hosted, None
            self.close_channels()
            return hosted is not None and await hosted.stop()

    async def snapshot(
        self, after: Mapping[str, Any] | None = None, holder: str = ""
    ) -> dict[str, Any]:
        """Return a snapshot of the log (`storage.retention.snapshot`), leased for ten minutes.

        after: an earlier snapshot that this one continues; None for the whole log.
        holder: the reader's name, shown where leases are listed.
        """
        service = self._service
        return NOT_RUNNING if service is None else await service.snapshots.take(after, holder)

    async def renew_snapshot(self, lease_id: str) -> dict[str, Any]:
        """Keep a snapshot for ten minutes from now; return {"expires_ms": ...} or a failure."""
        service = self._service
        return NOT_RUNNING if service is None else await service.snapshots.renew(lease_id)

    async def end_snapshot(self, lease_id: str) -> dict[str, Any]:
        """End a snapshot; return {"ended": whether it was kept until now} or a failure."""
        service = self._service
        return NOT_RUNNING if service is None else await service.snapshots.end(lease_id)

    async def measure_by_name(self, has_other_names: bool = False) -> list[bytes]:
        """Return what is counted or measured by topic, queue and group; for a scrape only."""
        service = self._service
        return [] if service is None else await service.measure_by_name(has_other_names)

    def health(self) -> dict[str, Any]:
        """Return what the broker says of itself; {} if it does not run."""
        service = self._service
        return {} if service is None else service.health()

    def statistics(self) -> dict[str, Any]:
        """Return what the broker reports."""
        service = self._service
        return {} if service is None else {**service.statistics(), "process_id": os.getpid()}


async def _calls_of(name: str) -> ActorCalls:
    while (handle := find_actor(name)) is None:
        await asyncio.sleep(FIND_SECONDS)
    return ActorCalls(handle, partial(find_actor, name))
