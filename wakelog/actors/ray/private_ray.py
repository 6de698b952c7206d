"""A private Ray for `wakelog up`: started, joined, and removed without a trace.

Several run side by side on one machine. Each is reachable on the loopback interface only, with a
token of its own, and keeps its files in a private directory. Its daemons run under `head`, which
starts them the fast way (`fast_start`) or by `ray.init` (`plain_start`). The head of `wakelog up`
is a fork of it (`fast_start/forked_head`), any other a program.

Another process that joins this Ray, such as a second job, needs the variables in `environment`.
"""

import contextlib
import importlib
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
from functools import partial
from pathlib import Path

import msgspec

import wakelog
from wakelog.actors.ray.fast_start import forked_head, guard
from wakelog.actors.ray.fast_start.forked_head import ForkedHead
from wakelog.actors.ray.fast_start.ray_import import (
    HAS_NODES,
    driver_of,
    import_ray,
    import_with,
)
from wakelog.actors.ray.head import (
    PROCESS_END_SECONDS_MAX,
    HeadConfig,
    HeadReady,
    end_session,
    head_command,
    run_fast_head,
)
from wakelog.actors.ray.options import NAMESPACE
from wakelog.actors.transport.service_plan import memory_directory
from wakelog.typed_values import decode_json

EARLY_DEATH_REPORTS = {
    "RAY_timeout_ms_task_wait_for_death_info": "20",
    "RAY_core_worker_internal_heartbeat_ms": "100",
}
"""A call to an actor that has just died fails after two waits, each a second by default: for the
caller's periodic check, and for the cause of death. The cause is not used here, and a service is
attached again only after the call has failed. Ray has the actor back in 0.2 s."""

DRIVER_ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    # Ray listens on the host's address unless it assumes that clusters of several machines are not
    # supported here.
    HAS_NODES: "0",
    **EARLY_DEATH_REPORTS,
}
"""For every process that joins this Ray; the path of its token comes in addition."""

BROKER_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # When memory is full, Ray ends the process that takes most: it may be the broker.
    "RAY_memory_monitor_refresh_ms": "0",
    # Its metrics go to an agent that does not run; the Supervisor serves those of wakelog.
    "RAY_enable_metrics_collection": "0",
    # Ray has its workers yield to every other process (15). 4.9.3's broker does not: beside two
    # busy programs on two cores it would take in 22 to 38 % fewer messages.
    "RAY_worker_niceness": "0",
}
"""For the processes of every Ray that wakelog starts."""

HEAD_ENVIRONMENT = {
    **BROKER_ENVIRONMENT,
    "RAY_BACKEND_LOG_LEVEL": "warning",
    "RAY_event_stats": "0",
    "RAY_task_events_report_interval_ms": "0",
    # No worker is kept for a task that never comes, nor started for the head's own job.
    "RAY_num_workers_soft_limit": "0",
    "RAY_prestart_worker_first_driver": "0",
    # numpy starts no threads: a process that has some cannot be forked, and nothing here
    # multiplies matrices.
    "OPENBLAS_NUM_THREADS": "1",
    # Every second time, the raylet connects to its own object store before that listens, and
    # would then sleep a second. So many tries make up Ray's 10 s.
    "RAY_raylet_client_connect_timeout_milliseconds": "10",
    "RAY_raylet_client_num_connect_attempts": "1000",
}

START_SECONDS_MAX = 45.0
"""On two quiet cores a head is ready in 3 s; a machine under load gets this much."""

END_SECONDS_MAX = 15.0
"""A daemon is given 1 s to end by itself, and there are two."""

LOG_TAIL_LINES = 5
SOCKET_DIRECTORY_CHARACTERS_MAX = 40
"""Ray's socket paths add up to 66 characters to its directory; the system allows 107."""


RUNNING_NAME = "running.json"
"""In the directory of a Ray that runs: how another process of the same user joins it."""


Head = subprocess.Popen[bytes] | ForkedHead
"""The process of a head, and the pipes to it."""


class RunningRay(msgspec.Struct, frozen=True):
    """How to join a Ray; `prepare_driver` takes `environment`, `join` the address.

    name_server: by which its user knows it, as clients get it.
    """

    address: str
    environment: dict[str, str]
    is_plain: bool
    name_server: str = ""


class RayFailed(Exception):
    """Ray did not start, or did not answer."""

    def __init__(self, reason: str, detail: str = "") -> None:
        """detail: Ray's own words, such as the last lines that its head wrote."""
        super().__init__(f"Ray {reason}" + (f": {detail}" if detail else ""))


