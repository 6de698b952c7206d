"""Every Ray option of the actors, with its reason. `ray.remote` is used here and nowhere else.

Source: none upstream; the shape is Ray Serve's controller_actor_class.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from wakelog.actors.services.table import SERVICES, load

NAMESPACE: Final = "wakelog"
"""Where a second job finds the actors by name."""

OPTIONS: Final[Mapping[str, Any]] = {
    # Services wait most of the time. With a CPU each they would not fit on a small machine, nor on
    # a head that offers none.
    "num_cpus": 0,
    # A broker outlives the job, and the Supervisor, that started it.
    "lifetime": "detached",
    "namespace": NAMESPACE,
    # A Supervisor that starts again finds the actors that live, and makes those that do not.
    "get_if_exists": True,
    # A service that died is started again, however often.
    "max_restarts": -1,
    # Ray does not keep the order of calls that it repeats, and an append must never be executed
    # twice for one request. The caller knows what it asked for, and asks again.
    "max_task_retries": 0,
    # Calls are short and take turns on the actor's loop. One that waits, such as a start, must not
    # block the others.
    "max_concurrency": 1_000,
    # Calls come by the thousand a second. Recording each at the head costs more than the call.
    "enable_task_events": False,
}
"""The options of every actor, each with its reason."""

TARGETS: Final[Mapping[str, str]] = {
    "Supervisor": "wakelog.actors.deploy.supervisor:SupervisorActor",
    "NameServer": "wakelog.actors.name_server:NameServerActor",
    "Broker": "wakelog.actors.broker.actor:BrokerActor",
    **{row.actor_name: row.service for row in SERVICES.values()},
    "AddedService": "wakelog.actors.services.added_services:AddedService",
}
"""Every kind of actor, and `module:class` of its shell."""


class Placement(NamedTuple):
    """Where an actor has to live: on a node by its id, on nodes that offer a resource, or in one
    bundle of a placement group.

    A broker stays with its store. A node that comes back has another id, so a broker that is to
    follow its disk names a resource that the nodes with that disk offer. A replica of a group with
    a register may begin anew anywhere: Ray moves the bundle of a dead node to another one.
    """

    node_id: str | None = None
    resource: str | None = None
    group: str | None = None
    bundle: int = 0

    @property
    def moves(self) -> bool:
        """Whether a broker may come back on another node, with another store."""
        return self.group is not None


ANYWHERE: Final = Placement()
PLACES: Final = "wakelog"
"""The name of the placement group of replicas that are spread."""

_SHARE: Final = 0.001
"""Of the resource, so that one unit of it holds every actor of a broker."""


def options_at(placement: Placement = ANYWHERE) -> dict[str, Any]:
    """Return the options of an actor, as Ray takes them."""
    options = dict(OPTIONS)
    if placement.resource is not None:
        options["resources"] = {placement.resource: _SHARE}
    if placement.node_id is not None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # Not soft: a broker on a node without its store would find an empty directory.
        strategy = NodeAffinitySchedulingStrategy(placement.node_id, soft=False)
        options["scheduling_strategy"] = strategy
    if placement.group is not None:
        from ray.util import get_placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        group = get_placement_group(placement.group)
        options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=placement.bundle
        )
    return options


def actor_name(broker_name: str, kind: str) -> str:
    """Return the name of one actor of a broker."""
    return f"{broker_name}.{kind}"


def make_actor(
    kind: str,
    name: str,
    *arguments: Any,
    target: str | None = None,
    placement: Placement = ANYWHERE,
) -> Any:
    """Return the actor of a name, started unless there is one.

    target: `module:class` of an actor that is not in `TARGETS`, or of a service that it hosts.
    """
    import ray

    from wakelog.actors.services.service import Service, host_of

    found: Any = load(target or TARGETS[kind])
    remote = ray.remote(host_of(found) if issubclass(found, Service) else found)
    return remote.options(name=name, **options_at(placement)).remote(*arguments)


def find_actor(name: str) -> Any | None:
    """Return the actor of a name, None if there is none."""
    import ray

    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return None


def spread(count: int, seconds_max: float) -> list[Placement]:
    """Return so many places on different nodes, none if there are too few nodes.

    A node that dies is replaced by another one that has none of the places yet, once there is one.
    Places that are there stay.
    """
    from ray.util import get_placement_group, placement_group

    try:
        group = get_placement_group(PLACES)
    except ValueError:
        group = placement_group(
            [{"CPU": _SHARE}] * count, strategy="STRICT_SPREAD", name=PLACES, lifetime="detached"
        )
    if not group.wait(seconds_max):
        end_places()
        return []
    return [Placement(group=PLACES, bundle=index) for index in range(count)]


def end_places() -> None:
    """Remove the places of `spread`, if there are any."""
    from ray.util import get_placement_group, remove_placement_group

    with suppress(ValueError):
        remove_placement_group(get_placement_group(PLACES))


def own_node_address() -> str:
    """Return the IP address of the node of this process."""
    import ray.util

    find: Any = ray.util.get_node_ip_address  # without types of its own
    return str(find())


def restart_actor(handle: Any) -> None:
    """Kill an actor's process, wherever it is; Ray starts it again."""
    import ray

    ray.kill(handle, no_restart=False)


def own_node_id() -> str:
    """Return Ray's name for the node of this process, empty outside of any Ray."""
    import ray

    return str(ray.get_runtime_context().get_node_id()) if ray.is_initialized() else ""


def end_actor(handle: Any) -> None:
    """End an actor for good; it must have let everything go before."""
    import ray

    ray.kill(handle, no_restart=True)
