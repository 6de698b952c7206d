"""Ray's daemons, started by Ray's own class for them, without what a broker has no use for.

    the dashboard and its agent              metrics are served by wakelog
    the agent of runtime environments        started when a job asks for it
    the autoscaler, the log monitor          off by Ray's own switches

Workers come from a template (see `worker_template`).

Ray checks whether the node has registered 0.1 s after starting it, and sleeps a second if not. Half
of all starts took that second. So registration is awaited before Ray checks.

Source: ray._private.node.Node, ray._private.services (2.60).
"""

import sys
import time
from pathlib import Path
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

REGISTER_CHECK_SECONDS = 0.02


class FastRay:
    """The daemons of a Ray on the loopback interface."""

    def __init__(self, *, worker_count: int, object_store_bytes: int, directory: str) -> None:
        """Start them, as the head of a cluster."""
        from ray._private.node import Node
        from ray._private.parameter import RayParams

        class QuickNode(Node):
            """Ray's node without the dashboard's process."""

            def start_api_server(self, **_options: Any) -> None:
                """Start nothing."""

            def start_ray_processes(self) -> None:
                starter: Any = super()
                starter.start_ray_processes()
                _wait_registered(self)

        leave_out_agents()
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
        self.address: str = self._node.address

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


def _stub_command(_component: str, _session_directory: str, **_options: Any) -> list[str]:
    """Return what Ray puts before an agent's script and its arguments."""
    return [sys.executable, "-S", str(Path(agent_stubs.__file__))]


def _wait_registered(node: Any) -> None:
    """Return once Ray's table of nodes has one, or after `REGISTER_SECONDS_MAX`."""
    end = time.monotonic() + REGISTER_SECONDS_MAX
    while not node.get_gcs_client().get_all_node_info() and time.monotonic() < end:
        time.sleep(REGISTER_CHECK_SECONDS)
