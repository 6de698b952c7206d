"""Ray's agents are stood in for by next to nothing, until one of them is asked for."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wakelog.actors.ray.fast_start import agent_stubs
from wakelog.actors.ray.fast_start.agent_stubs import PORT_OF_ENVIRONMENTS, PORTS_OF_NOBODY, option

WAIT_SECONDS_MAX = 20.0
NODE = "ab" * 28
DASHBOARD_AGENT = Path("ray", "dashboard", "agent.py")
ENVIRONMENT_AGENT = Path("ray", "_private", "runtime_env", "agent", "main.py")


def test_an_option_is_found_by_its_whole_name() -> None:
    arguments = ["agent.py", "--node-id-hex=1", "--node-id=2", "--minimal"]
    assert option("node-id", arguments) == "2"
    with pytest.raises(StopIteration):
        option("node", arguments)


def start_stand_in(
    script: Path, directory: Path, standard_input: int = subprocess.PIPE
) -> "subprocess.Popen[bytes]":
    """Run the stand-in of an agent as Ray does."""
    options = [f"--session-dir={directory}", f"--node-id={NODE}", "--node-ip-address=127.0.0.1"]
    options.append("--runtime-env-agent-port=0")
    command = [sys.executable, "-S", agent_stubs.__file__, str(script), *options]
    return subprocess.Popen(command, stdin=standard_input, stdout=subprocess.PIPE)


def wait_port(name: str, directory: Path) -> int:
    """Return the port in a file as soon as it is there."""
    path = directory / f"{name}_{NODE}"
    end = time.monotonic() + WAIT_SECONDS_MAX
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    return int(path.read_text())


def wait_command(stand_in: "subprocess.Popen[bytes]", name: bytes) -> None:
    """Return once the process runs that program."""
    command = Path(f"/proc/{stand_in.pid}/cmdline")
    end = time.monotonic() + WAIT_SECONDS_MAX
    while not command.read_bytes().startswith(name + b"\0"):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.process
def test_the_dashboard_s_agent_has_no_port_and_does_nothing(tmp_path: Path) -> None:
    with start_stand_in(DASHBOARD_AGENT, tmp_path) as stand_in:
        assert [wait_port(name, tmp_path) for name in PORTS_OF_NOBODY] == [-1, -1, -1]
        wait_command(stand_in, b"cat")
        assert stand_in.poll() is None
        stand_in.kill()


@pytest.mark.process
@pytest.mark.parametrize("script", [DASHBOARD_AGENT, ENVIRONMENT_AGENT])
def test_the_end_of_the_raylet_is_that_of_its_agents(tmp_path: Path, script: Path) -> None:
    with start_stand_in(script, tmp_path) as stand_in:
        name = PORT_OF_ENVIRONMENTS if script == ENVIRONMENT_AGENT else PORTS_OF_NOBODY[-1]
        wait_port(name, tmp_path)
        assert stand_in.poll() is None
        assert stand_in.stdin is not None
        stand_in.stdin.close()  # as the kernel does with what a killed process had open
        assert stand_in.wait(WAIT_SECONDS_MAX) == 0


@pytest.mark.process
def test_an_agent_whose_input_says_nothing_of_the_raylet_stays(tmp_path: Path) -> None:
    with start_stand_in(DASHBOARD_AGENT, tmp_path, subprocess.DEVNULL) as stand_in:
        wait_command(stand_in, b"sleep")
        stand_in.kill()


@pytest.mark.process
def test_the_agent_of_environments_starts_when_somebody_connects(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text("import sys; print(*sys.argv[1:], sep='\\n')")
    with start_stand_in(script, tmp_path) as stand_in:
        port = wait_port(PORT_OF_ENVIRONMENTS, tmp_path)
        assert stand_in.poll() is None
        with socket.create_connection(("127.0.0.1", port)) as asking:
            assert asking.recv(1) == b""
        output, _ = stand_in.communicate(timeout=WAIT_SECONDS_MAX)
    assert output.decode().splitlines() == [
        f"--session-dir={tmp_path}",
        f"--node-id={NODE}",
        "--node-ip-address=127.0.0.1",
        f"--runtime-env-agent-port={port}",
    ]
    assert os.listdir(tmp_path).count(f"{PORT_OF_ENVIRONMENTS}_{NODE}") == 1
