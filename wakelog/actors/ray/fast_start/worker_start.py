"""What the raylet runs for each worker: it has the template fork it, or becomes the worker.

Run as a script, with the arguments of Ray's own script, in a Python without its site packages. It
imports nothing of wakelog and little else: it takes 10 ms of CPU so, and 35 with `socket` and
`json`. If the template forks, this process ends: a worker reports its process id to the raylet.

A request is a string of fields, each of which ends before a zero byte or at the end:

    1 if this process leads a group of its own, else 0
    the Python that runs
    the working directory
    the number of arguments, the script's name included
    each argument
    each variable of the environment, NAME=VALUE
"""

import os
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SHUT_WR, SOCK_STREAM, SOL_SOCKET, socket

SOCKET_VARIABLE = "WAKELOG_WORKER_TEMPLATE"
"""The environment variable that holds the path of the template's socket."""

FLAGS = ("-I", "-S")
"""Of the Python that runs this: it needs its standard library only."""

FORKED = b"f"
FORK_SECONDS_MAX = 20.0
"""The template may still be importing."""


def request_of_this_process() -> bytes:
    """Return what the worker is started with, to be read by the template."""
    arguments = [os.fsencode(one) for one in sys.argv]
    return b"\0".join(
        (
            b"%d" % (os.getpgrp() == os.getpid()),
            os.fsencode(sys.executable),
            os.getcwdb(),
            b"%d" % len(arguments),
            *arguments,
            *(b"%s=%s" % pair for pair in os.environb.items()),
        )
    )


def ask_template(path: str) -> bool:
    """Return whether the template at a socket has forked a worker in place of this process."""
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.settimeout(FORK_SECONDS_MAX)
        connection.connect(path)
        connection.sendmsg([b" "], [(SOL_SOCKET, SCM_RIGHTS, streams)])
        connection.sendall(request_of_this_process())
        connection.shutdown(SHUT_WR)
        return bool(connection.recv(1) == FORKED)
    except OSError:
        return False
    finally:
        connection.close()


def worker_script() -> str:
    """Return the path of Ray's own script; imports nothing of Ray."""
    from importlib.util import find_spec

    ray = find_spec("ray")
    assert ray is not None and ray.origin is not None
    return os.path.join(os.path.dirname(ray.origin), "_private", "workers", "default_worker.py")


def main() -> None:
    """Have the template fork a worker, or become one."""
    path = os.environ.get(SOCKET_VARIABLE)
    if path is not None and ask_template(path):
        return
    if sys.flags.no_site:
        os.environ.pop(SOCKET_VARIABLE, None)  # it has been asked
        os.execv(sys.executable, [sys.executable, *sys.argv])  # where Ray is to be found
    os.execv(sys.executable, [sys.executable, worker_script(), *sys.argv[1:]])


if __name__ == "__main__":
    main()
