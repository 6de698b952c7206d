"""Which of Ray's processes run, and that a job may still bring an environment."""

from pathlib import Path

import pytest

from wakelog.actors.ray.head import session_processes
from wakelog.actors.ray.private_ray import RayCluster

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def commands(cluster: RayCluster) -> str:
    """Return the command lines of a Ray's processes, one a line."""
    found = []
    for process_id in session_processes(cluster.process_id):
        path = Path(f"/proc/{process_id}/cmdline")
        if path.exists():
            found.append(path.read_bytes().replace(b"\0", b" ").decode())
    return "\n".join(found)


def test_processes_that_a_broker_does_not_need_are_not_started(ray_cluster: RayCluster) -> None:
    running = commands(ray_cluster)
    assert "gcs_server" in running and "raylet" in running
    for absent in ("ray::DashboardAgent", "dashboard.py", "monitor.py", "log_monitor.py"):
        assert absent not in running, absent


def test_the_environment_of_a_task_is_made_when_the_task_comes(ray_cluster: RayCluster) -> None:
    import os

    import ray

    @ray.remote(num_cpus=0)
    def colour() -> tuple[str | None, str | None]:
        return os.environ.get("COLOUR"), os.environ.get("PYTHONHASHSEED")

    # The second variable is one that Python reads while starting, so that a fork would not do.
    own = {"env_vars": {"COLOUR": "blue", "PYTHONHASHSEED": "42"}}
    assert ray.get(colour.options(runtime_env=own).remote(), timeout=60) == ("blue", "42")
    assert "runtime_env" in commands(ray_cluster) or "RuntimeEnvAgent" in commands(ray_cluster)
