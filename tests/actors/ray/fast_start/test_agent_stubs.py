"""Stubs replace Ray's agents until one of them is needed."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wakelog.actors.ray.fast_start import agent_stubs
from wakelog.actors.ray.fast_start.agent_stubs import (
    ENVIRONMENT_PORT,
    UNUSED_PORTS,
    option,
    reserve_environment_port,
)
from wakelog.actors.ray.fast_start.worker_start import FLAGS

WAIT_SECONDS_MAX = 20.0
NODE = "ab" * 28
DASHBOARD_AGENT = Path("ray", "dashboard", "agent.py")
ENVIRONMENT_AGENT = Path("ray", "_private", "runtime_env", "agent", "main.py")


def test_an_option_is_found_by_its_whole_name() -> None:
    arguments = ["agent.py", "--node-id-hex=1", "--node-id=2", "--minimal"]
    assert option("node-id", arguments) == "2"
    with pytest.raises(StopIteration):
        option("node", arguments)


def start_stub(
    script: Path, directory: Path, standard_input: int = subprocess.PIPE
) -> "subprocess.Popen[bytes]":
    """Run the stub of an agent as Ray does."""
    options = [f"--session-dir={directory}", f"--node-id={NODE}", "--node-ip-address=127.0.0.1"]
    options.append("--runtime-env-agent-port=0")
    command = [sys.executable, *FLAGS, agent_stubs.__file__, str(script), *options]
    return subprocess.Popen(command, stdin=standard_input, stdout=subprocess.PIPE)


def wait_port(name: str, directory: Path) -> int:
    """Return the port in a file as soon as it is there."""
    path = directory / f"{name}_{NODE}"
    end = time.monotonic() + WAIT_SECONDS_MAX
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    return int(path.read_text())


def wait_command(stub: "subprocess.Popen[bytes]", name: bytes) -> None:
    """Return once the process runs that program."""
    command = Path(f"/proc/{stub.pid}/cmdline")
    end = time.monotonic() + WAIT_SECONDS_MAX
    while not command.read_bytes().startswith(name + b"\0"):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.process
def test_the_dashboard_s_agent_has_no_port_and_does_nothing(tmp_path: Path) -> None:
    with start_stub(DASHBOARD_AGENT, tmp_path) as stub:
        assert [wait_port(name, tmp_path) for name in UNUSED_PORTS] == [-1, -1, -1]
        wait_command(stub, b"cat")
        assert stub.poll() is None
        stub.kill()


@pytest.mark.process
@pytest.mark.parametrize("script", [DASHBOARD_AGENT, ENVIRONMENT_AGENT])
def test_agents_end_with_the_raylet(tmp_path: Path, script: Path) -> None:
    with start_stub(script, tmp_path) as stub:
        name = ENVIRONMENT_PORT if script == ENVIRONMENT_AGENT else UNUSED_PORTS[-1]
        wait_port(name, tmp_path)
        assert stub.poll() is None
        assert stub.stdin is not None
        stub.stdin.close()  # as the kernel does with what a killed process had open
        assert stub.wait(WAIT_SECONDS_MAX) == 0


@pytest.mark.process
def test_an_agent_whose_input_is_no_pipe_stays(tmp_path: Path) -> None:
    with start_stub(DASHBOARD_AGENT, tmp_path, subprocess.DEVNULL) as stub:
        wait_command(stub, b"sleep")
        stub.kill()


@pytest.mark.process
def test_a_port_that_is_kept_is_listened_to_by_the_stub_and_then_by_the_agent(
    tmp_path: Path,
) -> None:
    script = tmp_path / "main.py"
    script.write_text(
        "import socket, sys; port = int(sys.argv[-1].partition('=')[2])\n"
        "print(socket.create_server(('127.0.0.1', port)).getsockname()[1])"
    )
    with contextlib.closing(reserve_environment_port("127.0.0.1", str(tmp_path), NODE)) as reserved:
        port = reserved.getsockname()[1]
        assert wait_port(ENVIRONMENT_PORT, tmp_path) == port
        with start_stub(script, tmp_path) as stub:
            end = time.monotonic() + WAIT_SECONDS_MAX
            while True:
                try:
                    with socket.create_connection(("127.0.0.1", port)) as asking:
                        assert asking.recv(1) == b""
                    break
                except ConnectionRefusedError:  # the stub does not listen yet
                    assert time.monotonic() < end
                    time.sleep(0.01)
            output, _ = stub.communicate(timeout=WAIT_SECONDS_MAX)
    assert output.decode() == f"{port}\n"


@pytest.mark.process
def test_the_agent_of_environments_starts_at_the_first_connection(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text("import sys; print(*sys.argv[1:], sep='\\n')")
    with start_stub(script, tmp_path) as stub:
        port = wait_port(ENVIRONMENT_PORT, tmp_path)
        assert stub.poll() is None
        with socket.create_connection(("127.0.0.1", port)) as asking:
            assert asking.recv(1) == b""
        output, _ = stub.communicate(timeout=WAIT_SECONDS_MAX)
    assert output.decode().splitlines() == [
        f"--session-dir={tmp_path}",
        f"--node-id={NODE}",
        "--node-ip-address=127.0.0.1",
        f"--runtime-env-agent-port={port}",
    ]
    assert os.listdir(tmp_path).count(f"{ENVIRONMENT_PORT}_{NODE}") == 1
