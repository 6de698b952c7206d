"""The template of workers: a process that has imported what every actor needs, and forks.

A Python process that imports Ray and wakelog takes 1.5 s of CPU and 60 MB, and a broker has ten. So
the head of this Ray forks a template, which imports once. Ray's daemons run `worker_start` for each
worker, and `worker_start` has the template fork. A fork takes some milliseconds and shares the
memory. For the same reason a service that died is back sooner.

    raylet -> worker_start --- arguments, environment, descriptors ---> template -> fork = worker
                           <-- FORKED, or the end of the connection ---

A worker is started by Ray's own script whenever a fork would differ from it. That is so when the
template is gone or runs threads, with another Python, or when a variable differs that is read while
importing.

Ray reads its configuration from the environment when it is imported. Two variables of it belong to
a worker. `prepare_import` sets them for the import: no job, so that the worker takes any job, and
the head as the process with which a worker ends. The head ends with the raylet.

Invariants:
- the template runs one thread: a fork copies no other.
- a worker has no descriptor of the head or of the template except standard error.

Source: ray/_private/workers/default_worker.py, ray/core_worker/core_worker.cc (2.60).
"""

import contextlib
import gc
import importlib
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Iterator, Mapping

import msgspec

from wakelog.actors.ray.fast_start.guard import PRIVATE_MODULES
from wakelog.actors.ray.fast_start.ray_import import (
    import_ray,
    leave_out_disassembly,
    leave_out_traces,
    put_off_picklers,
)
from wakelog.actors.ray.fast_start.worker_start import FORKED, SOCKET_VARIABLE, worker_script
from wakelog.actors.ray.options import TARGETS
from wakelog.telemetry.lean_import import uncollected

NO_JOB_ID = "ffffffff"
"""What Ray calls the job of a worker that it starts ahead."""

REQUEST_SECONDS_MAX = 5.0
"""The client writes its request at once; one that was stopped must not block the others."""

REQUEST_BYTES_MAX = 1 << 20
BACKLOG_MAX = 128

_OF_A_WORKER = ("RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_LD_PRELOAD_ON_WORKERS")
"""What the raylet adds to the environment of each worker; the last is for the raylet itself."""

_READ_WHILE_IMPORTING = ("RAY_", "PYTHON", "LD_")


@contextlib.contextmanager
def prepare_import(head_process_id: int) -> Iterator[None]:
    """Set the environment of a worker while Ray is imported."""
    assert "ray" not in sys.modules, "too late: Ray has read its environment"
    preset = {"RAY_JOB_ID": NO_JOB_ID, "RAY_RAYLET_PID": str(head_process_id)}
    os.environ.update(preset)
    try:
        yield
    finally:
        for name in preset:
            del os.environ[name]


def listen(directory: str) -> socket.socket:
    """Return the template's end of the socket, and set the variable by which workers find it."""
    path = os.path.join(directory, "worker_template")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(BACKLOG_MAX)
    os.environ[SOCKET_VARIABLE] = path
    return listener


def import_actors() -> None:
    """Import what a worker imports before its actor is made."""
    import_ray()
    leave_out_disassembly()
    leave_out_traces()
    put_off_picklers()
    for module in (*PRIVATE_MODULES, "uvloop", "zoneinfo"):
        importlib.import_module(module)
    for target in TARGETS.values():
        if target.startswith("wakelog."):
            importlib.import_module(target.partition(":")[0])


def fork_template(directory: str) -> bool:
    """Fork the template of workers; return True in each worker that it forks, False in the head.

    The template ends when the head does.
    """
    listener = listen(directory)
    lifeline, held = os.pipe()  # no process but the head holds the other end
    if os.fork() != 0:
        listener.close()
        os.close(lifeline)
        return False
    os.close(held)
    # A reader of the head's output must see its end when the head ends.
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(nothing, standard)
    os.close(nothing)
    is_worker = serve(listener, lifeline)
    if not is_worker:
        os._exit(0)
    return True


def serve(listener: socket.socket, lifeline: int) -> bool:
    """Fork a worker for each request; return True in the worker, False when `lifeline` ends.

    lifeline: the reading end of a pipe whose other end the head holds.
    """
    with uncollected():
        import_actors()
    if len(os.listdir("/proc/self/task")) > 1:  # threads of libraries included
        sys.stderr.write("a module has started a thread while imported: no worker is forked\n")
        return False
    environment = dict(os.environ)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for workers: no zombies
    gc.freeze()  # so that collections in the workers do not copy the shared pages
    while lifeline not in select.select([listener.fileno(), lifeline], [], [])[0]:
        connection, _ = listener.accept()
        with connection:
            taken = fork_for(connection, environment)
        if taken is not None:
            listener.close()
            os.close(lifeline)
            prepare_worker(*taken)
            return True
    return False


def fork_for(
    connection: socket.socket, environment: Mapping[str, str]
) -> "tuple[WorkerRequest, list[int]] | None":
    """Fork a worker. Return its request in the worker, None in the template."""
    descriptors: list[int] = []
    connection.settimeout(REQUEST_SECONDS_MAX)
    try:
        data, descriptors, _, _ = socket.recv_fds(connection, REQUEST_BYTES_MAX, 3)
        while len(data) <= REQUEST_BYTES_MAX and (part := connection.recv(REQUEST_BYTES_MAX)):
            data += part
        if len(data) > REQUEST_BYTES_MAX:
            raise ValueError("a request that is too long")
        request = WorkerRequest.read(data)
        if len(descriptors) == 3 and is_fork_enough(request, environment):
            if os.fork() == 0:
                return request, descriptors
            connection.send(FORKED)
    except (OSError, ValueError):
        pass  # the client runs Ray's own script
    close_all(descriptors)
    return None


class WorkerRequest(msgspec.Struct, frozen=True):
    """What a worker is started with: Ray's arguments, and the environment of the process."""

    arguments: list[str]
    executable: str
    environment: dict[str, str]
    directory: str
    leads_group: bool

    @classmethod
    def read(cls, data: bytes) -> "WorkerRequest":
        """Read the fields that `worker_start` writes. Raises: ValueError."""
        leads_group, executable, directory, count, *rest = map(os.fsdecode, data[1:].split(b"\0"))
        arguments, pairs = rest[: int(count)], rest[int(count) :]
        if not arguments or leads_group not in ("0", "1"):
            raise ValueError("a request without a script, or of another form")
        environment = {name: value for name, _, value in (one.partition("=") for one in pairs)}
        return cls(arguments, executable, environment, directory, leads_group == "1")


def close_all(descriptors: list[int]) -> None:
    """Close descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)


def prepare_worker(request: WorkerRequest, descriptors: list[int]) -> None:
    """Give this process, a fork, the streams, the environment and the arguments of the worker."""
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for standard, descriptor in enumerate(descriptors):
        os.dup2(descriptor, standard)
    close_all(descriptors)
    if request.leads_group:
        os.setpgid(0, 0)
    os.chdir(request.directory)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.argv[:] = request.arguments


def is_fork_enough(request: WorkerRequest, template: Mapping[str, str]) -> bool:
    """Return whether a fork of the template, with that environment, equals a new process."""
    return request.executable == sys.executable and all(
        request.environment.get(name) == template.get(name)
        for name in {*request.environment, *template}
        if name.startswith(_READ_WHILE_IMPORTING) and name not in _OF_A_WORKER
    )


def run_worker() -> None:
    """Run Ray's own script in a process in which `serve` has returned True."""
    sys.argv[0] = worker_script()
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(sys.argv[0], run_name="__main__")
