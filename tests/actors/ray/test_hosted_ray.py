"""A Ray that Spark hosts: what its nodes get, its ports, and what is changed of Ray for its start.

That it runs, with a broker in it, is `tests/spark/test_ray_on_spark.py`.
"""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from wakelog.actors.ray import hosted_ray
from wakelog.actors.ray.fast_start.ray_import import import_ray
from wakelog.actors.ray.hosted_ray import (
    ROCKETMQ_PORTS,
    node_environment,
    start_hook,
    token,
)
from wakelog.actors.ray.private_ray import RayFailed


@pytest.fixture(autouse=True)
def _no_token_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    token.cache_clear()


def test_every_node_gets_one_token_and_finds_ray() -> None:
    first, second = node_environment(), start_hook().custom_environment_variables()
    assert first == second
    assert first["RAY_AUTH_MODE"] == "token" and len(first["RAY_AUTH_TOKEN"]) == 64
    assert first["PATH"].split(":")[0] == str(Path(sys.executable).parent)


def test_the_users_token_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "token"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(path))
    made = token()
    token.cache_clear()
    path.write_text("of a file\n")
    assert token() == "of a file" != made
    token.cache_clear()
    monkeypatch.setenv("RAY_AUTH_TOKEN", "of the environment")
    assert token() == "of the environment"


def test_ray_is_changed_for_its_start_only() -> None:
    drawn: list[tuple[str, list[int]]] = []

    def draw(host: str, *, exclude_list: list[int]) -> int:
        drawn.append((host, exclude_list))
        return 9000

    checks = iter([False, False, True])
    ray = SimpleNamespace(
        _RAY_HEAD_STARTUP_TIMEOUT=20,
        _RAY_CLUSTER_STARTUP_PROGRESS_CHECKING_INTERVAL=3,
        _RAY_WORKER_NODE_STARTUP_INTERVAL=10,
        is_port_in_use=lambda host, port: next(checks),
        get_random_unused_port=draw,
    )
    before = dict(vars(ray))
    with hosted_ray._patched(ray):
        assert ray._RAY_HEAD_STARTUP_TIMEOUT == 0
        assert ray._RAY_CLUSTER_STARTUP_PROGRESS_CHECKING_INTERVAL < 1
        assert ray.is_port_in_use("host", 1)
        assert ray.get_random_unused_port("host", exclude_list=[9001]) == 9000
        ray.get_random_unused_port("host")
    assert vars(ray) == before
    assert drawn == [("host", [9001, *ROCKETMQ_PORTS]), ("host", [*ROCKETMQ_PORTS])]


def test_a_ray_without_a_name_that_is_changed_is_refused() -> None:
    with (
        pytest.raises(RayFailed, match="_RAY_HEAD_STARTUP_TIMEOUT"),
        hosted_ray._patched(SimpleNamespace()),
    ):
        pass


def test_the_wait_for_a_head_has_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosted_ray, "HEAD_SECONDS_MAX", 0.0)
    assert not hosted_ray._wait_port(lambda host, port: False, "host", 1)


@pytest.mark.process
@pytest.mark.slow
def test_processes_that_outlive_their_head_are_killed() -> None:
    import_ray()
    command = ["sh", "-c", "sleep 100 & echo started; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as head:
        assert head.stdout is not None and head.stdout.readline() == "started\n"
        [left] = hosted_ray._processes_of(head)
        head.kill()
        head.wait()
        assert left.is_running()
        hosted_ray._end_left([left])
        assert head.stdout.read() == ""  # no process holds its other end any more
    assert hosted_ray._processes_of(head) == []
