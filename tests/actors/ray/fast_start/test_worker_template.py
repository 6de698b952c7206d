"""The template forks what Ray would have started, and nothing that would be different."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wakelog.actors.ray.fast_start import worker_start
from wakelog.actors.ray.fast_start.worker_start import FORKED, SOCKET_VARIABLE
from wakelog.actors.ray.fast_start.worker_template import (
    NO_JOB_ID,
    WorkerRequest,
    is_fork_enough,
    prepare_import,
)
from wakelog.actors.ray.private_ray import RayCluster

CPU_SECONDS_MAX = 0.5
LONG = 1 << 20

TEMPLATE = {"RAY_AUTH_MODE": "token", "PYTHONPATH": "/here", "TMPDIR": "/tmp"}


@pytest.mark.parametrize(
    ("change", "is_enough"),
    [
        ({}, True),
        ({"RAY_JOB_ID": "01000000", "RAY_RAYLET_PID": "42"}, True),
        ({"TMPDIR": "/elsewhere", "COLOUR": "blue"}, True),
        ({"PYTHONPATH": "/there"}, False),
        ({"RAY_AUTH_MODE": None}, False),
        ({"RAY_health_check_period_ms": "1"}, False),
        ({"LD_LIBRARY_PATH": "/lib"}, False),
    ],
)
def test_only_a_worker_that_would_import_the_same_is_forked(
    change: dict[str, str | None], is_enough: bool
) -> None:
    environment = {key: value for key, value in (TEMPLATE | change).items() if value is not None}
    request = WorkerRequest([], sys.executable, environment, directory="/", leads_group=True)
    assert is_fork_enough(request, TEMPLATE) is is_enough
    other_python = msgspec.structs.replace(request, executable="/usr/bin/python2")
    assert not is_fork_enough(other_python, TEMPLATE)


def test_the_variables_of_a_worker_are_set_while_importing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    with prepare_import(42):
        assert os.environ["RAY_JOB_ID"] == NO_JOB_ID
        assert os.environ["RAY_RAYLET_PID"] == "42"
    assert "RAY_JOB_ID" not in os.environ and "RAY_RAYLET_PID" not in os.environ


# A template that imports nothing, and whose workers print what they got.
_HOST = """
import os, sys
from wakelog.actors.ray.fast_start import worker_template
worker_template.import_actors = lambda: None
lifeline, held = os.pipe()
listener = worker_template.listen(sys.argv[1])
if os.fork() == 0:
    os.close(held)
    if worker_template.serve(listener, lifeline):
        names = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                 if fd not in "012" and os.path.exists(f"/proc/self/fd/{fd}")]
        print(sys.argv, os.environ["COLOUR"], os.getcwd(), os.getpid() == os.getpgrp(),
              [name for name in names if not name.startswith("/proc")], flush=True)
    os._exit(0)
print("listening", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def template(short_path: Path) -> Iterator[Path]:
    """Yield the socket of a template that runs."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOST, str(short_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as host:
        assert host.stdout is not None and host.stdout.readline() == b"listening\n"
        yield short_path / "worker_template"


def start_worker(path: Path, directory: Path, **changes: str) -> "subprocess.Popen[bytes]":
    """Run what the raylet runs, in a group of its own; `--help` ends Ray's own worker early."""
    return subprocess.Popen(
        [sys.executable, *worker_start.FLAGS, worker_start.__file__, "--help"],
        stdout=subprocess.PIPE,
        env={**os.environ, SOCKET_VARIABLE: str(path), **changes},
        cwd=directory,
        process_group=0,
    )


@pytest.mark.process
def test_a_fork_takes_over_arguments_environment_and_streams(
    template: Path, tmp_path: Path
) -> None:
    for colour in ("blue", "green"):
        with start_worker(template, tmp_path, COLOUR=colour) as starter:
            output, _ = starter.communicate(timeout=20)
        arguments = [worker_start.__file__, "--help"]
        assert output.decode() == f"{arguments} {colour} {tmp_path} True []\n"
        assert starter.returncode == 0


@pytest.mark.process
def test_a_template_serves_after_a_malformed_request(template: Path, tmp_path: Path) -> None:
    short = b" 0\0/python\0/\0"
    for nonsense in (b"", b"nonsense", short + b"0", short + b"x\0x", short + b"1\0" + b"x" * LONG):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(template))
            connection.sendall(nonsense)
            connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):  # it was not read to its end
                assert connection.recv(1) != FORKED
    with start_worker(template, tmp_path, COLOUR="red") as starter:
        assert b"red" in starter.communicate(timeout=20)[0]


@pytest.mark.process
@pytest.mark.slow
def test_a_worker_that_cannot_be_forked_is_started_by_rays_own_script(
    template: Path, tmp_path: Path
) -> None:
    for path, change in ((template, {"RAY_COLOUR": "red"}), (tmp_path / "absent", {})):
        with start_worker(path, tmp_path, COLOUR="red", **change) as starter:
            assert b"--node-manager-port" in starter.communicate(timeout=60)[0]


@pytest.mark.ray
@pytest.mark.slow
def test_the_workers_of_a_private_ray_are_forks_of_one_process(ray_cluster: RayCluster) -> None:
    import ray

    class Anyone:
        def identify(self) -> tuple[int, int, str, float]:
            worker_id = ray.get_runtime_context().get_worker_id()
            return os.getpid(), os.getppid(), worker_id, time.process_time()

    make: Any = ray.remote(num_cpus=0)(Anyone)
    two = [make.remote() for _ in range(2)]
    said = ray.get([one.identify.remote() for one in two])
    (one_id, parent_id, one_worker, _), (two_id, other_parent_id, two_worker, _) = said
    assert parent_id == other_parent_id != ray_cluster.process_id
    assert os.getsid(parent_id) == ray_cluster.process_id
    assert one_id != two_id and one_worker != two_worker
    # Of CPU, which a busy machine leaves alone: 0.1 s here, and 0.8 at least if it had to import.
    assert all(seconds < CPU_SECONDS_MAX for *_, seconds in said)
