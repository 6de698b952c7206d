"""The head of a private Ray: the process that starts Ray's daemons and ends them.

`private_ray.py` starts it in a session of its own, so that Ctrl-C in a terminal does not reach
Ray before the actors were stopped in order, and so that every process of this Ray can be told
from those of another one on the machine: they all stay in this session. (`ray stop` ends every
Ray there is.)

Life: read the configuration from the command line, start the daemons, print one line of JSON with
the address, then wait for the end of standard input. It ends when whoever started it says so or
dies, on SIGTERM, and when a daemon has died: a broker does not outlive its Ray. Whatever the
cause, at the end no process of the session, no port, no socket and no directory of this Ray is
left.

`ray start` was tried and does nearly the same: it listens on every interface (it resolves the
loopback address to the host's), and with the processes that a broker has no use for (the
dashboard, the client server) it took 7 s where this takes 3.

Source: ray.scripts.scripts.start, ray._private.node.Node (2.60).
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from wakelog.actors.ray.fast_start import worker_template
from wakelog.actors.ray.fast_start.ray_import import import_ray

LOOPBACK = "127.0.0.1"
LOOK_SECONDS = 1.0
"""How often the daemons are looked at; it delays only the end after one has died."""

PROCESS_END_SECONDS_MAX = 5.0
"""How long a killed process may take to be gone: it may be in a write that the disk delays."""

# Ray's default, 10002 to 19999, covers RocketMQ's 10909 to 10912.
WORKER_PORTS_BEGIN, WORKER_PORTS_END = 14_000, 15_000
PORT_BLOCK_COUNT = 50
"""Ports are taken in blocks of this many, so that several Rays share the range."""


class HeadConfig(msgspec.Struct, frozen=True):
    """What a head is started with.

    worker_count: processes to start before anybody asks, as many as there will be actors.
    ray_directory: where Ray keeps its session.
    directories: removed at the end.
    dashboard_port: where jobs are taken, None for no dashboard, 0 for any port.
    """

    worker_count: int
    worker_port_count: int
    object_store_bytes: int
    ray_directory: str
    directories: tuple[str, ...]
    dashboard_port: int | None = None


class HeadReady(msgspec.Struct, frozen=True):
    """The line that the head prints once its daemons run."""

    address: str
    node_id: str
    dashboard_url: str | None


class NoFreePorts(Exception):
    """Every block of worker ports is taken: too many Rays on this machine."""


class PortBlocks:
    """Worker ports for this Ray alone, claimed as long as this object and its process live.

    A block is claimed by the UDP port that has the number of its first port; Ray's workers use TCP.
    So nothing is left behind by whatever end, and two heads that start at once cannot both win.
    """

    def __init__(self, count: int) -> None:
        """Claim blocks until they hold `count` free ports. Raises: NoFreePorts."""
        self._claims: list[socket.socket] = []
        self.ports: list[int] = []
        for first in range(WORKER_PORTS_BEGIN, WORKER_PORTS_END, PORT_BLOCK_COUNT):
            if len(self.ports) >= count:
                break
            claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                claim.bind((LOOPBACK, first))
            except OSError:
                claim.close()
                continue
            self._claims.append(claim)
            block = range(first, min(first + PORT_BLOCK_COUNT, WORKER_PORTS_END))
            self.ports += [port for port in block if is_free(port)]
        if len(self.ports) < count:
            self.close()
            raise NoFreePorts(
                f"ports {WORKER_PORTS_BEGIN} to {WORKER_PORTS_END - 1} have no {count} free ones "
                "for Ray's workers: stop another wakelog or Ray on this machine"
            )

    def close(self) -> None:
        """Give the blocks back."""
        for claim in self._claims:
            claim.close()


def is_free(port: int) -> bool:
    """Tell whether nobody listens on a TCP port of any interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Ray's workers bind: a port in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


def start_node(config: HeadConfig, ports: list[int]) -> Any:
    """Start Ray's daemons on the loopback interface and return Ray's own object for them."""
    from wakelog.actors.ray.fast_start.node import start_node

    has_dashboard = config.dashboard_port is not None
    node = start_node(
        {
            "node_ip_address": LOOPBACK,
            "node_name": "wakelog",
            "gcs_server_port": 0,
            "object_manager_port": 0,
            "node_manager_port": 0,
            "worker_port_list": ",".join(map(str, ports)),
            # Actors ask for no CPU; the number is what Ray starts workers ahead by.
            "num_cpus": config.worker_count,
            "num_gpus": 0,
            "resources": {},
            "object_store_memory": config.object_store_bytes,
            "temp_dir": config.ray_directory,
            "include_dashboard": has_dashboard,
            "dashboard_host": LOOPBACK,
            "dashboard_port": config.dashboard_port or None,
            "no_monitor": True,  # the autoscaler
            "include_log_monitor": False,
        }
    )
    if has_dashboard:
        import ray._private.utils

        # A job finds its Ray by this file, else by the newest process of any Ray on the machine.
        ray._private.utils.write_ray_address(node.address, config.ray_directory)
    return node


def wait_end(node: Any) -> int:
    """Wait until standard input ends (0) or a daemon has died (1)."""
    while not node.dead_processes():
        readable, _, _ = select.select([sys.stdin], [], [], LOOK_SECONDS)
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


def fork_template(directory: str) -> bool:
    """Import Ray and fork the template of workers; return True in each worker that it forks.

    It ends when this process does.
    """
    listener = worker_template.listen(directory)
    with worker_template.prepare_import(os.getpid()):
        import_ray()
    lifeline, held = os.pipe()  # nobody but this process holds the other end
    if os.fork() != 0:
        listener.close()
        os.close(lifeline)
        return False
    os.close(held)
    # Whoever waits for the head's output to end waits for the head.
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(nothing, standard)
    os.close(nothing)
    is_worker = worker_template.serve(listener, lifeline)
    if not is_worker:
        os._exit(0)
    return True


def run_head(config: HeadConfig) -> int:
    """Run a head until it has to end; return its exit code."""
    signal.signal(signal.SIGTERM, _raise_exit)
    node = None
    try:
        blocks = PortBlocks(config.worker_port_count)
        node = start_node(config, blocks.ports)
        ready = HeadReady(node.address, node.node_id, node.webui_url)
        sys.stdout.write(msgspec.json.encode(ready).decode() + "\n")
        sys.stdout.flush()
        return wait_end(node)
    except NoFreePorts as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if node is not None:
            node.kill_all_processes(check_alive=False, allow_graceful=True)
        end_session(os.getsid(0))
        for directory in config.directories:
            shutil.rmtree(Path(directory), ignore_errors=True)


def main() -> int:
    """Run a head, or a worker in a process that its template has forked."""
    config = msgspec.json.decode(sys.argv[1], type=HeadConfig)
    if sys.platform == "linux" and fork_template(config.directories[0]):
        worker_template.run_worker()
        return 0
    return run_head(config)


if __name__ == "__main__":
    sys.exit(main())