class RayCluster:
    """A running Ray. `stop` ends it; so does the death of the process that holds this object."""

    def __init__(
        self,
        *,
        worker_count: int,
        plain_because: str | None = None,
        name_server: str = "",
        forks: bool = False,
    ) -> None:
        """Begin to start a Ray; `wait_ready` returns once it runs.

        worker_count: processes to start ahead, as many as there will be actors.
        plain_because: why Ray is started by `ray.init`; None for the fast start if it can be used.
        name_server: see `RunningRay`.
        forks: whether this process may import Ray now, and be forked for the head: `wakelog up`.
        """
        self._name_server = name_server
        inherited = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
        inherited |= python_path() | HEAD_ENVIRONMENT | DRIVER_ENVIRONMENT
        plain_because = plain_because or guard.untested_version()
        forks = forks and plain_because is None and forked_head.can_fork()
        if forks:  # before there is a directory, which would outlive a kill
            plain_because = forked_head.import_for_workers(inherited)
        self.directory = Path(tempfile.mkdtemp(prefix="wakelog-", dir=short_directory()))
        self.shared_directory = Path(tempfile.mkdtemp(prefix="wakelog-", dir=memory_directory()))
        self._config = HeadConfig(
            worker_count=worker_count,
            directories=(str(self.directory), str(self.shared_directory)),
            plain_because=plain_because,
        )
        token_path = self.directory / "token"
        token_path.touch(mode=0o600)
        token_path.write_text(secrets.token_hex(32))
        self.environment = {**DRIVER_ENVIRONMENT, "RAY_AUTH_TOKEN_PATH": str(token_path)}
        if forks:
            os.environ.update(self.environment)
        # Without a name: the head removes its directories before its output is read.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        environment = inherited | self.environment
        self._head: Head
        if forks and plain_because is None:
            run = partial(run_fast_head, self._config)
            self._head = ForkedHead(run, environment, self._log)
        else:
            self._head = subprocess.Popen(
                head_command(self._config),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=environment,
                start_new_session=True,
            )
        self.ready: HeadReady

    @property
    def process_id(self) -> int:
        """The head's process id, which is the session id of every process of this Ray."""
        return self._head.pid

    @property
    def is_running(self) -> bool:
        """Whether the head lives; it ends when one of Ray's daemons does."""
        return self._head.poll() is None

    def import_ray(self) -> None:
        """Import Ray, which takes as long as starting its first daemons: both happen at once."""
        if "ray" not in sys.modules:
            # The head may turn to the plain start: Ray reads the environment while it is imported.
            os.environ.update(self.environment)
        if self._config.plain_because is None:
            import_ray()
        else:
            importlib.import_module("ray")

    def wait_ready(self) -> None:
        """Import Ray, and return once it runs and `ready` says where.

        Raises: RayFailed, after everything of this Ray was removed.
        """
        assert self._head.stdout is not None
        end = time.monotonic() + START_SECONDS_MAX
        self.import_ray()
        said = select.poll()
        said.register(self._head.stdout, select.POLLIN)
        line = b""
        while not line.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not said.poll(left * 1000):
                self._give_up(f"was not ready within {START_SECONDS_MAX:.0f} s")
            part = os.read(self._head.stdout.fileno(), 4096)
            if not part:
                self._give_up("could not be started")
            line += part
        self.ready = decode_json(line, HeadReady)
        running = RunningRay(
            self.ready.address,
            self.environment,
            self.ready.plain_because is not None,
            self._name_server,
        )
        unfinished = self.directory / f"{RUNNING_NAME}.new"
        unfinished.write_bytes(msgspec.json.encode(running))
        unfinished.rename(self.directory / RUNNING_NAME)

    def connect(self) -> None:
        """Join this Ray as a driver; this process can be in one at a time."""
        prepare_driver(self.environment, is_plain=self.ready.plain_because is not None)
        node_id = self.ready.node_id
        with driver_of(node_id) if node_id else contextlib.nullcontext():
            join(self.ready.address)

    def stop(self) -> None:
        """End this Ray and return once nothing of it is left."""
        assert self._head.stdin is not None and self._head.stdout is not None
        self._head.stdin.close()  # the head ends at the end of its input
        end_after(self._head, END_SECONDS_MAX)
        self._head.stdout.close()
        self._log.close()
        # A head that was killed has not cleaned up.
        end_session(self.process_id)
        for directory in self._config.directories:
            shutil.rmtree(directory, ignore_errors=True)

    def _give_up(self, reason: str) -> None:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        self.stop()
        said = [line for line in lines if line.strip()]
        raise RayFailed(reason, "\n".join(said[-LOG_TAIL_LINES:]))


def running_rays() -> list[RunningRay]:
    """Return every Ray of this user and this temporary directory that `RayCluster` started."""
    found = []
    for path in sorted(Path(short_directory()).glob(f"wakelog-*/{RUNNING_NAME}")):
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            if path.stat().st_uid == os.getuid():
                found.append(decode_json(path.read_bytes(), RunningRay))
    return found


def prepare_driver(environment: Mapping[str, str], *, is_plain: bool = False) -> None:
    """Set the variables by which this process can join a Ray, and have Ray see them.

    is_plain: change nothing in Ray, which must not have been imported with another environment.
    """
    if is_plain:
        os.environ.update(environment)
    else:
        import_with(environment)


def join(address: str) -> None:
    """Connect this process, which is prepared as a driver, to a Ray. Raises: RayFailed."""
    import ray

    try:
        with handlers_kept():
            ray.init(
                address=address,
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RayFailed("does not answer", str(error)) from error


@contextlib.contextmanager
def handlers_kept() -> Iterator[None]:
    """Restore the signal handlers that Ray replaces by its own, which end a driver at once.

    Ray replaces them in the main thread only, and only there can they be restored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            if handler is not None:  # None: not installed by Python
                signal.signal(number, handler)


def end_after(head: Head, seconds: float) -> None:
    """Return once a head that is ending has ended; kill it after so long."""
    try:
        head.wait(seconds)
    except subprocess.TimeoutExpired:
        head.kill()
        head.wait(PROCESS_END_SECONDS_MAX)


def leave() -> None:
    """Disconnect this process from the Ray it joined, if it did."""
    import ray

    ray.shutdown()


def python_path() -> dict[str, str]:
    """Return the variable by which Ray's workers import wakelog from where this process did."""
    root = str(Path(wakelog.__file__).parent.parent)
    if root in site.getsitepackages():
        return {}
    existing = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": root if existing is None else f"{root}{os.pathsep}{existing}"}


def short_directory() -> str:
    """Return where a directory of Ray's can be: the system limits the length of socket paths."""
    directory = tempfile.gettempdir()
    return directory if len(directory) <= SOCKET_DIRECTORY_CHARACTERS_MAX - 21 else "/tmp"
