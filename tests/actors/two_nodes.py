"""Two brokers on two Ray nodes of one cluster: run by a test as a program of its own.

The command line is a directory for everything; the first line printed says where the name server
and the brokers listen. The second node comes and goes as lines on standard input say, each of which
is answered by one.

    kill     kill the processes of the second node
    add      add it again, under another id, as a machine that was started anew
    stop     stop everything in order and end
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import ray._private.node
import ray._private.utils
from ray.cluster_utils import Cluster

from tests.actors.deployments import small_plan
from wakelog.actors.cluster.options import Placement
from wakelog.actors.cluster.ray_cluster import join, leave
from wakelog.actors.supervised import SupervisedActors, deployment_plan

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


def leave_out_dashboard() -> None:
    """Have no node start Ray's dashboard or wait for it, which takes longer than all the rest."""
    absent = ImportError("the dashboard is off")
    ray._private.utils.get_dashboard_dependency_error = lambda: absent
    node: Any = ray._private.node.Node
    node.start_api_server = lambda *_, **__: None


class TwoNodes:
    """The cluster and what runs in it."""

    def __init__(self, directory: Path, ray_directory: str) -> None:
        os.environ["RAY_TMPDIR"] = ray_directory
        leave_out_dashboard()
        make_cluster: Any = Cluster  # Ray's own annotations end here
        self._cluster = make_cluster(
            initialize_head=True,
            head_node_args={
                **NODE,
                "resources": {PLACES["broker-a"]: 1},
                "include_dashboard": False,
                "_system_config": QUICK_TO_NOTICE,
            },
        )
        self.add()
        join(self._cluster.address, {})
        self._plan = small_plan(directory / "store", is_local=False, broker_count=2)
        placements = {name: Placement(resource=disk) for name, disk in PLACES.items()}
        shared = directory / "shared"
        shared.mkdir()
        self._actors = SupervisedActors(deployment_plan(self._plan, shared, placements))

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
        leave()
        self._cluster.shutdown()


def say(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    # Ray adds 70 characters to this for its sockets, whose paths may have some 107.
    with tempfile.TemporaryDirectory(prefix="wakelog-", dir="/tmp") as ray_directory:
        nodes = TwoNodes(Path(sys.argv[1]), ray_directory)
        try:
            nodes.run()
        finally:
            nodes.end()


if __name__ == "__main__":
    main()
