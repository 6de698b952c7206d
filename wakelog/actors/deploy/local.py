"""A deployment in one process, without Ray: the same services, each called in a thread of its own.

`wakelog up --local` and most tests use it. The brokers and the name server run on the caller's
loop. The broker calls each service through a `LocalCalls`.
"""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from wakelog.actors.broker.hosted import HostedBroker, start_broker
from wakelog.actors.broker.service import BrokerService
from wakelog.actors.deploy.deployment import Report
from wakelog.actors.deploy.metrics_end import HealthReader, serve_metrics
from wakelog.actors.deploy.plan import Plan
from wakelog.actors.deploy.runtime_directory import RuntimeDirectory
from wakelog.actors.name_server import NameServerService, start_name_server
from wakelog.actors.services.service import Service, ServiceHost
from wakelog.actors.services.table import services_of
from wakelog.actors.transport.calls import LocalCalls
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.broker.traffic_columns import join_pieces
from wakelog.storage.file_system import FileSystem
from wakelog.telemetry.build import build_facts
from wakelog.telemetry.exposition import MetricsServer
from wakelog.telemetry.metrics import specs_of


class LocalBroker:
    """A broker with its services; `start_local_broker` makes it."""

    def __init__(
        self,
        plan: ServicePlan,
        services: Mapping[str, ServiceHost[Service]],
        calls: Mapping[str, LocalCalls],
        hosted: HostedBroker,
    ) -> None:
        self.plan = plan
        self.hosted = hosted
        self._services = services
        self._calls = calls

    @property
    def service(self) -> BrokerService:
        """The broker in its present role."""
        return self.hosted.service

    def statistics(self) -> dict[str, Any]:
        """Return the statistics of the broker and of its services."""
        found = {name: service.statistics() for name, service in self._services.items()}
        return {**self.service.statistics(), "services": found}

    async def stop(self) -> bool:
        """Stop in order."""
        is_clean = await self.hosted.stop()
        for calls in self._calls.values():
            calls.close()
        return is_clean


async def start_local_broker(plan: ServicePlan, fs: FileSystem | None = None) -> LocalBroker:
    """Return a broker that accepts. fs: the disk; the machine's if None.

    Raises: as `start_broker` does.
    """
    fs, builtins = fs or FileSystem(), plan.to_builtins()
    services = {name: ServiceHost[Service](builtins, name, fs=fs) for name in services_of(plan)}
    with ExitStack() as undo:
        calls = {name: LocalCalls(one, name) for name, one in services.items()}
        for one in calls.values():
            undo.callback(one.close)
        hosted = await start_broker(plan, calls, fs)
        undo.pop_all()
    return LocalBroker(plan, services, calls, hosted)


class LocalDeployment:
    """See `deployment.Deployment`."""

    def __init__(self, plan: Plan, fs: FileSystem | None = None) -> None:
        """Start nothing. fs: the disk of the brokers; the machine's if None."""
        self._fs = fs or FileSystem()
        self._runtime = RuntimeDirectory()
        self._plan = plan.in_directory(self._runtime.path)
        self._name_servers: list[NameServerService] = []  # one at most, as a plan has
        self.brokers: list[LocalBroker] = []
        self._health = HealthReader(waited_seconds=0)
        self._metrics = MetricsServer(self.metrics, specs_of(plan.metrics_names), self.health)

    async def start(self, report: Report) -> None:
        """Start the name server, the brokers one after the other, then the metrics."""
        plan = self._plan
        if plan.name_server is not None:
            report("the name server")
            self._name_servers.append(await start_name_server(plan.name_server))
        for broker_plan in self._plan.brokers:
            report(broker_plan.name)
            self.brokers.append(await start_local_broker(broker_plan, self._fs))
        if self._plan.metrics_port:
            report("the metrics")
            await serve_metrics(self._metrics, self._plan.bind_host, self._plan.metrics_port)

    async def metrics(self) -> dict[str, Any]:
        """Return the statistics, and those by name, which only a scrape has measured."""
        found = await self.statistics()
        for broker in self.brokers:
            pieces = await broker.service.measure_by_name(self._plan.has_other_names)
            await asyncio.to_thread(join_pieces, found["brokers"][broker.plan.name], pieces)
        return found

    async def health(self) -> dict[str, Any]:
        """Return what works; see `HealthReader`."""
        said = {one.plan.name: one.service.health() for one in self.brokers}
        return await self._health.read(said)

    async def statistics(self) -> dict[str, Any]:
        """Return the statistics of every service."""
        [name_server] = [one.statistics() for one in self._name_servers] or [{}]
        return {
            "build": build_facts(),
            "brokers": {broker.plan.name: broker.statistics() for broker in self.brokers},
            "name_server": name_server,
        }

    def notices(self) -> list[str]:
        """Return what name server and brokers found when they opened their files."""
        return [
            *(f"name server: {line}" for one in self._name_servers for line in one.notices),
            *(f"{one.plan.name}: {line}" for one in self.brokers for line in one.service.notices),
        ]

    def failure(self) -> str | None:
        """Return None: what runs in one process lives and dies with it."""
        return None

    async def stop(self, report: Report) -> bool:
        """Stop the brokers, the last one first, then the name server."""
        is_clean = True
        if (seconds_max := self._plan.drain_seconds) and self.brokers:
            report("the sends")
            await asyncio.gather(*(each.hosted.drain(seconds_max) for each in self.brokers))
        await self._metrics.close()
        while self.brokers:
            broker = self.brokers.pop()
            report(broker.plan.name)
            is_clean = await broker.stop() and is_clean
        for name_server in self._name_servers:
            report("the name server")
            await name_server.stop()
        self._runtime.remove()
        return is_clean
