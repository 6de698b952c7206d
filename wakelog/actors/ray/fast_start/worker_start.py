"""What the raylet runs for each worker: it has the template fork it, or becomes the worker.

Run as a script, with the arguments of Ray's own script; it imports nothing of wakelog and little
else. If the template forks, this process ends: a worker reports its process id to the raylet.
"""

import json
import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

SOCKET_VARIABLE = "WAKELOG_WORKER_TEMPLATE"
"""The environment variable that holds the path of the template's socket."""

FORKED = b"f"
FORK_SECONDS_MAX = 20.0
"""The template may still be importing."""


def ask_template(path: str) -> bool:
    """Return whether the template at a socket has forked a worker in place of this process."""
    request = {
        "arguments": sys.argv,
        "executable": sys.executable,
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "leads_group": os.getpgrp() == os.getpid(),
    }
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(FORK_SECONDS_MAX)
            connection.connect(path)
            socket.send_fds(connection, [b" "], [0, 1, 2])
            connection.sendall(json.dumps(request).encode())
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(1) == FORKED
    except OSError:
        return False


def worker_script() -> str:
    """Return the path of Ray's own script; imports nothing of Ray."""
    ray = find_spec("ray")
    assert ray is not None and ray.origin is not None
    return str(Path(ray.origin).parent / "_private" / "workers" / "default_worker.py")


def main() -> None:
    """Have the template fork a worker, or become one."""
    path = os.environ.get(SOCKET_VARIABLE)
    if path is None or not ask_template(path):
        os.execv(sys.executable, [sys.executable, worker_script(), *sys.argv[1:]])


if __name__ == "__main__":
    main()
