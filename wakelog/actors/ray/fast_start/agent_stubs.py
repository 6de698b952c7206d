"""Stubs for the two agents that a raylet refuses to run without.

The dashboard's agent has nothing to do without a dashboard. The agent of runtime environments is
needed by a job that brings one: its stub waits for the first connection to its port, and then
becomes the agent. Together the agents would take 3 s of CPU at the start, 130 MB, and a per cent of
a core.

A raylet ends when one of its agents ends. A stub ends with its raylet, however that ended: its
standard input is a pipe of which only the raylet holds the other end, and the raylet never writes.

Run as a script, with the agent's own command line as arguments, in a Python without its site
packages. It imports nothing of wakelog and little else: the raylet waits for it.

Source: ray/dashboard/agent.py, ray/_private/runtime_env/agent/main.py (2.60).
"""

import os
import select
import stat
import sys
from _socket import AF_INET, AF_INET6, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

UNUSED_PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
"""Files in which the raylet reads the ports of the dashboard's agent, -1 for one not in use."""

ENVIRONMENT_PORT = "runtime_env_agent_port"
SLEEP_SECONDS = str((1 << 31) - 1)
STANDARD_INPUT = 0


def option(name: str, arguments: list[str]) -> str:
    """Return the value of an option, `--name=value`. Raises: StopIteration."""
    start = f"--{name}="
    return next(one.removeprefix(start) for one in arguments if one.startswith(start))


def write_port(name: str, port: int, directory: str, node: str) -> None:
    """Write a port of a node where its raylet reads it, whole or not at all."""
    path = f"{directory}/{name}_{node}"
    with open(f"{path}.stand_in", "w", encoding="ascii") as file:
        file.write(str(port))
    os.replace(f"{path}.stand_in", path)


def write_unused_ports(directory: str, node: str) -> None:
    """Write that the dashboard's agent of a node has no ports."""
    for name in UNUSED_PORTS:
        write_port(name, -1, directory, node)


def reserve_environment_port(host: str, directory: str, node: str) -> socket:
    """Write the port of a node's agent of environments before the raylet starts.

    Returns: what keeps the port from everybody but a listener with SO_REUSEADDR, on Linux; it is to
    be kept open.
    """
    reserved = reusable_socket(host)
    reserved.bind((host, 0))
    write_port(ENVIRONMENT_PORT, reserved.getsockname()[1], directory, node)
    return reserved


def reserved_port(directory: str, node: str) -> int:
    """Return the port that was written for a node, 0 for none."""
    try:
        with open(f"{directory}/{ENVIRONMENT_PORT}_{node}", encoding="ascii") as file:
            return int(file.read())
    except OSError:
        return 0


def reusable_socket(host: str) -> socket:
    """Return a socket that may share its port with others, one of which listens."""
    made = socket(AF_INET6 if ":" in host else AF_INET, SOCK_STREAM)
    made.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    return made


def replace_dashboard_agent(arguments: list[str]) -> "NoReturn":
    """Be the dashboard's agent until the raylet ends."""
    write_unused_ports(option("session-dir", arguments), option("node-id", arguments))
    if sees_end_of_raylet():
        os.execvp("cat", ["cat"])
    os.execvp("sleep", ["sleep", SLEEP_SECONDS])


def sees_end_of_raylet() -> bool:
    """Return whether standard input is a pipe, whose end is the end of the raylet."""
    try:
        return stat.S_ISFIFO(os.fstat(STANDARD_INPUT).st_mode)
    except OSError:
        return False


def replace_environment_agent(arguments: list[str]) -> "NoReturn":
    """Be the agent of runtime environments; become the real one at the first connection."""
    host = option("node-ip-address", arguments)
    directory, node = option("session-dir", arguments), option("node-id", arguments)
    listener = reusable_socket(host)
    listener.bind((host, reserved_port(directory, node)))
    listener.listen()
    port = listener.getsockname()[1]
    write_port(ENVIRONMENT_PORT, port, directory, node)
    waited_for = [listener.fileno(), *([STANDARD_INPUT] if sees_end_of_raylet() else [])]
    if STANDARD_INPUT in select.select(waited_for, [], [])[0]:
        sys.exit()
    # The client tries again until the agent listens.
    accepting: Any = listener  # what `socket.socket.accept` calls
    os.close(accepting._accept()[0])
    listener.close()
    given = f"--{ENVIRONMENT_PORT.replace('_', '-')}="
    command = [one for one in arguments if not one.startswith(given)]
    os.execv(sys.executable, [sys.executable, "-u", *command, f"{given}{port}"])


def main() -> "NoReturn":
    """Replace the agent whose script is the first argument."""
    arguments = sys.argv[1:]
    if os.path.basename(os.path.dirname(arguments[0])) == "dashboard":
        replace_dashboard_agent(arguments)
    replace_environment_agent(arguments)


if __name__ == "__main__":
    main()
