"""Ray's daemons, started by Ray's own class for them, without what a broker has no use for.

    the dashboard and its agent              metrics are served by wakelog
    the agent of runtime environments        started when a job asks for it
    the autoscaler, the log monitor          off by Ray's own switches

Workers come from a template (see `worker_template`).

Ray looks every 0.1 s for the port of its head service, and the raylet every 0.05 s for those of its
agents. So the first is looked for more often, and the ports of the agents are written before the
raylet starts: those that one has not, and one that is kept for the other.

Ray checks whether the node has registered 0.1 s after starting it, and sleeps a second if not. Half
of all starts took that second. So registration is awaited here, and announced before Ray checks.

Source: ray._private.node.Node, ray._private.services (2.60).
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from wakelog.actors.ray.fast_start import agent_stubs, worker_start

NODE_PARAMETERS: Final = {
    "node_ip_address": "127.0.0.1",
    "node_name": "wakelog",
    # The system chooses every port.
    "gcs_server_port": 0,
    "object_manager_port": 0,
    "node_manager_port": 0,
    "num_gpus": 0,
    "resources": {},
    "include_dashboard": False,
    "no_monitor": True,  # the autoscaler
    "include_log_monitor": False,
    "worker_path": worker_start.__file__,
}
"""Arguments of `RayParams` that are the same for every Ray."""

REGISTER_SECONDS_MAX = 30.0
"""Ray's own limit."""

REGISTER_CHECK_SECONDS = 0.005
PORT_CHECK_MS = 5


class FastRay:
    """The daemons of a Ray on the loopback interface."""

    def __init__(
        self,
        *,
        worker_count: int,
        object_store_bytes: int,
        directory: str,
        announce: Callable[[str, str], None],
    ) -> None:
        """Start them, as the head of a cluster.

        announce: called with the address and the node's id once drivers can join; Ray still checks
            the node then.
        """
        from ray._private.node import Node
        from ray._private.parameter import RayParams

        self._reserved: list[Any] = []  # ports, for as long as this runs
        reserved = self._reserved

        class QuickNode(Node):
            """Ray's node without the dashboard's process."""

            def start_api_server(self, **_options: Any) -> None:
                """Start nothing."""

            def start_ray_processes(self) -> None:
                starter: Any = super()
                node: Any = self
                place = node.get_session_dir_path(), node.node_id
                agent_stubs.write_unused_ports(*place)
                if sys.platform == "linux":
                    host = str(NODE_PARAMETERS["node_ip_address"])
                    reserved.append(agent_stubs.reserve_environment_port(host, *place))
                starter.start_ray_processes()
                _wait_registered(self)
                announce(node.address, node.node_id)

        leave_out_agents()
        check_ports_often()
        flag_workers()
        make_parameters: Any = RayParams  # Ray's own annotations are not those of its values
        parameters = make_parameters(
            **NODE_PARAMETERS,
            # Actors ask for no CPU; the number is what Ray starts workers ahead by.
            num_cpus=worker_count,
            object_store_memory=object_store_bytes,
            temp_dir=directory,
        )
        self._node: Any = QuickNode(
            parameters, head=True, shutdown_at_exit=False, spawn_reaper=True
        )

    def has_ended(self) -> bool:
        """Return whether a daemon has died."""
        return bool(self._node.dead_processes())

    def end(self) -> None:
        """End the daemons."""
        self._node.kill_all_processes(check_alive=False, allow_graceful=True)


def leave_out_agents() -> None:
    """Have the nodes that this process starts do without the agents, and wait for no dashboard."""
    import ray._private.services
    import ray._private.utils

    # Ray believes the dashboard installed, and would wait for it.
    absent = ImportError("the dashboard is off")
    ray._private.utils.get_dashboard_dependency_error = lambda: absent
    services: Any = ray._private.services
    services._build_python_executable_command_memory_profileable = _stub_command


def check_ports_often() -> None:
    """Have the nodes that this process starts see soon that a daemon listens."""
    import ray._private.node
    import ray._raylet

    node: Any = ray._private.node
    raylet: Any = ray._raylet
    wait = raylet.wait_for_persisted_port
    node.wait_for_persisted_port = partial(wait, poll_interval_ms=PORT_CHECK_MS)


def flag_workers() -> None:
    """Have the nodes that this process starts run `worker_start` with its flags."""
    import ray._private.services

    services: Any = ray._private.services
    services._site_flags = lambda: list(worker_start.FLAGS)


def _stub_command(_component: str, _session_directory: str, **_options: Any) -> list[str]:
    """Return what Ray puts before an agent's script and its arguments."""
    return [sys.executable, *worker_start.FLAGS, agent_stubs.__file__]


def _wait_registered(node: Any) -> None:
    """Return once Ray's table of nodes has one, or after `REGISTER_SECONDS_MAX`."""
    end = time.monotonic() + REGISTER_SECONDS_MAX
    while not node.get_gcs_client().get_all_node_info() and time.monotonic() < end:
        time.sleep(REGISTER_CHECK_SECONDS)
