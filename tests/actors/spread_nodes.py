"""Replicas of a group on Ray nodes of their own: run by a test as a program of its own.

The command line is a directory for everything; the first line printed says where the name server
and the replicas listen. There is one node more than replicas. Each line on standard input is
answered by one.

    kill N   kill the processes of the node on which replica N lives, and take its store away
    places   say which nodes the replicas live on
    stop     stop everything in order and end

Nodes share this machine, and so their addresses are one.
"""

import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from wakelog.actors.ray.fast_start import worker_start, worker_template
from wakelog.actors.ray.fast_start.ray_import import import_ray

LOOPBACK = "127.0.0.1"
NODE: dict[str, Any] = {
    "node_ip_address": LOOPBACK,
    "object_store_memory": 80 << 20,
    "include_log_monitor": False,
    "num_cpus": 1,
}
QUICK_TO_NOTICE = {"health_check_period_ms": 500, "health_check_failure_threshold": 4}
"""By default a node that does not answer is taken for dead after some 15 s."""

REPLICAS_COUNT = 3
PLACED_SECONDS_MAX = 60.0


class SpreadNodes:
    """The cluster and what runs in it."""

    def __init__(self, directory: Path) -> None:
        # Not before the template was forked: it has to be the first to import Ray.
        import ray._private.node
        from ray.cluster_utils import Cluster

        from wakelog.actors.deploy.supervised import SupervisedActors, placed
        from wakelog.actors.ray.fast_start.node import leave_out_agents
        from wakelog.actors.ray.options import spread
        from wakelog.actors.ray.private_ray import join, prepare_driver

        leave_out_agents()
        node: Any = ray._private.node.Node
        node.start_api_server = lambda *_, **__: None
        make_cluster: Any = Cluster  # Ray's own annotations end here
        self._cluster = make_cluster(
            initialize_head=True,
            head_node_args={
                **NODE,
                "num_cpus": 0,
                "worker_path": worker_start.__file__,
                "include_dashboard": False,
                "_system_config": QUICK_TO_NOTICE,
            },
        )
        self._nodes = [self._cluster.add_node(**NODE) for _ in range(REPLICAS_COUNT + 1)]
        prepare_driver({})
        join(self._cluster.address)
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

    def kill(self, number: int) -> None:
        place = self.places()[number - 1]
        [node] = [each for each in self._nodes if each.node_id == place]
        self._cluster.remove_node(node, allow_graceful=False)
        store = Path(self._plan.brokers[number - 1].store_directory)
        store.rename(store.with_name(f"gone-{time.monotonic_ns()}"))

    def run(self) -> None:
        asyncio.run(self._actors.start(lambda step: None))
        brokers = (broker.address for broker in self._plan.brokers)
        say(" ".join(("ready", self._plan.name_server_address, *brokers)))
        # In the main thread: Ray installs a signal handler with each node.
        while (line := sys.stdin.readline().strip()) != "stop":
            word, _, number = line.partition(" ")
            if word == "kill":
                self.kill(int(number))
            say(f"did {line}: {' '.join(self.places())}")
        say("stopped" if asyncio.run(self._actors.stop()) else "not in order")

    def end(self) -> None:
        from wakelog.actors.ray.private_ray import leave

        leave()
        self._cluster.shutdown()


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


def say(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    # Ray adds 70 characters to this for its sockets, whose paths may have some 107.
    ray_directory = tempfile.mkdtemp(prefix="wakelog-", dir="/tmp")
    os.environ["RAY_TMPDIR"] = ray_directory
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a process that runs threads cannot be forked
    with worker_template.prepare_import(os.getpid()):
        import_ray()
    if worker_template.fork_template(ray_directory):
        worker_template.run_worker()
        return
    try:
        nodes = SpreadNodes(Path(sys.argv[1]))
        try:
            nodes.run()
        finally:
            nodes.end()
    finally:
        shutil.rmtree(ray_directory)


if __name__ == "__main__":
    main()
