"""A private Ray: beside others, on loopback only, and gone without a trace."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.actors.listeners import LOOPBACKS, listening
from wakelog.actors.ray.head import session_processes
from wakelog.actors.ray.private_ray import RayCluster, RayFailed

pytestmark = [pytest.mark.ray, pytest.mark.slow]


WAIT_SECONDS_MAX = 20.0
FAILURES_COUNT = 3
FAILURE_SECONDS_MAX = 0.9
"""It takes 0.1 s, and with Ray's own settings never less than a second."""


@pytest.fixture(scope="module")
def other_cluster(ray_cluster: RayCluster) -> RayCluster:
    """Return a second Ray, which its test ends."""
    cluster = RayCluster(worker_count=1)
    cluster.wait_ready()
    return cluster


def test_two_run_side_by_side_and_the_other_survives_the_end_of_one(
    ray_cluster: RayCluster, other_cluster: RayCluster
) -> None:
    import ray

    assert ray_cluster.ready.address != other_cluster.ready.address
    members = session_processes(other_cluster.process_id)
    assert len(members) >= 4
    assert listening(members) <= LOOPBACKS
    assert other_cluster.directory.stat().st_mode & 0o777 == 0o700
    assert (other_cluster.directory / "token").stat().st_mode & 0o777 == 0o600
    began = time.monotonic()
    other_cluster.stop()
    assert time.monotonic() - began < WAIT_SECONDS_MAX
    assert session_processes(other_cluster.process_id) == []
    assert not other_cluster.directory.exists()
    assert not other_cluster.shared_directory.exists()
    assert not other_cluster.is_running and ray_cluster.is_running

    @ray.remote(num_cpus=0)
    def works() -> int:
        return 42

    assert ray.get(works.remote()) == 42


_HOST = """
import sys
from wakelog.actors.ray.private_ray import RayCluster
cluster = RayCluster(worker_count=0)
print(cluster.process_id, cluster.directory, cluster.shared_directory, flush=True)
sys.stdin.read()
"""


def test_a_ray_ends_with_the_process_that_started_it(ray_cluster: RayCluster) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as host:
        assert host.stdout is not None
        head_id, directory, shared = host.stdout.readline().decode().split()
        host.send_signal(signal.SIGKILL)
    end = time.monotonic() + WAIT_SECONDS_MAX
    while session_processes(int(head_id)) or Path(directory).exists() or Path(shared).exists():
        assert time.monotonic() < end, "something is left"
        time.sleep(0.05)


def test_a_call_to_an_actor_that_has_just_died_fails_soon(ray_cluster: RayCluster) -> None:
    import ray
    from ray.exceptions import ActorUnavailableError

    class Mortal:
        async def process_id(self) -> int:
            return os.getpid()

        async def wait(self) -> None:
            await asyncio.Event().wait()

    def living() -> int:
        while True:
            with suppress(ActorUnavailableError):
                return int(ray.get(mortal.process_id.remote(), timeout=WAIT_SECONDS_MAX))

    actor: Any = ray.remote(num_cpus=0, max_restarts=-1)(Mortal)
    mortal = actor.remote()
    failed_after = []
    for _ in range(FAILURES_COUNT):
        process_id = living()
        call = mortal.wait.remote()
        os.kill(process_id, signal.SIGKILL)
        killed_at = time.monotonic()
        with pytest.raises(ActorUnavailableError):
            ray.get(call)
        failed_after.append(time.monotonic() - killed_at)
    ray.kill(mortal)
    assert min(failed_after) < FAILURE_SECONDS_MAX


def test_a_ray_that_cannot_start_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.exit('no Ray today')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    cluster = RayCluster(worker_count=0)
    with pytest.raises(RayFailed, match="no Ray today"):
        cluster.wait_ready()
    assert not cluster.directory.exists() and not cluster.shared_directory.exists()
    assert session_processes(cluster.process_id) == []


def test_its_workers_yield_to_no_other_process(ray_cluster: RayCluster) -> None:
    import ray

    def niceness() -> int:
        return os.nice(0)

    asked: Any = ray.remote(num_cpus=0)(niceness)
    assert ray.get(asked.remote()) == os.nice(0)
