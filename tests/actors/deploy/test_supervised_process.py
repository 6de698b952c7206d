"""An actor that dies is noticed, and one that hangs is killed, on this node and on another."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import pytest
from ray.exceptions import RayActorError

from tests.actors.bounded import run
from tests.actors.handles import FakeHandle
from wakelog.actors.deploy import supervised_process as module
from wakelog.actors.deploy.group import BROKER
from wakelog.actors.deploy.supervised_process import (
    BROKER_HUNG_SECONDS_MAX,
    BUSY_SECONDS_MAX,
    HUNG_SECONDS_MAX,
    SupervisedProcess,
)


@pytest.fixture(autouse=True)
def nameless_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be on no node of Ray, whatever Ray other tests of this process have joined."""
    monkeypatch.setattr(module, "own_node_id", lambda: "")


class Actor:
    """Answers with one process id after the other; the last one repeatedly."""

    def __init__(self, *answers: int | Exception) -> None:
        self.answers = list(answers)
        self.asked_count = 0

    async def ping(self) -> int:
        self.asked_count += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def process_of(process_id: int, *, node_id: str, actor: Actor | None = None) -> SupervisedProcess:
    make = partial(FakeHandle, actor or Actor(process_id))
    found = SupervisedProcess(BROKER, make, "broker-a")
    found.node_id = node_id
    found.on_answer(process_id)
    return found


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(command) as process:
        yield process
        process.kill()


def test_a_process_of_this_node_is_watched_and_killed_by_its_id(
    sleeper: subprocess.Popen[bytes],
) -> None:
    async def main() -> None:
        here = process_of(sleeper.pid, node_id="")
        died = asyncio.ensure_future(here.wait_death())
        await asyncio.sleep(0)
        assert not died.done()
        here.kill()
        await died
        assert sleeper.wait() == -signal.SIGKILL
        here.kill()  # gone meanwhile
        assert here.killed_count == 2

    run(main)


def test_without_an_answer_there_is_no_process_to_kill(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("killed a process"))
    unknown = SupervisedProcess("Reput", lambda: None, "broker-a")
    unknown.node_id = ""
    unknown.kill()
    assert unknown.hung_seconds_max == HUNG_SECONDS_MAX < BROKER_HUNG_SECONDS_MAX


@pytest.mark.parametrize("last", [2, RayActorError()], ids=["another process", "no process"])
def test_an_actor_of_another_node_is_asked(
    monkeypatch: pytest.MonkeyPatch, last: int | Exception
) -> None:
    monkeypatch.setattr(module, "PING_SECONDS", 0.001)

    async def main() -> None:
        actor = Actor(1, 1, last)
        await process_of(1, node_id="elsewhere", actor=actor).wait_death()
        assert actor.asked_count == 3

    run(main)


def test_no_process_here_is_killed_for_an_actor_of_another_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restarted: list[object] = []
    monkeypatch.setattr(module, "restart_actor", restarted.append)
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("killed a process"))
    elsewhere = process_of(os.getpid(), node_id="elsewhere")
    elsewhere.kill()
    assert restarted == [elsewhere.handle]


def test_a_process_that_does_nothing_is_hung_sooner_than_a_busy_one(
    sleeper: subprocess.Popen[bytes],
) -> None:
    here = process_of(sleeper.pid, node_id="")
    while here.doing() is not None:  # it starts, and may read its program from the disk
        pass
    assert not here.is_hung(None)
    here.answered_at -= BROKER_HUNG_SECONDS_MAX
    assert here.is_hung(None)
    assert not here.is_hung("computing, 99% of a CPU")
    here.answered_at -= BUSY_SECONDS_MAX
    assert here.is_hung("computing, 99% of a CPU")
    os.kill(sleeper.pid, signal.SIGSTOP)
    while here.doing() != "stopped by a signal":
        pass
    here.kill()
    assert here.doing() is None, "what comes next is another process"


def test_of_an_actor_elsewhere_it_is_not_known_what_it_does() -> None:
    assert process_of(os.getpid(), node_id="elsewhere").doing() is None
