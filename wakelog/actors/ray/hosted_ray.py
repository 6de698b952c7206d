"""A Ray that a Spark session hosts: its head beside Spark's driver, further nodes in Spark's tasks.

    with hosted_ray(worker_nodes=1) as cluster:             this process is connected to it
        with hosted_brokers(cluster, plan): ...             see `deploy.supervised`

`ray.util.spark.setup_ray_cluster` does the work. Some things are changed for it:

    token      every process gets one by its environment, however Spark's executors were started:
               without it Ray's nodes do not find each other. It is the user's (`RAY_AUTH_TOKEN`,
               `RAY_AUTH_TOKEN_PATH`), else a new one
    PATH       a node is started by the command `ray`, which is beside this Python
    head       awaited by polling; Ray checks once, after 20 s. What outlives the head is killed
    nodes      polled five times a second; Ray polls every 3 s
    ports      none of RocketMQ's: Ray draws the head's from a range that holds 9876
    dashboard  none: it would listen on every interface

Brokers live at the head: they stay with their store, and a task of Spark's may end at any moment.
Ray's nodes take slots of Spark's for as long as they live: leave one for Spark's own tasks.

Ray keeps two files of its own in /tmp, `ray_on_spark_*`, which every such cluster shares.

Source: ray.util.spark.cluster_init (2.60).
"""

import contextlib
import functools
import importlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from wakelog.actors.ray.fast_start import guard
from wakelog.actors.ray.fast_start.ray_import import HAS_NODES
from wakelog.actors.ray.head import OBJECT_STORE_BYTES
from wakelog.actors.ray.private_ray import (
    BROKER_ENVIRONMENT,
    RayFailed,
    end_after,
    handlers_kept,
    join,
    leave,
    prepare_driver,
    python_path,
    short_directory,
)
from wakelog.actors.transport.service_plan import memory_directory

HEAD_SECONDS_MAX: Final = 60.0
HEAD_POLL_SECONDS: Final = 0.1
NODES_POLL_SECONDS: Final = 0.2
END_SECONDS_MAX: Final = 20.0
"""The head ends its processes within 1 s, removes its files, and waits a little before each."""

NODE_MEMORY_BYTES: Final = 512 << 20
PORT_HOLD_SECONDS: Final = 1
"""How long the head locks the choice of ports on this machine; Ray's 10 s delay every node."""

ROCKETMQ_PORTS: Final = (9876, 10909, 10911, 10912)
_HOOK: Final = "RAY_ON_SPARK_START_HOOK"


class HostedRay(NamedTuple):
    """A Ray that a Spark session hosts.

    address: where Ray is reached.
    node_id: the head's.
    environment: what another process needs to join it.
    shared_directory: for watermarks and notifications; in memory, removed at the end.
    """

    address: str
    node_id: str
    environment: Mapping[str, str]
    shared_directory: Path


def start_hook() -> Any:
    """Return Ray's hooks for starting nodes in Spark's tasks; Ray imports this by name."""
    from ray.util.spark.start_hook_base import RayOnSparkStartHook

    make_hook: Any = RayOnSparkStartHook  # without types of its own
    hook = make_hook(is_global=False)
    hook.custom_environment_variables = node_environment
    return hook


