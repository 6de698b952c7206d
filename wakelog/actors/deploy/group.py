"""The actors of a deployment: their names, and what each is constructed with.

    Supervisor, NameServer                     one of each
    <broker>.Broker, <broker>.Reput, ...       for each broker; added services come last

Ray starts a few processes at a time, in the order in which it gets the actors. So the actors of a
broker are made in the order in which they are needed.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from wakelog.actors.deploy.plan import Plan
from wakelog.actors.ray.options import actor_name, make_actor
from wakelog.actors.services.table import needed_services, services_of
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.storage.config import StoreConfig

SUPERVISOR = "Supervisor"
NAME_SERVER = "NameServer"
BROKER = "Broker"


def actors_count(stores: Sequence[StoreConfig], added_count: int = 0) -> int:
    """Return how many actors a deployment has, with a broker for each store."""
    return 2 + sum(1 + len(needed_services(store)) + added_count for store in stores)


def make_supervisor(plan: Plan) -> Any:
    """Return the Supervisor, which makes the actors that are not there yet."""
    builtins = msgspec.to_builtins(plan)
    return make_actor(SUPERVISOR, SUPERVISOR, builtins, placement=plan.own_placement)


def make_name_server(plan: Plan) -> Any:
    """Return the actor of the name server."""
    return make_actor(
        NAME_SERVER,
        NAME_SERVER,
        msgspec.to_builtins(plan.name_server),
        placement=plan.own_placement,
    )


def broker_makers(plan: Plan, broker: ServicePlan) -> dict[str, Callable[[], Any]]:
    """Return what makes each actor of a broker, in the order in which they are needed."""
    placement = plan.placement_of(broker)
    builtins = broker.to_builtins()
    name = actor_name(broker.name, BROKER)
    makers: dict[str, Callable[[], Any]] = {
        BROKER: partial(make_actor, BROKER, name, builtins, placement=placement)
    }
    for service, row in services_of(broker).items():
        kind = row.actor_name
        name = actor_name(broker.name, kind)
        makers[kind] = partial(
            make_actor, kind, name, builtins, service, target=row.service, placement=placement
        )
    return makers
