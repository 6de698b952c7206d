"""Several Ray nodes on this machine: what programs share that tests run for a cluster of them.

The first node's workers are forked as those of `wakelog up` are; the others' are not, since a fork
ends with this process and not with its node.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from wakelog.actors.ray.fast_start import worker_start, worker_template
from wakelog.actors.ray.fast_start.ray_import import import_ray

NODE: dict[str, Any] = {
    "node_ip_address": "127.0.0.1",
    "object_store_memory": 80 << 20,
    "include_log_monitor": False,
}
QUICK_TO_NOTICE = {"health_check_period_ms": 500, "health_check_failure_threshold": 4}
"""By default a node that does not answer is taken for dead after some 15 s."""


class Nodes(Protocol):
    """A cluster and what runs in it."""

    def run(self) -> None:
        """Start it, and obey the lines on standard input until one says stop."""

    def end(self) -> None:
        """End the cluster."""


def make_cluster(head: dict[str, Any]) -> Any:
    """Return a cluster with its first node. head: what that node has beside `NODE`."""
    # Not before the template was forked: it has to be the first to import Ray.
    import ray._private.node
    from ray.cluster_utils import Cluster

    from wakelog.actors.ray.fast_start.node import leave_out_agents

    leave_out_agents()
    node: Any = ray._private.node.Node
    node.start_api_server = lambda *_, **__: None
    make: Any = Cluster  # Ray's own annotations end here
    return make(
        initialize_head=True,
        head_node_args={
            **NODE,
            "worker_path": worker_start.__file__,
            "include_dashboard": False,
            "_system_config": QUICK_TO_NOTICE,
            **head,
        },
    )


def join_cluster(cluster: Any) -> None:
    """Let this process be a driver of the cluster."""
    from wakelog.actors.ray.private_ray import join, prepare_driver

    prepare_driver({})
    join(cluster.address)


def end_cluster(cluster: Any) -> None:
    """Leave the cluster, and end it."""
    from wakelog.actors.ray.private_ray import leave

    leave()
    cluster.shutdown()


def serve(plan: Any, actors: Any, obey: Callable[[str], str]) -> None:
    """Start the actors, say where they listen, and obey each line until one says stop."""
    asyncio.run(actors.wait_ready(lambda step: None))
    brokers = (broker.address for broker in plan.brokers)
    say(" ".join(("ready", plan.name_server_address, *brokers)))
    # In the main thread: Ray installs a signal handler with each node.
    while (line := sys.stdin.readline().strip()) != "stop":
        say(obey(line))
    say("stopped" if asyncio.run(actors.stop()) else "not in order")


def say(line: str) -> None:
    """Write a line at once."""
    print(line, flush=True)


def run_program(make_nodes: Callable[[Path], Nodes]) -> None:
    """Be the program, or the process that its first node's workers are forked from."""
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
        nodes = make_nodes(Path(sys.argv[1]))
        try:
            nodes.run()
        finally:
            nodes.end()
    finally:
        shutil.rmtree(ray_directory)
