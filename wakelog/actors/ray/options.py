"""Every Ray option of every actor, with its reason. `ray.remote` stands here and nowhere else.

Source: none upstream; the shape is Ray Serve's controller_actor_class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from wakelog.actors.services.table import SERVICES, load


class Option(NamedTuple):
    """A value and why it is that one."""

    value: Any
    reason: str


COMMON: Final[Mapping[str, Option]] = {
    "num_cpus": Option(
        0,
        "services wait most of the time; with a CPU each they would not be placed on a small"
        " machine, and on a head that offers none",
    ),
    "lifetime": Option(
        "detached",
        "a broker outlives the job, and the Supervisor, that started it",
    ),
    "namespace": Option("wakelog", "where a second job finds the actors by name"),
    "get_if_exists": Option(
        True,
        "a Supervisor that starts anew finds the actors that live, and makes those that do not",
    ),
    "max_restarts": Option(-1, "a service that died is started again, however often"),
    "max_task_retries": Option(
        0,
        "a call that may have been executed is not repeated by Ray, which does not keep the order:"
        " whoever called knows what was asked for and asks anew",
    ),
    "max_concurrency": Option(
        1_000,
        "calls are short and take turns on the actor's loop; one that waits, such as a start, must"
        " not keep others out",
    ),
    "enable_task_events": Option(
        False,
        "calls come by the thousand a second; recording each of them at the head costs more than"
        " the call",
    ),
}
"""What holds for every actor."""

OVERRIDES: Final[Mapping[str, Mapping[str, Option]]] = {
    "Broker": {
        "max_task_retries": Option(
            0,
            "the single writer: an append must never be executed twice for one request",
        ),
    },
    "Supervisor": {
        "max_restarts": Option(
            -1,
            "it keeps nothing but what it can ask the others again",
        ),
    },
}
"""Where an actor differs, or has a reason of its own."""

TARGETS: Final[Mapping[str, str]] = {
    "Supervisor": "wakelog.actors.deploy.supervisor:SupervisorActor",
    "NameServer": "wakelog.actors.name_server:NameServerActor",
    "Broker": "wakelog.actors.broker.actor:BrokerActor",
    **{row.actor_name: row.service for row in SERVICES.values()},
    "AddedService": "wakelog.actors.services.added_services:AddedService",
}
"""Every kind of actor, and `module:class` of its shell."""


class Placement(NamedTuple):
    """Where an actor has to live: on a node by its id, or on nodes that offer a resource.

    A broker stays with its store. A node that comes back has another id, so a broker that is to
    follow its disk names a resource that the nodes with that disk offer.
    """

    node_id: str | None = None
    resource: str | None = None


ANYWHERE: Final = Placement()
_SHARE: Final = 0.001
"""Of the resource, so that one unit of it holds every actor of a broker."""


def options_of(kind: str, placement: Placement = ANYWHERE) -> dict[str, Any]:
    """Return the options of an actor, as Ray takes them."""
    options = {name: option.value for name, option in COMMON.items()}
    options |= {name: option.value for name, option in OVERRIDES.get(kind, {}).items()}
    if placement.resource is not None:
        options["resources"] = {placement.resource: _SHARE}
    if placement.node_id is not None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # Not soft: a broker on a node without its store would find an empty directory.
        strategy = NodeAffinitySchedulingStrategy(placement.node_id, soft=False)
        options["scheduling_strategy"] = strategy
    return options


def make_actor(
    kind: str,
    name: str,
    *arguments: Any,
    target: str | None = None,
    placement: Placement = ANYWHERE,
) -> Any:
    """Return the actor of a name, started unless there is one.

    target: `module:class` of an actor that is not in `TARGETS`.
    """
    import ray

    remote = ray.remote(load(target or TARGETS[kind]))
    return remote.options(name=name, **options_of(kind, placement)).remote(*arguments)


def find_actor(name: str) -> Any | None:
    """Return the actor of a name, None if there is none."""
    import ray

    try:
        return ray.get_actor(name, namespace=COMMON["namespace"].value)
    except ValueError:
        return None


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
