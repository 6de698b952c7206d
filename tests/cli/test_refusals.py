"""What a user does wrong, with the real program: one line that says why, and nothing written."""

import signal
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.commands import running
from tests.compat.processes import free_port
from tests.kinds import some_daily

pytestmark = [pytest.mark.process, pytest.mark.slow]

PROGRAM = ("-m", "wakelog")
ABOVE_EVERY_ADDRESS = "192.0.2.1"  # reserved for documents: no host has it


def up(store: Path, *arguments: str) -> list[str]:
    port = free_port(-2, 1, 10)
    return [
        *("up", "--local", "--store", str(store)),
        *("--broker-port", str(port), "--namesrv-port", str(port + 10), *arguments),
    ]


def assert_refused(words: Sequence[str], code: int, *parts: str) -> None:
    with running(PROGRAM, *words) as command:
        ended_with, errors = command.wait_end()
        assert (ended_with, command.lines) == (code, [])
    [line] = errors.splitlines()
    assert line.startswith("wakelog: ") and line.endswith(".")
    for part in parts:
        assert part in line


def test_a_taken_port_is_reported_with_its_holder_and_the_flag_that_moves_it(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", free_port(-2, 1))) as taken:
        port = taken.getsockname()[1]
        words = up(tmp_path / "store", "--broker-port", str(port))
        cause = f"port {port}, for broker-a"
        assert_refused(words, 1, cause, "is taken by process ", "--broker-port")
    assert not (tmp_path / "store").exists()


REFUSED = {
    "an advertised address that leads elsewhere": (
        ["--advertise", ABOVE_EVERY_ADDRESS],
        1,
        [f"would get {ABOVE_EVERY_ADDRESS}:", "does not lead here", "--advertise"],
    ),
    "an advertised name that is unknown": (
        ["--advertise", "nowhere.invalid"],
        2,
        ["--advertise nowhere.invalid is not known", "`ip addr`"],
    ),
    "a disk without room": (
        ["--set", "transientStorePoolEnable=true", "--set", "transientStorePoolSize=1024"],
        1,
        ["/dev/shm needs 1024.0 GiB and has ", "--set transientStorePoolSize=2"],
    ),
    "a value that cannot be": (
        ["--set", "flushDiskType=SOMETIMES"],
        2,
        ["flushDiskType=SOMETIMES", "(--set)", "Give ASYNC_FLUSH or SYNC_FLUSH"],
    ),
    "a port that is none": (
        ["--broker-port", "99999"],
        2,
        ["listenPort=99999", "(--broker-port)", "Give 3 to 65534"],
    ),
}


@pytest.mark.parametrize("case", some_daily(3, REFUSED))
def test_an_impossible_plan_is_reported_before_a_write(tmp_path: Path, case: str) -> None:
    arguments, code, parts = REFUSED[case]
    assert_refused(up(tmp_path / "store", *arguments), code, *parts)
    assert not (tmp_path / "store").exists()


def test_a_value_in_broker_conf_is_refused_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("brokerName=broker-x\nbrokerRole=KING\n")
    words = up(tmp_path / "store", "--config", str(path))
    assert_refused(words, 2, "brokerRole=KING", f"({path})", "Give ")


def test_an_unknown_key_in_broker_conf_is_a_warning_only(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("brokerName=broker-x\nflushDiskTyp=SYNC_FLUSH\n")
    sizes = ("--set", "mappedFileSizeCommitLog=1048576", "--set", "maxHashSlotNum=1000")
    words = up(tmp_path / "store", "--config", str(path), "--metrics-port", "0", *sizes)
    with running(PROGRAM, *words) as command:
        command.wait_line("ready after")
        [warning] = [line for line in command.lines if "flushDiskTyp" in line]
        assert "did you mean flushDiskType?" in warning
        assert any(line.startswith("broker-x ") for line in command.lines)
        command.signal(signal.SIGTERM)
        assert command.wait_end() == (0, "")


def test_a_store_that_is_damaged_names_the_file_and_the_remedy(tmp_path: Path) -> None:
    topics = tmp_path / "store" / "config" / "topics.json"
    topics.parent.mkdir(parents=True)
    topics.write_text("{ no json")
    with running(PROGRAM, *up(tmp_path / "store", "--metrics-port", "0")) as command:
        code, errors = command.wait_end()
        assert code == 1
        [line] = errors.splitlines()
        assert "topics.json" in line and ".bak" in line
    assert topics.read_text() == "{ no json"


def test_a_second_name_server_in_one_folder_is_refused_with_the_first(tmp_path: Path) -> None:
    def words() -> list[str]:
        own = "--store", str(tmp_path), "--port", str(free_port()), "--metrics-port", "0"
        return ["nameserver", *own]

    with running(PROGRAM, *words()) as first:
        first.wait_line("ready after")
        cause = f"{tmp_path} is already running in process {first.process_id} (wakelog nameserver"
        remedy = "Stop it with Ctrl-C in its terminal or", "give another --store."
        assert_refused(words(), 1, cause, *remedy)
        first.signal(signal.SIGTERM)
        assert first.wait_end() == (0, "")
