"""A deployment of Ray actors.

`SupervisedActors` is a deployment in the Ray that this process is connected to. A job starts one in
a cluster, and a test several in one Ray. `RayDeployment`, for `wakelog up`, adds a private Ray that
ends with this process. `hosted_brokers` is a deployment in a Ray that a Spark session hosts.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from wakelog.actors.deploy.deployment import Report
from wakelog.actors.deploy.group import SUPERVISOR, actors_count, make_supervisor
from wakelog.actors.deploy.kept_changes import with_kept_changes
from wakelog.actors.deploy.plan import Plan
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.ray.hosted_ray import HostedRay
from wakelog.actors.ray.options import TARGETS, Placement, end_actor, end_places, spread
from wakelog.actors.ray.private_ray import RayCluster, RayFailed, leave
from wakelog.actors.services.added_services import offered_services
from wakelog.actors.services.table import load
from wakelog.actors.start_outcome import raise_failure
from wakelog.actors.transport.notifications import NO_FAULTS, NotificationFaults
from wakelog.actors.transport.service_plan import ServiceRow
from wakelog.storage.file_system import FileSystem

READY_SECONDS_MAX = 600.0
"""A recovery of a store of terabytes after a crash may take minutes; it shows its progress."""

PROGRESS_SECONDS = 1.0
SPREAD_SECONDS_MAX = 60.0
ONE_MACHINE = "file:"
TRIES_COUNT = 3
"""How often a start or a stop is tried: the Supervisor may die, and Ray starts it again."""


class SupervisedActors:
    """The actors of a deployment, reached through their Supervisor."""

    def __init__(self, plan: Plan) -> None:
        """Make the Supervisor, which makes and starts the others; `plan` is a `placed` one."""
        self.notices: list[str] = []
        self._supervisor = make_supervisor(plan)

    async def wait_ready(self, report: Report) -> None:
        """Return once every broker accepts. Raises: DeploymentFailed."""
        end = time.monotonic() + READY_SECONDS_MAX
        tries_left = TRIES_COUNT
        while time.monotonic() < end:
            try:
                state = await self._supervisor.wait_ready.remote(PROGRESS_SECONDS)
            except Exception as error:
                tries_left -= 1  # it died, and the next one continues
                if tries_left:
                    continue
                raise DeploymentFailed(f"Ray does not answer: {error}", "See its logs.") from error
            raise_failure(state)
            if state["ready"]:
                self.notices = list(state["notices"])
                return
            report(state["progress"])
        raise DeploymentFailed(f"not ready within {READY_SECONDS_MAX:.0f} s", "See the logs.")

    async def statistics(self) -> dict[str, Any]:
        """Ask the Supervisor; {} while Ray starts it again."""
        try:
            return dict(await self._supervisor.statistics.remote())
        except Exception:
            return {}

    async def stop(self) -> bool:
        """Stop in order and end the actors; return whether every store was left in order."""
        for _ in range(TRIES_COUNT):
            try:
                is_clean = bool(await self._supervisor.stop.remote())
            except Exception:
                continue  # it died: the next one finds the actors by name
            end_actor(self._supervisor)
            end_places()
            return is_clean
        return False


class RayDeployment:
    """See `deployment.Deployment`."""

    def __init__(
        self, plan: Plan, faults: NotificationFaults = NO_FAULTS, *, forks: bool = False
    ) -> None:
        """Begin to start Ray. `faults` of notifications are for tests; forks: see `RayCluster`."""
        self._plan = plan
        self._faults = faults
        stores = [broker.settings.store for broker in plan.brokers]
        self._cluster = RayCluster(
            worker_count=actors_count(stores),
            plain_because="--plain-ray asks for it" if plan.plain_ray else None,
            name_server=plan.name_server_address,
            forks=forks,
        )
        self._deployed: list[SupervisedActors] = []  # none before Ray runs
        self._added: dict[str, ServiceRow] = {}

    async def start(self, report: Report) -> None:
        """Wait for Ray, then start everything in it."""
        report("Ray")
        try:
            await asyncio.to_thread(self._wait_ray)
            self._cluster.connect()
        except RayFailed as error:
            raise DeploymentFailed(
                str(error), "See Ray's message, or try --plain-ray or --local."
            ) from error
        actors = SupervisedActors(
            placed(
                self._plan, self._cluster.shared_directory, faults=self._faults, added=self._added
            )
        )
        self._deployed.append(actors)
        await actors.wait_ready(report)

    def _wait_ray(self) -> None:
        """Return once Ray runs, and what is made in it first is known and imported."""
        self._cluster.import_ray()
        load(TARGETS[SUPERVISOR])
        self._added = offered_services()
        self._cluster.wait_ready()

    async def statistics(self) -> dict[str, Any]:
        """Return the statistics of every actor."""
        [found] = [await actors.statistics() for actors in self._deployed] or [{}]
        return found

    def notices(self) -> list[str]:
        """Return how Ray was started, and what the brokers found when they opened their stores."""
        reason = self._cluster.ready.plain_because
        ray_start = [] if reason is None else [f"Ray was started by ray.init, because {reason}"]
        return ray_start + [line for actors in self._deployed for line in actors.notices]

    def failure(self) -> str | None:
        """Return a reason only if Ray has ended: anything else that ends is started again."""
        return None if self._cluster.is_running else "Ray has ended"

    async def stop(self, report: Report) -> bool:
        """Stop everything in order, then end Ray."""
        is_clean = not self._deployed  # without actors no store was opened
        try:
            if self.failure() is None:
                for actors in self._deployed:
                    report("the brokers")
                    is_clean = await actors.stop()
        finally:
            report("Ray")
            leave()
            await asyncio.to_thread(self._cluster.stop)
        return is_clean


@contextlib.contextmanager
def hosted_brokers(cluster: HostedRay, plan: Plan) -> Iterator[SupervisedActors]:
    """Yield the running actors of a plan, at the head, and stop them in order at the end.

    Raises: DeploymentFailed, NotPossible, StoreError.
    """
    plan = with_kept_changes(plan, FileSystem())
    placements = {broker.name: Placement(node_id=cluster.node_id) for broker in plan.brokers}
    actors = SupervisedActors(placed(plan, cluster.shared_directory, placements))
    try:
        asyncio.run(actors.wait_ready(lambda what: None))
        yield actors
    finally:
        asyncio.run(actors.stop())


def spread_plan(plan: Plan, seconds_max: float = SPREAD_SECONDS_MAX) -> dict[str, Placement]:
    """Return a node for each replica, another one for each. Raises: DeploymentFailed."""
    register = plan.brokers[0].register
    if not register or register.startswith(ONE_MACHINE):
        raise DeploymentFailed(
            "only replicas whose register all nodes reach can be spread",
            "Give --replicas, and --set wakelog.register=etcd://HOST:PORT or kubernetes://...",
        )
    places = spread(len(plan.brokers), seconds_max)
    if not places:
        raise DeploymentFailed(
            f"{len(plan.brokers)} brokers need as many nodes with a CPU, and there are fewer",
            "Start nodes, or fewer replicas.",
        )
    return {broker.name: place for broker, place in zip(plan.brokers, places, strict=True)}


def placed(
    plan: Plan,
    shared_directory: Path,
    placements: Mapping[str, Placement] | None = None,
    *,
    faults: NotificationFaults = NO_FAULTS,
    added: Mapping[str, ServiceRow] | None = None,
) -> Plan:
    """Return a plan with all that its actors are started with.

    shared_directory: for watermarks and notifications; in memory, removed by the caller.
    placements: where brokers have to live, by name.
    added: the services of other packages; None to look for them, which takes 20 ms.
    """
    placements = dict(placements or {})
    plan = plan.in_directory(
        shared_directory,
        faults=faults,
        added_services=dict(offered_services() if added is None else added),
        names_own_node=any(one.moves for one in placements.values()),
    )
    return msgspec.structs.replace(plan, placements=placements)
