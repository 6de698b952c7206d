"""Ray's own starter of its daemons, without what a broker has no use for.

    the dashboard and its agent              no HTTP but for jobs, and metrics are ours
    the agent of runtime environments        started when a job asks for it
    the autoscaler, the log monitor          off by Ray's own switches

With a dashboard everything is started as Ray does it. Workers come from a template in both cases.

Ray asks once whether the node has registered, 0.1 s after starting it, and sleeps a second if not:
half of all starts took that second. So registration is waited for before Ray asks.

Source: ray._private.node.Node, ray._private.services (2.60).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray._private.node
import ray._private.parameter
import ray._private.services
import ray._private.utils

from wakelog.actors.ray.fast_start import agent_stubs, worker_start

REGISTER_SECONDS_MAX = 30.0
"""Ray's own limit."""

LOOK_SECONDS = 0.02


def start_node(parameters: Mapping[str, Any]) -> Any:
    """Start Ray's daemons as the head of a cluster and return Ray's own object for them.

    parameters: Ray's own; "include_dashboard" has to be among them.
    """
    has_dashboard: bool = parameters["include_dashboard"]

    class Node(ray._private.node.Node):
        """Ray's node without the dashboard's process, if nobody asked for it."""

        def start_api_server(self, **options: Any) -> None:
            if has_dashboard:
                super().start_api_server(**options)

        def start_ray_processes(self) -> None:
            starter: Any = super()
            starter.start_ray_processes()
            _wait_registered(self)

    if not has_dashboard:
        leave_out_agents()
    # Ray's own annotations are not those of its values.
    make_parameters: Any = ray._private.parameter.RayParams
    return Node(
        make_parameters(**parameters, worker_path=worker_start.__file__),
        head=True,
        shutdown_at_exit=False,
        spawn_reaper=True,
    )


def leave_out_agents() -> None:
    """Have the nodes that this process starts do without the agents, and wait for no dashboard."""
    # Ray believes the dashboard installed, and would wait for it.
    absent = ImportError("the dashboard is off")
    ray._private.utils.get_dashboard_dependency_error = lambda: absent
    services: Any = ray._private.services
    services._build_python_executable_command_memory_profileable = _stand_in_command


def _stand_in_command(_component: str, _session_directory: str, **_options: Any) -> list[str]:
    """Return what Ray puts before an agent's script and its arguments."""
    return [sys.executable, "-S", str(Path(agent_stubs.__file__))]


def _wait_registered(node: Any) -> None:
    """Return once Ray's directory of nodes has one, or after `REGISTER_SECONDS_MAX`."""
    end = time.monotonic() + REGISTER_SECONDS_MAX
    while not node.get_gcs_client().get_all_node_info() and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
