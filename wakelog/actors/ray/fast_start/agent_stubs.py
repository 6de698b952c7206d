"""What the raylet runs instead of its two agents, which it insists on: almost nothing.

The dashboard's agent has nothing to do without a dashboard. The agent of runtime environments is
asked for by a job that brings one; until somebody connects to its port, this stands in for it, and
then becomes it. Together they would take 3 s of CPU at the start, 130 MB, and a per cent of a core.

A raylet ends when one of its agents does; and they end with it, however it ended: the standard
input of each is a pipe that nobody but the raylet holds the other end of, and never writes to.

Run as a script, with the agent's own command line behind it; it imports nothing of wakelog.

Source: ray/dashboard/agent.py, ray/_private/runtime_env/agent/main.py (2.60).
"""

from __future__ import annotations

import os
import select
import socket
import stat
import sys
from pathlib import Path
from typing import NoReturn

PORTS_OF_NOBODY = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
"""Files in which the dashboard's agent tells the raylet its ports, -1 for a port not in use."""

PORT_OF_ENVIRONMENTS = "runtime_env_agent_port"
SLEEP_SECONDS = str((1 << 31) - 1)
STANDARD_INPUT = 0


def option(name: str, arguments: list[str]) -> str:
    """Return the value of an option, `--name=value`. Raises: StopIteration."""
    start = f"--{name}="
    return next(one.removeprefix(start) for one in arguments if one.startswith(start))


def tell_port(name: str, port: int, arguments: list[str]) -> None:
    """Write a port where the raylet reads it, whole or not at all."""
    directory, node = option("session-dir", arguments), option("node-id", arguments)
    path = Path(directory, f"{name}_{node}")
    written = path.with_name(path.name + ".stand_in")
    written.write_text(str(port))
    written.replace(path)


def be_nobody(arguments: list[str]) -> NoReturn:
    """Stand in for the dashboard's agent."""
    for name in PORTS_OF_NOBODY:
        tell_port(name, -1, arguments)
    if is_told_of_end():
        os.execvp("cat", ["cat"])
    os.execvp("sleep", ["sleep", SLEEP_SECONDS])


def is_told_of_end() -> bool:
    """Return whether standard input is a pipe; any other would end too early or never."""
    try:
        return stat.S_ISFIFO(os.fstat(STANDARD_INPUT).st_mode)
    except OSError:
        return False


def wait_asked(arguments: list[str]) -> NoReturn:
    """Stand in for the agent of runtime environments until it is asked for."""
    listener = socket.create_server((option("node-ip-address", arguments), 0))
    port = listener.getsockname()[1]
    tell_port(PORT_OF_ENVIRONMENTS, port, arguments)
    waited_for = [listener.fileno(), *([STANDARD_INPUT] if is_told_of_end() else [])]
    if STANDARD_INPUT in select.select(waited_for, [], [])[0]:
        sys.exit()
    # Whoever connects is turned away, and tries again until the agent listens.
    listener.accept()[0].close()
    listener.close()
    given = f"--{PORT_OF_ENVIRONMENTS.replace('_', '-')}="
    command = [one for one in arguments if not one.startswith(given)]
    os.execv(sys.executable, [sys.executable, "-u", *command, f"{given}{port}"])


def main() -> NoReturn:
    """Stand in for the agent whose script is the first argument."""
    arguments = sys.argv[1:]
    if Path(arguments[0]).parent.name == "dashboard":
        be_nobody(arguments)
    wait_asked(arguments)


if __name__ == "__main__":
    main()
