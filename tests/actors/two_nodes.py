"""Two brokers on two Ray nodes of one cluster: run by a test as a program of its own.

The command line is a directory for everything; the first line printed says where the name server
and the brokers listen. The second node comes and goes as lines on standard input say, each of which
is answered by one.

    kill     kill the processes of the second node
    add      add it again, under another id, as a machine that was started anew
    stop     stop everything in order and end
"""

from pathlib import Path

from tests.actors.ray_nodes import (
    NODE,
    end_cluster,
    join_cluster,
    make_cluster,
    run_program,
    serve,
)

CPUS = {"num_cpus": 9}
PLACES = {"broker-a": "disk-a", "broker-b": "disk-b"}


class TwoNodes:
    """The cluster and what runs in it."""

    def __init__(self, directory: Path) -> None:
        cluster = make_cluster({**CPUS, "resources": {PLACES["broker-a"]: 1}})

        from tests.actors.deployments import small_plan
        from wakelog.actors.deploy.supervised import SupervisedActors, placed
        from wakelog.actors.ray.options import Placement

        self._cluster = cluster
        self.add()
        join_cluster(self._cluster)
        self._plan = small_plan(directory / "store", is_local=False, broker_count=2)
        placements = {name: Placement(resource=disk) for name, disk in PLACES.items()}
        shared = directory / "shared"
        shared.mkdir()
        self._actors = SupervisedActors(placed(self._plan, shared, placements))

    def add(self) -> None:
        self._second = self._cluster.add_node(**NODE, **CPUS, resources={PLACES["broker-b"]: 1})

    def kill(self) -> None:
        self._cluster.remove_node(self._second, allow_graceful=False)

    def run(self) -> None:
        def obey(line: str) -> str:
            {"kill": self.kill, "add": self.add}[line]()
            return f"did {line}"

        serve(self._plan, self._actors, obey)

    def end(self) -> None:
        end_cluster(self._cluster)


if __name__ == "__main__":
    run_program(TwoNodes)
