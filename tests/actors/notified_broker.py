"""A broker and its services on one loop, without Ray, with real watermarks and notifications.

Each service runs on the loop as its actor would. What differs from a deployment is that they share
one process, so that nobody can die alone.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.actors.client import Client
from tests.actors.deployments import small_plan
from wakelog.actors.broker.hosted import start_broker
from wakelog.actors.broker.service import BrokerService
from wakelog.actors.services import service
from wakelog.actors.services.client import ServiceClient
from wakelog.actors.services.service import Service, ServiceHost
from wakelog.actors.services.table import services_of
from wakelog.actors.transport.notifications import NO_FAULTS, NotificationFaults
from wakelog.actors.transport.service_plan import ServicePlan, Transport


class LoopCalls:
    """Calls a service on the loop, as Ray calls the method of an actor."""

    def __init__(self, service: ServiceHost[Service]) -> None:
        self.counts: Counter[str] = Counter()
        self._service = service

    def call(self, kind: str, method: str, *arguments: Any) -> asyncio.Task[Any]:
        self.counts[kind] += 1
        return asyncio.get_running_loop().create_task(self._call(method, arguments))

    def call_two(
        self, kind: str, method: str, *arguments: Any
    ) -> tuple[Awaitable[Any], Awaitable[Any]]:
        pair = self.call(kind, method, *arguments)
        return _part(pair, 0), _part(pair, 1)

    async def find_again(self) -> None:
        """Do nothing: the service stays."""

    async def _call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        values = [await one if isinstance(one, Awaitable) else one for one in arguments]
        return getattr(self._service, method)(*values)


def _part(pair: asyncio.Task[Any], index: int) -> asyncio.Task[Any]:
    async def part() -> Any:
        return (await asyncio.shield(pair))[index]

    return asyncio.get_running_loop().create_task(part())


class NotifiedBroker:
    """A running broker, its services and a client."""

    def __init__(
        self, services: dict[str, ServiceHost[Service]], broker: BrokerService, client: Client
    ) -> None:
        self.services = services
        self.broker = broker
        self.client = client

    def client_of(self, service: str) -> ServiceClient:
        """Return the broker's client for a service."""
        return self.broker.services.clients[service]

    def service_statistics(self) -> dict[str, Any]:
        """Return what the broker says of its services."""
        found: dict[str, Any] = self.broker.statistics()["service_clients"]
        return found


@asynccontextmanager
async def notified_broker(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    *settings: str,
    faults: NotificationFaults = NO_FAULTS,
    transport: Transport = Transport.NOTIFICATIONS,
) -> AsyncIterator[NotifiedBroker]:
    """Run a broker below a short directory."""
    monkeypatch.setattr(service, "open_logs", lambda *_: None)
    monkeypatch.setattr("wakelog.actors.broker.opening.open_logs", lambda *_: None)
    plan = small_plan(directory / "store", "wakelog.checkAdvertise=false", *settings)
    broker_settings = plan.brokers[0].settings
    broker_settings.broker.namesrv_addr = ""
    service_plan = ServicePlan(
        settings=msgspec.structs.replace(broker_settings),
        bind_host="127.0.0.1",
        transport=transport,
        runtime_directory=str(directory / "run"),
        log_directory=str(directory / "logs"),
        memory_directory=str(directory),
        faults=faults,
    )
    builtins = service_plan.to_builtins()
    services = {name: ServiceHost[Service](builtins, name) for name in services_of(service_plan)}
    calls = {name: LoopCalls(one) for name, one in services.items()}
    hosted = await start_broker(service_plan, calls)
    client = Client(plan.brokers[0].address)
    try:
        yield NotifiedBroker(services, hosted.service, client)
    finally:
        await client.close()
        await hosted.stop()
