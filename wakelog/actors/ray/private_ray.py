"""A Ray of one's own for `wakelog up`: started, joined, and gone without a trace.

Several can run side by side on one machine. Each is reachable on the loopback interface only, with
a token of its own, keeps its files in a private directory, and takes a share of the ports
14000 to 14999 for its workers. The daemons run under `head.py`.

Who uses this Ray from outside (a second job that attaches to the actors by name) needs what
`environment` holds.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import select
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

import wakelog
from wakelog.actors.ray.fast_start.ray_import import import_ray
from wakelog.actors.ray.head import (
    LOOPBACK,
    PROCESS_END_SECONDS_MAX,
    HeadConfig,
    HeadReady,
    end_session,
)

NAMESPACE = "wakelog"
HAS_NODES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Whether Ray has nodes on several machines, which have to reach each other: "1" or "0"."""
SOON_TOLD_OF_DEATHS = {
    "RAY_timeout_ms_task_wait_for_death_info": "20",
    "RAY_core_worker_internal_heartbeat_ms": "100",
}
"""A call to an actor that has just died fails once its caller has looked, each second by default,
whether it has waited long enough, a second by default, to say what the actor died of. Nobody asks
that, and who is to be attached anew waits for it: Ray has the actor back in 0.2 s."""

OBJECT_STORE_BYTES = 80 << 20
"""Bodies never travel through Ray's object store; it takes no less than 75 MiB."""

START_SECONDS_MAX = 45.0
"""On two quiet cores a head is ready in 3 s; a machine under load gets this much."""

END_SECONDS_MAX = 15.0
"""A daemon is given 1 s to end by itself, and there are two."""

LOG_TAIL_LINES = 5
SOCKET_DIRECTORY_CHARACTERS_MAX = 40
"""Ray's socket paths add up to 66 characters to its directory; the system allows 107."""


class RayFailed(Exception):
    """Ray did not start, or did not answer."""

    def __init__(self, reason: str, log_tail: str = "") -> None:
        """Keep the `reason` and the last lines that Ray's head wrote."""
        self.reason = reason
        self.log_tail = log_tail
        super().__init__(f"Ray {reason}" + (f": {log_tail}" if log_tail else ""))


