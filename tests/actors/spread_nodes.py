"""Replicas of a group on Ray nodes of their own: run by a test as a program of its own.

The command line is a directory for everything; the first line printed says where the name server
and the replicas listen. There is one node more than replicas. Each line on standard input is
answered by one.

    kill N   kill the processes of the node on which replica N lives, and take its store away
    leave N  the same, and end them by SIGTERM as `ray stop` does
    end N    end the Broker of replica N as `ray.kill` does: Ray does not start it again
    places   say which nodes the replicas live on
    stop     stop everything in order and end

Nodes share this machine, and so their addresses are one.
"""

import time
from pathlib import Path
from typing import Any

from tests.actors.ray_nodes import (
    NODE,
    end_cluster,
    join_cluster,
    make_cluster,
    run_program,
    serve,
)

REPLICAS_COUNT = 3
PLACED_SECONDS_MAX = 60.0


class SpreadNodes:
    """The cluster and what runs in it."""

    def __init__(self, directory: Path) -> None:
        cluster = make_cluster({"num_cpus": 0})

        from wakelog.actors.deploy.supervised import SupervisedActors, placed
        from wakelog.actors.ray.options import spread

        self._cluster = cluster
        self._nodes = [cluster.add_node(**NODE, num_cpus=1) for _ in range(REPLICAS_COUNT + 1)]
        join_cluster(cluster)
        self._plan = replicas_plan(directory)
        places = spread(REPLICAS_COUNT, PLACED_SECONDS_MAX)
        names = [broker.name for broker in self._plan.brokers]
        shared = directory / "shared"
        shared.mkdir()
        placements = dict(zip(names, places, strict=True))
        self._actors = SupervisedActors(placed(self._plan, shared, placements))

    def places(self) -> list[str]:
        """Return the node of each replica."""
        from ray.util import get_placement_group, placement_group_table

        from wakelog.actors.ray.options import PLACES

        table = placement_group_table(get_placement_group(PLACES))
        return [table["bundles_to_node_id"][index] for index in range(REPLICAS_COUNT)]

    def end_broker(self, number: int) -> None:
        from wakelog.actors.deploy.group import BROKER
        from wakelog.actors.ray.options import actor_name, end_actor, find_actor

        end_actor(find_actor(actor_name(self._plan.brokers[number - 1].name, BROKER)))

    def kill(self, number: int, *, is_graceful: bool) -> None:
        place = self.places()[number - 1]
        [node] = [each for each in self._nodes if each.node_id == place]
        self._cluster.remove_node(node, allow_graceful=is_graceful)
        store = Path(self._plan.brokers[number - 1].store_directory)
        store.rename(store.with_name(f"gone-{time.monotonic_ns()}"))

    def run(self) -> None:
        def obey(line: str) -> str:
            word, _, number = line.partition(" ")
            if word in ("kill", "leave"):
                self.kill(int(number), is_graceful=word == "leave")
            elif word == "end":
                self.end_broker(int(number))
            return f"did {line}: {' '.join(self.places())}"

        serve(self._plan, self._actors, obey)

    def end(self) -> None:
        end_cluster(self._cluster)


def replicas_plan(directory: Path) -> Any:
    """Return the plan of a group with small files."""
    from tests.actors.deploy.test_replicas import free_ports
    from wakelog.actors.deploy.plan import UpOptions
    from wakelog.actors.deploy.planning import make_plan

    name_server_port, broker_port = free_ports(REPLICAS_COUNT)
    return make_plan(
        UpOptions(
            store=str(directory / "store"),
            name_server_port=name_server_port,
            broker_port=broker_port,
            metrics_port=0,
            replica_count=REPLICAS_COUNT,
            settings=("mappedFileSizeCommitLog=1048576",),
        )
    )


if __name__ == "__main__":
    run_program(SpreadNodes)
