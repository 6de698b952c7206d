"""A deployment of Ray actors in a Ray of its own: what `wakelog up` runs.

The process that holds this object is a driver of that Ray, and its end is Ray's end.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

from wakelog.actors.cluster.group import DeploymentPlan, GroupPlan, actors_count, make_all
from wakelog.actors.cluster.ray_cluster import RayCluster, RayFailed, leave
from wakelog.actors.deployment import Report
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.local import name_server_settings
from wakelog.actors.plan import BrokerPlan, Plan
from wakelog.actors.service_plan import ServicePlan, memory_directory
from wakelog.actors.start_outcome import raise_failure

READY_SECONDS_MAX = 600.0
"""A recovery of a store of terabytes after a crash may take minutes; it shows its progress."""

PROGRESS_SECONDS = 1.0
WORKERS_PER_BROKER = 10


class RayDeployment:
    """See `deployment.Deployment`."""

    def __init__(self, plan: Plan) -> None:
        """Start nothing."""
        self._plan = plan
        self._cluster: RayCluster | None = None
        self._supervisor: Any = None
        self._failure: str | None = None

    async def start(self, report: Report) -> None:
        """Start Ray, then everything in it."""
        report("Ray")
        loop = asyncio.get_running_loop()
        count = 3 + WORKERS_PER_BROKER * len(self._plan.brokers)
        self._cluster = RayCluster(worker_count=count, worker_port_count=10 + 2 * count)
        try:
            # Importing Ray takes as long as starting it, so both at once.
            await loop.run_in_executor(None, partial(__import__, "ray"))
            await loop.run_in_executor(None, self._cluster.wait_ready)
            self._cluster.connect()
        except RayFailed as error:
            raise DeploymentFailed(str(error), "See the messages above, or try --local.") from error
        deployment = self._deployment_plan(self._cluster.shared_directory)
        assert actors_count(deployment) <= count
        self._supervisor = make_all(deployment)
        await self._wait_ready(report)

    async def statistics(self) -> dict[str, Any]:
        """Ask the Supervisor."""
        if self._supervisor is None:
            return {}
        try:
            found: dict[str, Any] = await self._supervisor.statistics.remote()
        except Exception:
            return {}  # it is being started again
        failure = found["supervisor"]["failure"]
        self._failure = None if failure is None else f"{failure['cause']}. {failure['remedy']}"
        return found

    def failure(self) -> str | None:
        """Return why this cannot go on: Ray has ended."""
        if self._cluster is not None and not self._cluster.is_running:
            return "Ray has ended"
        return None

    async def stop(self, report: Report) -> bool:
        """Have the Supervisor stop everything in order, then end Ray."""
        is_clean = False
        try:
            if self._supervisor is not None:
                report("the brokers")
                is_clean = await self._stop_actors()
        finally:
            if self._cluster is not None:
                report("Ray")
                leave()
                await asyncio.get_running_loop().run_in_executor(None, self._cluster.stop)
        return is_clean

    async def _stop_actors(self) -> bool:
        for _ in range(2):
            try:
                return bool(await self._supervisor.stop.remote())
            except Exception:
                continue  # it died meanwhile: the next one finds the actors by name
        return False

    async def _wait_ready(self, report: Report) -> None:
        end = asyncio.get_running_loop().time() + READY_SECONDS_MAX
        while asyncio.get_running_loop().time() < end:
            try:
                state = await self._supervisor.wait_ready.remote(PROGRESS_SECONDS)
            except Exception as error:
                if self.failure() is not None:
                    raise DeploymentFailed("Ray has ended", "See its logs.") from error
                continue  # the Supervisor died and is being started again
            if state["failure"] is not None:
                raise_failure({"failure": state["failure"]})
            if state["ready"]:
                return
            report(state["progress"])
        raise DeploymentFailed(
            f"the brokers were not ready within {READY_SECONDS_MAX:.0f} s", "See the logs."
        )

    def _deployment_plan(self, shared_directory: Path) -> DeploymentPlan:
        has_name_server = self._plan.name_server is not None
        return DeploymentPlan(
            bind_host=self._plan.bind_host,
            log_directory=self._plan.log_directory,
            name_server=name_server_settings(self._plan).config if has_name_server else None,
            groups=tuple(
                GroupPlan(self._service_plan(broker, shared_directory))
                for broker in self._plan.brokers
            ),
        )

    def _service_plan(self, broker: BrokerPlan, shared_directory: Path) -> ServicePlan:
        directory = shared_directory / broker.name
        directory.mkdir()
        return ServicePlan(
            settings=broker.settings,
            bind_host=self._plan.bind_host,
            transport=self._plan.transport,
            runtime_directory=str(directory),
            log_directory=broker.log_directory,
            memory_directory=memory_directory(),
            log_level=self._plan.log_level,
            log_format=self._plan.log_format,
        )
