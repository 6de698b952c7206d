"""Two brokers on two Ray nodes of one cluster: run by a test as a program of its own.

The command line is a directory for everything; the first line printed says where the name server
and the brokers listen. The second node comes and goes as lines on standard input say, each of which
is answered by one.

    kill     kill the processes of the second node
    add      add it again, under another id, as a machine that was started anew
    stop     stop everything in order and end

The first node's workers are forked as those of `wakelog up` are; the second's are not, since a fork
ends with this process and not with its node.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from wakelog.actors.ray.fast_start import worker_start, worker_template
from wakelog.actors.ray.fast_start.ray_import import import_ray

LOOPBACK = "127.0.0.1"
NODE: dict[str, Any] = {
    "node_ip_address": LOOPBACK,
    "object_store_memory": 80 << 20,
    "include_log_monitor": False,
    "num_cpus": 9,
}
QUICK_TO_NOTICE = {"health_check_period_ms": 500, "health_check_failure_threshold": 4}
"""By default a node that does not answer is taken for dead after some 15 s."""

PLACES = {"broker-a": "disk-a", "broker-b": "disk-b"}


class TwoNodes:
    """The cluster and what runs in it."""

    def __init__(self, directory: Path) -> None:
        # Not before the template was forked: it has to be the first to import Ray.
        import ray._private.node
        from ray.cluster_utils import Cluster

        from tests.actors.deployments import small_plan
        from wakelog.actors.deploy.supervised import SupervisedActors, placed
        from wakelog.actors.ray.fast_start.node import leave_out_agents
        from wakelog.actors.ray.options import Placement
        from wakelog.actors.ray.private_ray import join, prepare_driver

        leave_out_agents()
        node: Any = ray._private.node.Node
        node.start_api_server = lambda *_, **__: None
        make_cluster: Any = Cluster  # Ray's own annotations end here
        self._cluster = make_cluster(
            initialize_head=True,
            head_node_args={
                **NODE,
                "worker_path": worker_start.__file__,
                "resources": {PLACES["broker-a"]: 1},
                "include_dashboard": False,
                "_system_config": QUICK_TO_NOTICE,
            },
        )
        self.add()
        prepare_driver({})
        join(self._cluster.address)
        self._plan = small_plan(directory / "store", is_local=False, broker_count=2)
        placements = {name: Placement(resource=disk) for name, disk in PLACES.items()}
        shared = directory / "shared"
        shared.mkdir()
        self._actors = SupervisedActors(placed(self._plan, shared, placements))

    def add(self) -> None:
        self._second = self._cluster.add_node(**NODE, resources={PLACES["broker-b"]: 1})

    def kill(self) -> None:
        self._cluster.remove_node(self._second, allow_graceful=False)

    def run(self) -> None:
        asyncio.run(self._actors.start(lambda step: None))
        brokers = (broker.address for broker in self._plan.brokers)
        say(" ".join(("ready", self._plan.name_server_address, *brokers)))
        # In the main thread: Ray installs a signal handler with each node.
        while (line := sys.stdin.readline().strip()) != "stop":
            {"kill": self.kill, "add": self.add}[line]()
            say(f"did {line}")
        say("stopped" if asyncio.run(self._actors.stop()) else "not in order")

    def end(self) -> None:
        from wakelog.actors.ray.private_ray import leave

        leave()
        self._cluster.shutdown()


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
        nodes = TwoNodes(Path(sys.argv[1]))
        try:
            nodes.run()
        finally:
            nodes.end()
    finally:
        shutil.rmtree(ray_directory)


if __name__ == "__main__":
    main()
