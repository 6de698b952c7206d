"""The Broker actor: `broker_service` on an actor's loop, its neighbours behind actor calls.

Public methods take and return builtins. What can go wrong with a start comes back as a value: an
exception of ours does not survive the way through Ray in one piece.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from wakelog.actors.broker.service import BrokerService
from wakelog.actors.broker.snapshots import NOT_RUNNING
from wakelog.actors.ray.options import find_actor, own_node_id
from wakelog.actors.start_outcome import describe_failure, started
from wakelog.actors.transport.calls import ActorCalls
from wakelog.actors.transport.service_plan import read_plan
from wakelog.network.errors import PortUnavailable
from wakelog.storage.errors import StoreError

FIND_SECONDS = 0.05
"""Between two looks for neighbours that are not made yet."""


class BrokerActor:
    """One broker; `start` after each construction, also after Ray started the process again."""

    def __init__(self, plan: dict[str, Any], neighbours: Mapping[str, str]) -> None:
        """Open nothing. `neighbours` are the names of actors by service."""
        self._plan = read_plan(plan)
        self._neighbours = neighbours
        self._service: BrokerService | None = None
        self._starting = asyncio.Lock()

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    async def start(self, store_id: str | None = None) -> dict[str, Any]:
        """Start unless started; return where that is and on which store, or what stands against
        it.

        store_id: of the store this broker ran on before; None if it may take any.
        """
        async with self._starting:
            if self._service is None:
                calls_by_service = {
                    service: ActorCalls(await _find(name))
                    for service, name in self._neighbours.items()
                }
                service = BrokerService(self._plan, calls_by_service)
                try:
                    await service.start(store_id)
                except (StoreError, PortUnavailable) as error:
                    return describe_failure(error)
                self._service = service
            return started(
                store_id=self._service.store_id,
                epoch=self._service.epoch,
                node_id=own_node_id(),
                notices=self._service.notices,
            )

    async def register(self) -> None:
        """Tell the name servers of this broker now, one of which has just started anew."""
        if self._service is not None:
            self._service.register()

    async def stop(self) -> bool:
        """Stop in order; return whether the store was left as after a normal exit.

        False also of a broker that was not up: how it left its store is not known here.
        """
        async with self._starting:
            service, self._service = self._service, None
            return service is not None and await service.stop()

    async def snapshot(
        self, after: Mapping[str, Any] | None = None, holder: str = ""
    ) -> dict[str, Any]:
        """Return a snapshot of the log (`storage.retention.snapshot`), leased for ten minutes.

        after: an earlier one, of which this is the continuation; None for all there is.
        holder: who reads it, for people who look at what is kept.
        """
        service = self._service
        return NOT_RUNNING if service is None else await service.snapshots.take(after, holder)

    async def renew_snapshot(self, lease_id: str) -> dict[str, Any]:
        """Keep a snapshot for ten minutes from now; return {"expires_ms": ...} or a failure."""
        service = self._service
        return NOT_RUNNING if service is None else await service.snapshots.renew(lease_id)

    async def end_snapshot(self, lease_id: str) -> dict[str, Any]:
        """Keep a snapshot no more; return {"ended": whether it was kept} or a failure."""
        service = self._service
        return NOT_RUNNING if service is None else await service.snapshots.end(lease_id)

    async def queues(self) -> dict[str, Any]:
        """Return where queues end and how far groups are behind; for a scrape, not for a watch."""
        return {} if self._service is None else await self._service.measure_queues()

    def statistics(self) -> dict[str, Any]:
        """Return what the broker says of itself."""
        if self._service is None:
            return {}
        return {**self._service.statistics(), "process_id": os.getpid()}


async def _find(name: str) -> Any:
    while (handle := find_actor(name)) is None:
        await asyncio.sleep(FIND_SECONDS)
    return handle
