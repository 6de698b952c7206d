"""The actors of a deployment: their names, and what each is constructed with.

    Supervisor, NameServer                     one of each
    <broker>.Broker, <broker>.Reput, ...       for each broker; added services come last

Ray starts a few processes at a time, in the order in which it gets the actors. So the actors of a
broker are made in the order in which they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from wakelog.actors.ray.options import ANYWHERE, Placement, make_actor
from wakelog.actors.services.table import needed_services, services_of
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.nameserver.config import NameServerConfig
from wakelog.storage.config import StoreConfig

SUPERVISOR = "Supervisor"
NAME_SERVER = "NameServer"
BROKER = "Broker"


class GroupPlan(msgspec.Struct, frozen=True):
    """One broker's actors: what they are started with and where they live."""

    service: ServicePlan
    placement: Placement = ANYWHERE


class DeploymentPlan(msgspec.Struct, frozen=True):
    """All the actors of a deployment, as plain parts: what the Supervisor is started with.

    metrics_port: on which the Supervisor serves the metrics of all, 0 for none.
    placement: where the Supervisor and the name server live.
    """

    bind_host: str
    log_directory: str
    name_server: NameServerConfig | None
    groups: tuple[GroupPlan, ...]
    metrics_port: int = 0
    placement: Placement = ANYWHERE

    def to_builtins(self) -> dict[str, Any]:
        """Return what the Supervisor's constructor takes."""
        return dict(msgspec.to_builtins(self))


def read_deployment_plan(plan: dict[str, Any]) -> DeploymentPlan:
    """Return the plan that a Supervisor was constructed with."""
    return msgspec.convert(plan, DeploymentPlan)


def actor_name(broker_name: str, kind: str) -> str:
    """Return the name of one actor of a broker."""
    return f"{broker_name}.{kind}"


def actors_count(stores: Sequence[StoreConfig], added_count: int = 0) -> int:
    """Return how many actors a deployment has, with a broker for each store."""
    return 2 + sum(1 + len(needed_services(store)) + added_count for store in stores)


def service_kinds(plan: ServicePlan) -> dict[str, str]:
    """Return the kinds of the actors of a broker's services, by name, added services included."""
    return {name: row.actor_name for name, row in services_of(plan).items()}


def make_supervisor(plan: DeploymentPlan) -> Any:
    """Return the Supervisor, which makes the actors that are not there yet."""
    return make_actor(SUPERVISOR, SUPERVISOR, plan.to_builtins(), placement=plan.placement)


def make_name_server(plan: DeploymentPlan) -> Any:
    """Return the actor of the name server."""
    config = msgspec.to_builtins(plan.name_server)
    return make_actor(
        NAME_SERVER,
        NAME_SERVER,
        config,
        plan.bind_host,
        plan.log_directory,
        placement=plan.placement,
    )


def make_group(group: GroupPlan) -> dict[str, Any]:
    """Return the actors of a broker by kind, made in the order in which they are needed."""
    name = group.service.name
    builtins = group.service.to_builtins()
    kinds = service_kinds(group.service)
    names = {service: actor_name(name, kind) for service, kind in kinds.items()}
    handles = {
        BROKER: make_actor(
            BROKER, actor_name(name, BROKER), builtins, names, placement=group.placement
        )
    }
    for service, row in services_of(group.service).items():
        handles[row.actor_name] = make_actor(
            row.actor_name,
            names[service],
            builtins,
            service,
            target=row.service,
            placement=group.placement,
        )
    return handles
