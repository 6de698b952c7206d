"""What `wakelog up` starts, watches and stops, with Ray or without.

A deployment is made from a plan. Then come `start`, `statistics` and `failure` repeatedly, and
`stop`, all on one asyncio loop, which they never block. `cli/preflight.py` has checked ports and
stores before; `start` still raises what those checks could not see. The caller configures the log
files of its process before `start`; a process that a deployment starts configures its own.

Source: the parts of org.apache.rocketmq.broker.BrokerStartup and
org.apache.rocketmq.namesrv.NamesrvStartup (4.9.3) behind the command line.
"""

from collections.abc import Callable
from typing import Any, Protocol

from wakelog.actors.deploy.plan import Plan
from wakelog.actors.services.table import load

Report = Callable[[str], None]
"""Shows the step under way, such as "broker-a: waiting for reput"; returns at once. A repeated step
is not shown again."""


class Deployment(Protocol):
    """A name server and brokers that start and stop together."""

    async def start(self, report: Report) -> None:
        """Return once every broker is in the route and accepts connections.

        Raises: DeploymentError, StoreError, PortUnavailable. The caller then calls `stop`, as it
        does after cancelling a start.
        """

    async def statistics(self) -> dict[str, Any]:
        """Return the statistics of every part, as builtins.

        {"brokers": {name: what the broker's service returns}, "name_server": {...}, ...}. The paths
        in `cli/rates.py` lead to the rates that `wakelog up` shows.
        """

    def notices(self) -> list[str]:
        """Return the lines that the user has to read after this start."""

    def failure(self) -> str | None:
        """Return why this deployment has failed, None while it runs. Called every second."""

    async def stop(self, report: Report) -> bool:
        """Stop all that was started, in order; return whether every store was left in order.

        Leaves no process, port, socket or shared file. Called once, however far `start` came.
        """


CLASSES = {
    "local": "wakelog.actors.deploy.local:LocalDeployment",
    "ray": "wakelog.actors.deploy.supervised:RayDeployment",
}
"""Deployments by kind; named, so that `--local` imports no Ray."""


def make_deployment(plan: Plan, *, forks: bool = False) -> Deployment:
    """Return the deployment that a plan asks for, not started. forks: see `RayCluster`."""
    deployment: Deployment
    if plan.is_local:
        deployment = load(CLASSES["local"])(plan)
    else:
        deployment = load(CLASSES["ray"])(plan, forks=forks)
    return deployment
