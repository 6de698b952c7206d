"""The head of a private Ray: the process that starts Ray's daemons and ends them.

`private_ray` starts it as the leader of a new session, for two reasons. Ctrl-C in a terminal must
not reach Ray before the actors have stopped in order. And every process of this Ray stays in the
session, so that the head can end all of them and no other Ray's. (`ray stop` ends every Ray of the
machine.)

    read the configuration    from the command line, unless this is a fork of `up`
    start the daemons         the fast way, or by `ray.init` (`plain_start`)
    print one line of JSON    the address, once they can be joined
    wait                      until standard input ends, SIGTERM comes, or a daemon dies
    end the daemons           and every process of the session, and the directories

Standard input ends when the process that started the head closes it or dies. A broker does not
outlive its Ray: the head ends as soon as one daemon has died.

Source: ray.scripts.scripts.start (2.60).
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wakelog.actors.ray.fast_start import guard
from wakelog.telemetry.lean_import import import_structlog
from wakelog.typed_values import decode_json

if TYPE_CHECKING:
    from wakelog.actors.ray.fast_start.node import FastRay
    from wakelog.actors.ray.plain_start import PlainRay

OBJECT_STORE_BYTES = 80 << 20
"""Bodies never travel through Ray's object store; it takes no less than 75 MiB."""

DAEMONS_CHECK_SECONDS = 1.0
"""How often the head checks its daemons; it delays only the end after one has died."""

PROCESS_END_SECONDS_MAX = 5.0
"""How long a killed process may take to be gone: it may be in a write that the disk delays."""


class HeadConfig(msgspec.Struct, frozen=True):
    """What a head is started with.

    worker_count: processes that Ray may start at once, as many as there will be actors.
    directories: removed at the end; Ray keeps its session in a directory of the first.
    plain_because: why Ray is started by `ray.init`, None for the fast start.
    """

    worker_count: int
    directories: tuple[str, ...]
    plain_because: str | None = None


class HeadReady(msgspec.Struct, frozen=True):
    """The line that the head prints once its daemons run.

    plain_because: why Ray was started by `ray.init`, None after the fast start.
    node_id: Ray's name for the node, "" after `ray.init`.
    """

    address: str
    plain_because: str | None
    node_id: str = ""


def start_ray(config: HeadConfig) -> FastRay | PlainRay:
    """Start the daemons, and say so once they can be joined. Raises: whatever Ray raises."""
    # Ray makes its own directory readable for all users, and the token is beside it.
    directory = f"{config.directories[0]}/ray"

    def announce(address: str, node_id: str) -> None:
        line = msgspec.json.encode(HeadReady(address, config.plain_because, node_id))
        sys.stdout.write(line.decode() + "\n")
        sys.stdout.flush()

    if config.plain_because is None:
        from wakelog.actors.ray.fast_start.node import FastRay

        return FastRay(
            worker_count=config.worker_count,
            object_store_bytes=OBJECT_STORE_BYTES,
            directory=directory,
            announce=announce,
        )
    from wakelog.actors.ray.plain_start import PlainRay

    started = PlainRay(
        worker_count=config.worker_count,
        object_store_bytes=OBJECT_STORE_BYTES,
        directory=directory,
    )
    signal.signal(signal.SIGTERM, _raise_exit)  # ray.init has put its own handler there
    announce(started.address, "")
    return started


def wait_end(started: FastRay | PlainRay) -> int:
    """Wait until standard input ends (0) or a daemon has died (1)."""
    while not started.has_ended():
        readable, _, _ = select.select([sys.stdin], [], [], DAEMONS_CHECK_SECONDS)
        if readable and not os.read(sys.stdin.fileno(), 4096):
            return 0
    return 1


def session_processes(session_id: int) -> list[int]:
    """Return the ids of the processes of a session, its leader and zombies included."""
    found = []
    for process_id in _process_ids():
        with contextlib.suppress(OSError):
            if os.getsid(process_id) == session_id:
                found.append(process_id)
    return found


def end_session(session_id: int) -> None:
    """Kill the processes of a session, this one excepted, and wait until they are gone."""
    end = time.monotonic() + PROCESS_END_SECONDS_MAX
    while True:
        others = [pid for pid in session_processes(session_id) if pid != os.getpid()]
        if not others or time.monotonic() > end:
            return
        for process_id in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        time.sleep(0.01)


def _process_ids() -> list[int]:
    if os.path.isdir("/proc/self"):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    with os.popen("ps -axo pid=") as listing:
        return [int(line) for line in listing]


def _raise_exit(_signal: int, _frame: object) -> None:
    raise SystemExit(0)


def run_head(config: HeadConfig) -> int:
    """Run a head until it has to end; return its exit code."""
    signal.signal(signal.SIGTERM, _raise_exit)
    started = None
    try:
        started = start_ray(config)
        return wait_end(started)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if started is not None:
            started.end()
        end_session(os.getsid(0))
        for directory in config.directories:
            shutil.rmtree(Path(directory), ignore_errors=True)


def run_fast_head(config: HeadConfig) -> int:
    """Run a head with its template, or a worker in a process that this has forked."""
    from wakelog.actors.ray.fast_start import worker_template

    if sys.platform == "linux" and worker_template.fork_template(config.directories[0]):
        worker_template.run_worker()
        return 0
    return run_head(config)


def head_command(config: HeadConfig) -> list[str]:
    """Return the command that runs a head."""
    return [sys.executable, "-m", "wakelog.actors.ray.head", msgspec.json.encode(config).decode()]


def main() -> int:
    """Run a head, or a worker in a process that its template has forked."""
    config = decode_json(sys.argv[1], HeadConfig)
    if config.plain_because is None:
        import_structlog()
        from wakelog.actors.ray.fast_start import worker_template

        with worker_template.prepare_import(os.getpid()):
            missing = guard.missing_name()
        if missing is not None:
            # Ray was imported for a fork of workers: begin again, in a Python without it.
            config = msgspec.structs.replace(config, plain_because=missing)
            os.execv(sys.executable, head_command(config))
        return run_fast_head(config)
    return run_head(config)


if __name__ == "__main__":
    sys.exit(main())
