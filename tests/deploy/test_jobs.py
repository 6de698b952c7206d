"""The three jobs in a Ray cluster: start ends and leaves actors, others find them by name.

Each day they run as programs that join the cluster. In `./dev long` its job server runs them, which
takes a dashboard and, for each job, an environment of its own.
"""

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from ray._private.utils import write_ray_address

from tests.actors.client import Client
from tests.compat.processes import free_port
from wakelog.actors.deploy.group import actors_count
from wakelog.actors.ray.fast_start.ray_import import HAS_NODES
from wakelog.actors.ray.head import end_session
from wakelog.actors.ray.private_ray import HEAD_ENVIRONMENT
from wakelog.protocol.codes import ResponseCode
from wakelog.storage.config import StoreConfig

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parent.parent.parent
JOB_SECONDS_MAX = 120.0
ATTEMPTS_MAX = 10
"""To find every service attached: retention may be so shortly after the broker serves."""
BINARIES = Path(sys.executable).parent


class Jobs(NamedTuple):
    """Runs jobs in one cluster. command: what submits them; empty for programs by themselves."""

    command: list[str]
    environment: dict[str, str]

    def run(self, *words: str) -> str:
        """Run a job to its end and return what it printed."""
        outcome = subprocess.run(
            [*self.command, *words],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=JOB_SECONDS_MAX,
            check=False,
        )
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        return outcome.stdout


# A Ray on the loopback interface, with a server of jobs or without, until its input ends.
_HEAD = """
import sys
import ray

workers, takes_jobs = map(int, sys.argv[1:])
context = ray.init("local", num_cpus=workers, include_dashboard=bool(takes_jobs),
                   log_to_driver=False, object_store_memory=80 << 20)
print(ray.get_runtime_context().gcs_address, context.dashboard_url or "-", flush=True)
sys.stdin.read()
"""

STORE = StoreConfig(store_path_root="/store")


@pytest.fixture(params=["programs", pytest.param("submitted", marks=pytest.mark.long)])
def jobs(request: pytest.FixtureRequest, tmp_path: Path, short_path: Path) -> Iterator[Jobs]:
    """Yield a cluster and what runs jobs in it; its machine has the packages already."""
    takes_jobs = request.param == "submitted"
    runtime_env = yaml.safe_load((ROOT / "deploy" / "runtime_env.yaml").read_text())
    del runtime_env["pip"]
    path = tmp_path / "runtime_env.yaml"
    path.write_text(yaml.safe_dump(runtime_env))
    environment = {
        **os.environ,
        **HEAD_ENVIRONMENT,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        HAS_NODES: "0",
        "PATH": f"{BINARIES}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        # Ray's dashboard leaves the directories of its sockets behind when it is ended.
        "TMPDIR": str(short_path),
        "RAY_TMPDIR": str(short_path),
    }
    with subprocess.Popen(
        [sys.executable, "-c", _HEAD, str(actors_count([STORE]) + 1), str(int(takes_jobs))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    ) as head:
        try:
            assert head.stdin is not None and head.stdout is not None
            address, url = head.stdout.readline().decode().split()
            # A job finds its Ray by the file that `ray start` writes, else by the newest process.
            write_ray_address(address, str(short_path / "ray"))
            if takes_jobs:
                submit = [str(BINARIES / "ray"), "job", "submit", "--address", f"http://{url}"]
                submit += ["--runtime-env", str(path), "--working-dir", ".", "--"]
                yield Jobs(submit, environment)
            else:
                yield Jobs([], {**environment, "RAY_ADDRESS": address})
            head.stdin.close()
            head.wait(JOB_SECONDS_MAX)
        finally:
            end_session(head.pid)


def in_output(output: str) -> dict[str, Any]:
    """Return the JSON that a job printed, among the lines of Ray where it was submitted."""
    begin = f"\n{output}".index("\n{\n")
    found: dict[str, Any] = json.JSONDecoder().raw_decode(output[begin:])[0]
    return found


def attached_statistics(jobs: Jobs) -> dict[str, Any]:
    """Return what the deployment says once each service of its broker is attached."""
    for _ in range(ATTEMPTS_MAX):
        statistics = in_output(jobs.run("python", "deploy/statistics.py"))
        attached = statistics["brokers"]["broker-a"]["service_clients"]["attached"]
        if all(attached.values()):
            return statistics
    raise AssertionError(f"not all attached: {attached}")


async def send(port: int, count: int) -> None:
    client = Client(f"127.0.0.1:{port}")
    try:
        for _ in range(count):
            answer = await client.send("jobs", b"body")
            assert answer.code == ResponseCode.SUCCESS
    finally:
        await client.close()


def accepts(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_broker_is_started_asked_and_stopped_by_jobs(jobs: Jobs, tmp_path: Path) -> None:
    name_server, broker = free_port(), free_port(-2, 1)
    ports = ["--namesrv-port", str(name_server), "--broker-port", str(broker)]
    store = ["--store", str(tmp_path / "store"), "--set", "mappedFileSizeCommitLog=1048576"]
    started = jobs.run("python", "deploy/start.py", *store, *ports, "--metrics-port", "0")
    assert f"broker-a 127.0.0.1:{broker}" in started

    asyncio.run(send(broker, 7))
    statistics = attached_statistics(jobs)
    assert statistics["brokers"]["broker-a"]["store"]["put_count"] == 7
    processes = set(statistics["supervisor"]["process_ids"].values())
    assert len(processes) == actors_count([STORE]) - 1, "each actor has a process of its own"

    assert "wakelog: stopped\n" in jobs.run("python", "deploy/stop.py")
    assert not accepts(broker)
    assert not accepts(name_server)
    assert not any(Path(f"/proc/{process}").exists() for process in processes)
    assert not (tmp_path / "store" / "abort").exists(), "an ordered stop takes the abort file away"