def node_environment() -> dict[str, str]:
    """Return the variables of every process of this Ray."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": token(),
        HAS_NODES: "1",
        **BROKER_ENVIRONMENT,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        **python_path(),
    }


@functools.cache
def token() -> str:
    """Return the token of all clusters of this process: Ray reads it once."""
    given = os.environ.get("RAY_AUTH_TOKEN")
    if given:
        return given
    path = os.environ.get("RAY_AUTH_TOKEN_PATH")
    if path:
        with contextlib.suppress(OSError):
            return Path(path).expanduser().read_text().strip()
    return secrets.token_hex(32)


@contextlib.contextmanager
def hosted_ray(
    *,
    worker_nodes: int = 1,
    cpus_per_node: int = 1,
    node_memory_bytes: int = NODE_MEMORY_BYTES,
    object_store_bytes: int = OBJECT_STORE_BYTES,
) -> Iterator[HostedRay]:
    """Yield a Ray that the active session hosts, with this process connected to it.

    worker_nodes: as many of Spark's tasks, each of `cpus_per_node` slots.
    object_store_bytes: of a node; a caller with blocks of Ray Data needs more.
    Raises: RayFailed.
    """
    root = tempfile.mkdtemp(prefix="wakelog-", dir=short_directory())
    shared_directory = Path(tempfile.mkdtemp(prefix="wakelog-", dir=memory_directory()))
    environment = node_environment()
    kept = {name: os.environ.get(name) for name in (*environment, _HOOK, "RAY_ADDRESS")}
    head = None
    try:
        os.environ[_HOOK] = f"{__name__}.{start_hook.__name__}"
        prepare_driver(environment, is_plain=guard.untested_version() is not None)
        from ray.util.spark import cluster_init

        with _patched(cluster_init), handlers_kept():
            try:
                address, _ = cluster_init.setup_ray_cluster(
                    max_worker_nodes=worker_nodes,
                    num_cpus_worker_node=cpus_per_node,
                    num_gpus_worker_node=0,
                    memory_worker_node=node_memory_bytes,
                    memory_head_node=node_memory_bytes,
                    object_store_memory_worker_node=object_store_bytes,
                    object_store_memory_head_node=object_store_bytes,
                    head_node_options={"include_dashboard": False},
                    ray_temp_root_dir=root,
                )
            except (RuntimeError, ValueError) as error:
                raise RayFailed("could not be started by Spark", str(error)) from error
        active: Any = cluster_init
        head = active._active_ray_cluster.head_proc
        join(address)
        yield HostedRay(address, _head_node_id(), environment, shared_directory)
    finally:
        leave()
        if head is not None:
            processes = _processes_of(head)
            cluster_init.shutdown_ray_cluster()
            end_after(head, END_SECONDS_MAX)
            _end_left(processes)
        for directory in (root, str(shared_directory)):
            shutil.rmtree(directory, ignore_errors=True)
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextlib.contextmanager
def _patched(cluster_init: Any) -> Iterator[None]:
    """Change constants and functions of Ray for its start; see the module."""
    try:
        kept = {name: getattr(cluster_init, name) for name in _CHANGES}
    except AttributeError as error:
        reason = f"this Ray has no ray.util.spark.cluster_init.{error.name}: see docs/ray.md"
        raise RayFailed("cannot be hosted by Spark", reason) from None
    try:
        for name, change in _CHANGES.items():
            setattr(cluster_init, name, change(kept[name]))
        yield
    finally:
        for name, value in kept.items():
            setattr(cluster_init, name, value)


def _wait_port(is_in_use: Callable[[str, int], bool], host: str, port: int) -> bool:
    end = time.monotonic() + HEAD_SECONDS_MAX
    while not (found := is_in_use(host, port)) and time.monotonic() < end:
        time.sleep(HEAD_POLL_SECONDS)
    return found


def _other_port(draw: Callable[..., int], host: str, **options: Any) -> int:
    excluded = [*(options.pop("exclude_list", None) or []), *ROCKETMQ_PORTS]
    return draw(host, exclude_list=excluded, **options)


_CHANGES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "_RAY_HEAD_STARTUP_TIMEOUT": lambda _: 0,
    "_RAY_CLUSTER_STARTUP_PROGRESS_CHECKING_INTERVAL": lambda _: NODES_POLL_SECONDS,
    "_RAY_WORKER_NODE_STARTUP_INTERVAL": lambda _: PORT_HOLD_SECONDS,
    "is_port_in_use": lambda is_in_use: functools.partial(_wait_port, is_in_use),
    "get_random_unused_port": lambda draw: functools.partial(_other_port, draw),
}
"""Names of Ray, and what they become while it starts, made from what they are."""


def _head_node_id() -> str:
    import ray

    nodes: Any = ray.nodes  # without types of its own
    [head] = [node for node in nodes() if "node:__internal_head__" in node["Resources"]]
    return str(head["NodeID"])


def _processes_of(head: subprocess.Popen[str]) -> list[Any]:
    """Return the processes that the head has started, while they are still its children."""
    psutil: Any = importlib.import_module("psutil")
    try:
        found: list[Any] = psutil.Process(head.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found


def _end_left(processes: list[Any]) -> None:
    """Kill what outlives the head: a node's agents wait a minute for a head that is gone."""
    psutil: Any = importlib.import_module("psutil")
    # psutil recognises a process id that another process has by now.
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
