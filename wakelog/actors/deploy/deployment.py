"""Deployment: what `wakelog up` starts, watches and stops, with Ray or without.

Life: made from a plan, `start`, then `statistics` and `failure` again and again, `stop`. All of it
is called on one asyncio loop and gives it free while it waits. Checks that need no running part
(taken ports, a locked store) were made before; what they could not see `start` still raises.
The process's own log files are configured before `start`; a process that a deployment starts
configures its own. Metrics are served by whoever in it can ask every part.

Source: the parts of org.apache.rocketmq.broker.BrokerStartup and
org.apache.rocketmq.namesrv.NamesrvStartup (4.9.3) behind the command line.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol

from wakelog.actors.deploy.plan import Plan

Report = Callable[[str], None]
"""Takes what is being started or stopped, such as "broker-a: waiting for reput"; returns at once.
The same words again are no news, and are not shown again."""


class Deployment(Protocol):
    """A name server and brokers as one thing."""

    async def start(self, report: Report) -> None:
        """Return once every broker is in the route and accepts connections.

        Raises: DeploymentError, StoreError, PortUnavailable. The caller then calls `stop`, as it
        does after cancelling a start.
        """
        ...

    async def statistics(self) -> dict[str, Any]:
        """Return what every part says of itself, as builtins.

        {"brokers": {name: what the broker's service returns}, "name_server": {...}, ...}. The rates
        that `wakelog up` shows are found there by the paths in `cli/rates.py`.
        """
        ...

    def notices(self) -> list[str]:
        """Return what a person has to know of this start, a line each, once it is over."""
        ...

    def failure(self) -> str | None:
        """Return why this deployment cannot go on, None while it can. Asked every second."""
        ...

    async def stop(self, report: Report) -> bool:
        """Stop in order whatever is there, and return whether every store was left in order.

        Leaves no process, port, socket or shared file. Called once, however far `start` came.
        """
        ...


FACTORIES = {
    "local": "wakelog.actors.deploy.local:LocalDeployment",
    "ray": "wakelog.actors.deploy.supervised:RayDeployment",
}
"""Deployments by kind. Named, not imported: one process needs neither the other's code nor Ray."""


def make_deployment(plan: Plan) -> Deployment:
    """Return the deployment that a plan asks for, not started."""
    module, _, name = FACTORIES["local" if plan.is_local else "ray"].partition(":")
    factory: Callable[[Plan], Deployment] = getattr(importlib.import_module(module), name)
    return factory(plan)
