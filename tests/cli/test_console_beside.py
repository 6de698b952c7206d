"""The console beside `up`: what is said of its process, and that it ends with its parent."""

import asyncio
import os
import signal
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.cli.commands import running
from tests.cli.fakes import plan_in
from tests.cli.test_console_memory import RESIDENT_MIB_MAX, resident_mib
from tests.compat.processes import free_port
from wakelog.cli import console_beside as module
from wakelog.cli import port_holder
from wakelog.cli.console_beside import (
    ActorConsole,
    ChildConsole,
    ConsoleBeside,
    ConsoleState,
    console_words,
    last_line,
    make_console_beside,
)
from wakelog.cli.port_holder import Holder, find_port_holder

SECONDS_MAX = 30.0


@pytest.mark.parametrize(
    ("text", "line"),
    [("", ""), ("wakelog: a\nwakelog: b is taken. Stop it.\n \n", "b is taken. Stop it.")],
)
def test_the_last_line_is_kept(text: str, line: str) -> None:
    assert last_line(text) == line


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not true():
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def quick_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.001)


class Course:
    """A console whose states are given; the last one stays."""

    def __init__(self, states: Sequence[ConsoleState], error: Exception | None = None) -> None:
        self._states = list(states)
        self._error = error
        self.is_past = False

    async def start(self) -> None:
        pass

    async def state(self) -> ConsoleState:
        if len(self._states) > 1:
            return self._states.pop(0)
        self.is_past = True
        return self._states[0]

    async def end(self) -> None:
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()


def said_of(course: Course) -> list[str]:
    said: list[str] = []

    async def main() -> None:
        beside = ConsoleBeside(course)
        beside.begin(said.append)
        await until(lambda: course.is_past)
        await beside.end()

    asyncio.run(main())
    return said


def test_another_process_and_a_failure_are_said_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "END_SECONDS_MAX", 0.01)
    failed = ConsoleState(0, "port 8080 is taken")
    states = [
        ConsoleState(0),
        ConsoleState(7),
        ConsoleState(0),
        ConsoleState(8),
        ConsoleState(8),
        failed,
        failed,
        ConsoleState(9),
    ]
    assert said_of(Course([*states, ConsoleState(9)])) == [
        "console ended and runs again, as process 8",
        "console: port 8080 is taken",
        "console ended and runs again, as process 9",
        "console works again",
    ]


def test_a_console_that_does_not_end_holds_up_nothing() -> None:
    assert said_of(Course([ConsoleState(7)], OSError("gone"))) == []


def test_the_words_name_cluster_port_account_and_tls(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, console_port=8090, console_account="/a.yml")
    words = "console --name-server 127.0.0.1:9876 --port 8090 --tls"
    audit = f"{plan.log_directory}/console_audit.log"
    wanted = [*words.split(), "--audit", audit, "--account", "/a.yml"]
    assert console_words(plan, ["--tls"]) == wanted


def test_a_console_is_an_actor_with_ray_and_a_child_without(tmp_path: Path) -> None:
    for is_local, kind in ((True, ChildConsole), (False, ActorConsole)):
        made = make_console_beside(plan_in(tmp_path, console_port=8090, is_local=is_local), [])
        assert made is not None and isinstance(made._process, kind)
    assert make_console_beside(plan_in(tmp_path), []) is None


@pytest.mark.process
@pytest.mark.slow
def test_a_child_that_fails_says_why_and_ends_at_once_when_asked() -> None:
    async def main() -> None:
        console = ChildConsole(["console", "--name-server", "nowhere"])
        await console.start()
        async with asyncio.timeout(SECONDS_MAX):
            while not (state := await console.state()).failure:
                await asyncio.sleep(0.01)
        assert "nowhere" in state.failure
        await console.end()
        assert (await console.state()).process_id == 0

    asyncio.run(main())


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=SECONDS_MAX) as page:
            return b"wakelog" in page.read().lower()
    except OSError:
        return False


def wait_until(true: Callable[[], object]) -> None:
    end_seconds = time.monotonic() + SECONDS_MAX
    while not true():
        assert time.monotonic() < end_seconds
        time.sleep(0.05)


def server_of(port: int) -> int:
    holder = find_port_holder(port)
    return 0 if holder is None else holder.process_id


def is_alive(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "ending"),
    [
        (["--local"], signal.SIGTERM),
        pytest.param([], signal.SIGKILL, marks=pytest.mark.ray),
        pytest.param(["--local"], signal.SIGKILL, marks=pytest.mark.long),
        pytest.param([], signal.SIGTERM, marks=[pytest.mark.ray, pytest.mark.long]),
    ],
)
def test_up_shows_a_console_starts_it_again_and_takes_it_along(
    tmp_path: Path, ending: signal.Signals, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_holder, "holder_of", lambda found, proc: Holder(found, ""))
    port, name_server = free_port(), free_port()
    words = ["up", *flags, "--store", str(tmp_path / "store"), "--broker-port", "0"]
    words += ["--namesrv-port", str(name_server), "--metrics-port", "0"]
    words += ["--console-port", str(port)]
    own = {"TMPDIR": str(tmp_path)}  # what is killed leaves files behind
    with running(["-m", "wakelog"], *words, environment=own) as up:
        url = f"http://127.0.0.1:{port}"
        assert up.wait_line("console  ").split() == ["console", url]
        wait_until(lambda: answers(url))
        with urllib.request.urlopen(f"{url}/live?of=%2F", timeout=SECONDS_MAX):
            assert resident_mib(port) < RESIDENT_MIB_MAX
        first = server_of(port)
        os.kill(first, signal.SIGKILL)
        up.wait_line("wakelog: console ended and runs again, as process ")
        wait_until(lambda: answers(url))
        second = server_of(port)
        assert second not in (0, first)
        up.signal(ending)
        code, _ = up.wait_end()
        assert code == (0 if ending is signal.SIGTERM else -signal.SIGKILL)
        wait_until(lambda: not is_alive(second))
