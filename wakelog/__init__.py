"""A message log and broker on Ray actors, a drop-in for Apache RocketMQ 4.9.3.

A message passes the folders in this order:

network               carries frames
protocol              turns them into values
broker, nameserver    decide what they mean
storage               appends and reads
dispatchers           derive queues and index
actors                run each of these

Invariants: importing this package starts nothing and imports none of the folders.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wakelog.actors.ray.attach import ActorCluster


def attach(name_server: Any = "NameServer", *, by_calls: bool = False) -> "ActorCluster":
    """Return the wakelog of this Ray, for clients: see `wakelog.actors.ray.attach`."""
    from wakelog.actors.ray.attach import attach as attach_actors

    return attach_actors(name_server, by_calls=by_calls)
