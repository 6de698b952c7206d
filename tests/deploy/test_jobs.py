"""The three jobs in a Ray cluster: start ends and leaves actors, others find them by name."""

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
BINARIES = Path(sys.executable).parent


class Jobs(NamedTuple):
    """Submits to one cluster."""

    url: str
    runtime_env: Path
    environment: dict[str, str]

    def run(self, *words: str) -> str:
        """Run a job to its end and return what it printed."""
        command = [str(BINARIES / "ray"), "job", "submit", "--address", self.url]
        command += ["--runtime-env", str(self.runtime_env), "--working-dir", ".", "--"]
        outcome = subprocess.run(
            [*command, *words],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=JOB_SECONDS_MAX,
            check=False,
        )
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        return outcome.stdout


# A Ray that takes jobs, on the loopback interface, until its input ends.
_HEAD = """
import sys
import ray

workers = int(sys.argv[1])
context = ray.init("local", num_cpus=workers, include_dashboard=True, log_to_driver=False,
                   object_store_memory=80 << 20)
print(ray.get_runtime_context().gcs_address, context.dashboard_url, flush=True)
sys.stdin.read()
"""

STORE = StoreConfig(store_path_root="/store")


@pytest.fixture
def jobs(tmp_path: Path, short_path: Path) -> Iterator[Jobs]:
    """Yield a cluster with a job server; its machine has the packages already."""
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
        [sys.executable, "-c", _HEAD, str(actors_count([STORE]) + 1)],
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
            yield Jobs(f"http://{url}", path, environment)
            head.stdin.close()
            head.wait(JOB_SECONDS_MAX)
        finally:
            end_session(head.pid)


def in_output(output: str) -> dict[str, Any]:
    """Return the JSON that a job printed among the lines of Ray."""
    begin = output.index("\n{\n")
    found: dict[str, Any] = json.JSONDecoder().raw_decode(output[begin + 1 :])[0]
    return found


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
    # One job for two programs, since a job takes longer than either: each joins by itself.
    output = jobs.run("sh", "-c", "python deploy/statistics.py && python deploy/stop.py")
    statistics = in_output(output)
    of_broker = statistics["brokers"]["broker-a"]
    assert of_broker["store"]["put_count"] == 7
    assert all(of_broker["service_clients"]["attached"].values())
    processes = set(statistics["supervisor"]["process_ids"].values())
    assert len(processes) == actors_count([STORE]) - 1, "each actor has a process of its own"

    assert "wakelog: stopped\n" in output
    assert not accepts(broker)
    assert not accepts(name_server)
    assert not any(Path(f"/proc/{process}").exists() for process in processes)
    assert not (tmp_path / "store" / "abort").exists(), "an ordered stop takes the abort file away"
