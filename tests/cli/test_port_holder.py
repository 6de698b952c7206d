"""Processes and their sockets, read from a made-up /proc and from the real one."""

import os
import socket
from pathlib import Path

import pytest

from wakelog.cli.port_holder import COMMAND_CHARACTERS_MAX, find_port_holder, holder_of

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2A9F 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 71214 1
   1: 0100007F:2694 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 65007 1
"""
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue
   0: 00000000000000000000000000000000:2694 00000000000000000000000000000000:0000 0A 0 0 0 0 0 88
"""


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Make a /proc of three processes, one of which cannot be read."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(TCP)
    (tmp_path / "net" / "tcp6").write_text(TCP6)
    for process_id, links in ((1, None), (20, ["socket:[71214]"]), (30, ["/x", "socket:[88]"])):
        (tmp_path / str(process_id)).mkdir()
        if links is not None:
            (tmp_path / str(process_id) / "fd").mkdir()
            (tmp_path / str(process_id) / "cmdline").write_bytes(b"java\0-Xms8g\0\0Broker\x1b\0")
            for number, target in enumerate(links):
                os.symlink(target, tmp_path / str(process_id) / "fd" / str(number))
    return tmp_path


@pytest.mark.parametrize(
    ("port", "holder"),
    [
        (10911, "process 20 (java -Xms8g Broker?)"),
        (9876, "process 30 (java -Xms8g Broker?)"),
        (10909, "None"),
    ],
)
def test_the_listener_is_found_by_its_sockets_inode(proc: Path, port: int, holder: str) -> None:
    assert str(find_port_holder(port, proc)) == holder


def test_a_process_that_cannot_be_read_is_still_numbered(proc: Path) -> None:
    assert str(holder_of(1, proc)) == "process 1 (its command cannot be read)"


@pytest.mark.parametrize(
    ("parents", "found"),
    [
        ({50: 51, 51: 52, 52: 20}, "process 20 (java -Xms8g Broker?)"),
        ({50: 51, 51: 1}, "process 50 (ray::BrokerActor)"),
        ({50: 51}, "process 50 (ray::BrokerActor)"),
    ],
)
def test_for_an_actor_the_process_that_started_its_ray_is_named(
    proc: Path, parents: dict[int, int], found: str
) -> None:
    commands = {
        50: b"ray::BrokerActor\0",
        51: b"/ray/raylet\0--node\0",
        52: b"wakelog head\0",
    }
    for process_id, command in commands.items():
        (proc / str(process_id)).mkdir()
        (proc / str(process_id) / "cmdline").write_bytes(command)
    for process_id, parent_id in parents.items():
        (proc / str(process_id) / "stat").write_text(f"{process_id} (a) b) S {parent_id} 0 0")
    assert str(holder_of(50, proc)) == found


def test_a_long_command_is_cut_in_the_middle(proc: Path) -> None:
    (proc / "20" / "cmdline").write_bytes(b"java\0" + b"x" * 1000 + b"\0BrokerStartup\0")
    named = str(holder_of(20, proc)).removeprefix("process 20 ")
    assert len(named) <= COMMAND_CHARACTERS_MAX + len("...()")
    assert named.startswith("(java") and named.endswith("BrokerStartup)")


UP = b"/home/of/the/user/.venv/bin/python\0-m\0wakelog\0up\0--store\0/s\0"
HEAD = (
    b"/home/of/the/user/"
    + b"x" * COMMAND_CHARACTERS_MAX
    + b"/python\0-m\0wakelog.actors.ray.head\0{}"
)


@pytest.mark.parametrize("up", [UP, b"/bin/python\0/bin/wakelog\0up\0--store\0/s\0"])
def test_for_an_actor_of_up_the_command_up_is_named_with_how_to_stop_it(
    proc: Path, up: bytes
) -> None:
    # The template of workers has the command line of the head, whose long path must not hide it.
    rows = {60: (b"ray::BrokerActor\0", 61), 61: (HEAD, 62), 62: (HEAD, 63), 63: (up, 1)}
    for process_id, (command, parent_id) in rows.items():
        (proc / str(process_id)).mkdir()
        (proc / str(process_id) / "cmdline").write_bytes(command)
        (proc / str(process_id) / "stat").write_text(f"{process_id} (python) S {parent_id} 0 0")
    holder = holder_of(60, proc)
    assert str(holder) == "process 63 (wakelog up --store /s)"
    assert holder.how_to_stop == "Stop it with Ctrl-C in its terminal or with `kill 63`"
    assert holder_of(20, proc).how_to_stop == "Stop it"


def test_for_a_console_of_up_the_command_up_is_named(proc: Path) -> None:
    console = b"/bin/python\0-m\0wakelog.cli.console_process\0console\0--port\08080\0"
    for process_id, (command, parent_id) in {60: (console, 63), 63: (UP, 1)}.items():
        (proc / str(process_id)).mkdir()
        (proc / str(process_id) / "cmdline").write_bytes(command)
        (proc / str(process_id) / "stat").write_text(f"{process_id} (python) S {parent_id} 0 0")
    assert str(holder_of(60, proc)) == "process 63 (wakelog up --store /s)"


def test_without_proc_no_process_is_named(tmp_path: Path) -> None:
    assert find_port_holder(10911, tmp_path) is None


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc here")
def test_this_process_is_found_by_a_port_of_its_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        holder = find_port_holder(listener.getsockname()[1])
    assert holder is not None and holder.process_id == os.getpid()
