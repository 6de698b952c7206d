"""Two `wakelog up` on one machine, each with a Ray of its own: together, in turn, and gone."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.actors.programs import PROGRAM, STOP_SECONDS_MAX, Up, running_up
from tests.cli.commands import ROOT

pytestmark = [pytest.mark.ray, pytest.mark.slow]

GONE_SECONDS_MAX = 30.0
"""A process that was killed may be in a write that the disk delays."""

START_CPU_SECONDS_MAX = 8.0
"""Of CPU, which a busy machine leaves alone: 2.4 s, or 4.3 s where Python keeps nothing compiled;
it is 10 or 25 s when each actor imports for itself."""

GREETINGS_MAX = 3
"""A greeting fails after 3 s, as in a client. The first message makes a topic, which a disk that is
busy from other tests may delay for as long."""

FEWEST_PROCESSES = 12
"""The program, Ray's head and two daemons, and an actor for each service, at least."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Up, Up]]:
    """Yield one with notifications and one with references, which heeds Ctrl-C all the same."""
    stores = [tmp_path_factory.mktemp("store") for _ in range(2)]
    pool = ("transientStorePoolEnable=true", "transientStorePoolSize=2")
    with (
        running_up(stores[0]) as first,
        running_up(
            stores[1], "--transport", "references", settings=pool, ignores_interrupt=True
        ) as second,
    ):
        first.wait_ready()
        second.wait_ready()
        yield first, second


def greets(up: Up) -> bool:
    """Send a message through it and fetch it back."""
    words = [sys.executable, *PROGRAM, "hello", up.name_server_address]
    for _ in range(GREETINGS_MAX):
        outcome = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        if outcome.returncode == 0:
            return "received  'hello'" in outcome.stdout
    raise AssertionError(outcome.stderr)


def store_of(up: Up) -> str:
    [line] = [line for line in up.command.lines if line.startswith("broker-a")]
    return line.rpartition("store ")[2].partition("  process ")[0]


def wait_gone(up: Up) -> dict[int, str]:
    """Return what lives of it after a while."""
    end = time.monotonic() + GONE_SECONDS_MAX
    while (processes := up.processes()) and time.monotonic() < end:
        time.sleep(0.05)
    return processes


def cpu_seconds(process_id: int) -> float:
    """Return what a process has run so far, 0 if it has ended."""
    try:
        text = Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return 0.0
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def assert_ports_free(up: Up) -> None:
    for port in up.ports:
        socket.create_server(("127.0.0.1", port)).close()


def test_a_start_takes_little_of_the_machine(pair: tuple[Up, Up]) -> None:
    for up in pair:
        spent = [cpu_seconds(process_id) for process_id in up.processes()]
        assert 0 < sum(spent) < START_CPU_SECONDS_MAX


def test_both_take_messages(pair: tuple[Up, Up]) -> None:
    assert all(greets(up) for up in pair)


def test_the_same_store_again_is_refused_and_runs_on(pair: tuple[Up, Up]) -> None:
    first, _ = pair
    store = store_of(first)
    with running_up(Path(store)) as again:
        code, errors = again.command.wait_end(STOP_SECONDS_MAX)
    assert code == 1
    place = f"the store {store} is already running in process {first.command.process_id}"
    assert errors.startswith(f"wakelog: {place} (wakelog up --store")
    assert (
        f"Stop it with Ctrl-C in its terminal or with `kill {first.command.process_id}`" in errors
    )
    assert again.command.lines == []
    assert greets(first)


def test_a_port_of_the_other_is_refused_by_its_holder(pair: tuple[Up, Up], tmp_path: Path) -> None:
    first, _ = pair
    port = str(first.broker_ports[0])
    words = ["up", "--store", str(tmp_path / "store"), "--broker-port", port, "--namesrv-port"]
    outcome = subprocess.run(
        [sys.executable, *PROGRAM, *words, str(first.broker_ports[0] + 7)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 1
    holder = f"process {first.command.process_id} (wakelog up"
    assert f"port {port}, for broker-a, is taken by {holder}" in outcome.stderr
    assert "choose another port with --broker-port" in outcome.stderr
    assert not (tmp_path / "store").exists()


def test_one_ends_without_a_trace_and_the_other_goes_on(pair: tuple[Up, Up]) -> None:
    first, second = pair
    assert len(second.processes()) >= FEWEST_PROCESSES
    shared = second.shared_paths()
    assert any("wakelog-pool-" in path for path in shared)
    # As Ctrl-C does, though SIGINT was inherited as ignored.
    second.stop(signal.SIGINT, group=True)
    assert wait_gone(second) == {}
    assert [path for path in shared if os.path.exists(path)] == []
    assert_ports_free(second)
    assert greets(first)


def test_the_last_one_leaves_nothing_either(pair: tuple[Up, Up]) -> None:
    first, _ = pair
    shared = first.shared_paths()
    assert any(path.endswith("/broker-a/watermarks") for path in shared)
    first.stop(signal.SIGTERM)
    assert wait_gone(first) == {}
    assert [path for path in shared if os.path.exists(path)] == []
    assert_ports_free(first)


def test_a_store_that_is_damaged_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    topics = tmp_path / "store" / "config" / "topics.json"
    topics.parent.mkdir(parents=True)
    topics.write_text("{ no json")
    with running_up(tmp_path / "store") as up:
        code, errors = up.command.wait_end(STOP_SECONDS_MAX)
        assert code == 1
        [line] = errors.splitlines()
        assert line.startswith("wakelog: ") and "topics.json" in line and ".bak" in line
        assert wait_gone(up) == {}
        assert_ports_free(up)
    assert topics.read_text() == "{ no json"