class RayCluster:
    """A running Ray. `stop` ends it; so does the death of the process that holds this object."""

    def __init__(
        self,
        *,
        worker_count: int,
        worker_port_count: int = 100,
        object_store_bytes: int = OBJECT_STORE_BYTES,
        dashboard_port: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Begin to start a Ray; `wait_ready` returns once it runs.

        worker_count: processes to start ahead, as many as there will be actors.
        dashboard_port: where jobs are taken; None for none, 0 for any port.
        environment: variables for every process of this Ray.
        """
        self.directory = Path(tempfile.mkdtemp(prefix="wakelog-", dir=short_directory()))
        shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.shared_directory = Path(tempfile.mkdtemp(prefix="wakelog-", dir=shared))
        self._config = HeadConfig(
            worker_count=worker_count,
            worker_port_count=worker_port_count,
            object_store_bytes=object_store_bytes,
            # A directory inside: Ray opens its own to everybody, and the token lies in this one.
            ray_directory=str(self.directory / "ray"),
            directories=(str(self.directory), str(self.shared_directory)),
            dashboard_port=dashboard_port,
        )
        token_path = self.directory / "token"
        token_path.touch(mode=0o600)
        token_path.write_text(secrets.token_hex(32))
        self.environment = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token_path),
            # Ray turns the loopback address into the host's, unless it believes that clusters of
            # several machines are not supported here.
            HAS_NODES: "0",
            **SOON_TOLD_OF_DEATHS,
        }
        # Without a name: the head removes its directories before anybody can read what it said.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        self._head = subprocess.Popen(
            [sys.executable, "-m", "wakelog.actors.ray.head", _encode(self._config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=self._head_environment(environment or {}),
            start_new_session=True,
        )
        self._ready: HeadReady | None = None

    @property
    def process_id(self) -> int:
        """The head's process id, which is the session id of every process of this Ray."""
        return self._head.pid

    @property
    def address(self) -> str:
        """Where Ray is reached."""
        assert self._ready is not None, "wait_ready comes first"
        return self._ready.address

    @property
    def node_id(self) -> str:
        """Ray's name for this machine."""
        assert self._ready is not None, "wait_ready comes first"
        return self._ready.node_id

    @property
    def dashboard_url(self) -> str | None:
        """Where jobs are taken, `host:port`; None without a dashboard."""
        assert self._ready is not None, "wait_ready comes first"
        return self._ready.dashboard_url

    @property
    def is_running(self) -> bool:
        """Whether the head lives; it ends when one of Ray's daemons does."""
        return self._head.poll() is None

    def wait_ready(self, seconds_max: float = START_SECONDS_MAX) -> None:
        """Return once Ray runs. Raises: RayFailed, after everything of it was removed."""
        assert self._head.stdout is not None
        end = time.monotonic() + seconds_max
        said = select.poll()
        said.register(self._head.stdout, select.POLLIN)
        line = b""
        while not line.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not said.poll(left * 1000):
                self._give_up(f"was not ready within {seconds_max:.0f} s")
            part = os.read(self._head.stdout.fileno(), 4096)
            if not part:
                self._give_up("could not be started")
            line += part
        self._ready = msgspec.json.decode(line, type=HeadReady)

    def connect(self, namespace: str = NAMESPACE) -> None:
        """Join this Ray as a driver; this process can be in one at a time."""
        join(self.address, self.environment, namespace)

    def stop(self) -> None:
        """End this Ray and return once nothing of it is left."""
        assert self._head.stdin is not None and self._head.stdout is not None
        self._head.stdin.close()  # the head takes the end of its input for the word to stop
        try:
            self._head.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._head.kill()
            self._head.wait(PROCESS_END_SECONDS_MAX)
        self._head.stdout.close()
        self._log.close()
        # A head that was killed has done none of this.
        end_session(self.process_id)
        for directory in self._config.directories:
            shutil.rmtree(directory, ignore_errors=True)

    def _give_up(self, reason: str) -> None:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        self.stop()
        said = [line for line in lines if line.strip()]
        raise RayFailed(reason, "\n".join(said[-LOG_TAIL_LINES:]))

    def _head_environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        quiet = {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_BACKEND_LOG_LEVEL": "warning",
            # Ray ends whoever takes most of a full memory, which may be the broker.
            "RAY_memory_monitor_refresh_ms": "0",
            # Its metrics go to an agent that does not run; ours are served by the Supervisor.
            "RAY_enable_metrics_collection": "0",
            "RAY_event_stats": "0",
            "RAY_task_events_report_interval_ms": "0",
            # No worker is kept for a task that never comes.
            "RAY_num_workers_soft_limit": "0",
            # numpy starts no thread: a process that runs some cannot be forked, and nothing here
            # multiplies matrices.
            "OPENBLAS_NUM_THREADS": "1",
            # The raylet connects to its own object store before that listens, every second time,
            # and then would sleep a second. As many tries as make Ray's 10 s.
            "RAY_raylet_client_connect_timeout_milliseconds": "10",
            "RAY_raylet_client_num_connect_attempts": "1000",
        }
        inherited = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
        return {**inherited, **python_path(), **quiet, **self.environment, **extra}


def join(address: str, environment: Mapping[str, str], namespace: str = NAMESPACE) -> None:
    """Connect this process, as a driver, to the Ray at `address`. Raises: RayFailed."""
    import_with(environment)
    import ray
    import ray._private.worker as worker

    # It tells of each worker that died, between whatever this process prints; Supervisors log that.
    worker.print_to_stdstream = lambda *_, **__: None
    has_nodes = environment.get(HAS_NODES) == "1"
    own_address: dict[str, Any] = {} if has_nodes else {"_node_ip_address": LOOPBACK}
    try:
        with handlers_kept():
            ray.init(
                address=address,
                namespace=namespace,
                log_to_driver=False,
                logging_level=logging.ERROR,
                **own_address,
            )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RayFailed("does not answer", str(error)) from error


def import_with(environment: Mapping[str, str]) -> None:
    """Let Ray see the variables that a cluster needs, whether or not it was imported before."""
    os.environ.update(environment)
    import_ray()
    import ray._private.ray_constants as constants
    import ray._raylet as raylet

    # Both are read from the environment when Ray is imported, which may have been long ago.
    constants.ENABLE_RAY_CLUSTER = environment.get(HAS_NODES) == "1"
    config: Any = raylet
    config.Config.initialize("")


@contextlib.contextmanager
def handlers_kept() -> Iterator[None]:
    """Put back the signal handlers that Ray replaces by its own, which end a driver at once.

    For the main thread; any other may not touch handlers, and Ray leaves them alone there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            if handler is not None:  # None: not installed by Python, and so not ours to put back
                signal.signal(number, handler)


def leave() -> None:
    """Disconnect this process from the Ray it joined, if it did."""
    import ray

    ray.shutdown()


def _encode(config: HeadConfig) -> str:
    return msgspec.json.encode(config).decode()


def python_path() -> dict[str, str]:
    """Let Ray's workers import wakelog from where this process did, installed or not."""
    root = str(Path(wakelog.__file__).parent.parent)
    if root in site.getsitepackages():
        return {}
    existing = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": root if existing is None else f"{root}{os.pathsep}{existing}"}


def short_directory() -> str:
    """Return where a directory of Ray's can be: its sockets' paths have to fit the system."""
    directory = tempfile.gettempdir()
    return directory if len(directory) <= SOCKET_DIRECTORY_CHARACTERS_MAX - 21 else "/tmp"
