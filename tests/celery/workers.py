"""Workers of Celery as processes of their own, and a run in which some are killed."""

import importlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.documents import ROOT

START_SECONDS_MAX = 60
SENT_AT_ONCE_MAX = 50
QUIET = ("--without-mingle", "--without-gossip")


def environment(name_server: str, folder: Path) -> dict[str, str]:
    """Return what `tests.celery.app` reads, over the environment of this process."""
    more = {"WAKELOG_TEST_BROKER": f"rocketmq://{name_server}", "WAKELOG_TEST_FOLDER": str(folder)}
    more |= {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    more["TMPDIR"] = str(folder)  # what is killed leaves files
    return {**os.environ, **more}


@contextmanager
def tasks_at(name_server: str, folder: Path) -> Iterator[Any]:
    """Yield the module of tasks, which sends to this broker."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(name_server, folder).items():
            if name.startswith("WAKELOG_TEST_"):
                patch.setenv(name, value)
        sys.modules.pop("tests.celery.app", None)  # an app keeps its connections and its backend
        module = importlib.import_module("tests.celery.app")
        try:
            yield module
        finally:
            module.app.pool.force_close_all()
            module.app.close()


class Worker:
    """One worker, with its pool of processes."""

    def __init__(self, number: int, name_server: str, folder: Path, *options: str) -> None:
        words = ["-m", "celery", "-A", "tests.celery.app", "worker", "--loglevel=INFO"]
        words += ["--concurrency=2", f"--hostname=worker-{number}@host", *options]
        self.log = folder / f"worker-{number}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *words],
                env=environment(name_server, folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while " ready." not in (said := self.log.read_text()):
            assert self.process.poll() is None and time.monotonic() < deadline, said
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill the worker itself by signal 9; its pool hears of it by its pipes."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> str:
        """End in order, and return what it said."""
        self.process.terminate()
        self.process.wait(START_SECONDS_MAX)
        return self.log.read_text()

    def end(self) -> None:
        """Leave no process behind."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def running(*workers: Worker) -> Iterator[None]:
    """End all workers after the block."""
    try:
        for worker in workers:
            worker.wait_ready()
        yield
    finally:
        for worker in workers:
            worker.end()


def runs_of(folder: Path) -> Counter[int]:
    """Return how often each number was noted."""
    runs = folder / "runs"
    return Counter(map(int, runs.read_text().split() if runs.exists() else ()))


class Pace(NamedTuple):
    """How many tasks are sent, how fast, and how often a worker is killed."""

    tasks: int
    kills_max: int
    kill_every_seconds: float
    per_second: float


class Outcome(NamedTuple):
    """What became of the tasks of a run."""

    tasks: int
    kills: int
    lost: int
    repeated: int
    runs: int
    seconds: float


def kill_run(
    name_server: str,
    folder: Path,
    *,
    tasks: int,
    kills_max: int,
    kill_every_seconds: float,
    per_second: float,
) -> Outcome:
    """Send numbered tasks while workers are killed in turn, and return what was done.

    It ends when each task was done, or 60 s after the last one that was.
    """
    with tasks_at(name_server, folder) as module:
        pace = Pace(tasks, kills_max, kill_every_seconds, per_second)
        return _kill_run(module.note, name_server, folder, pace)


def _kill_run(note: Any, name_server: str, folder: Path, pace: Pace) -> Outcome:
    tasks = pace.tasks
    workers = [Worker(number, name_server, folder, *QUIET) for number in range(2)]
    kills, sent, began = 0, 0, time.monotonic()
    try:
        for worker in workers:
            worker.wait_ready()
        began = changed = killed = time.monotonic()
        done = 0
        while time.monotonic() < changed + START_SECONDS_MAX:
            due = int((time.monotonic() - began) * pace.per_second) + 1
            due = min(tasks, due, sent + SENT_AT_ONCE_MAX)
            for number in range(sent, due):
                note.delay(number)
            sent = due
            is_due = time.monotonic() > killed + pace.kill_every_seconds
            if is_due and kills < pace.kills_max:
                number = kills % 2
                workers[number].kill()
                kills, killed = kills + 1, time.monotonic()
                workers.append(workers[number])
                workers[number] = Worker(kills + 1, name_server, folder, *QUIET)
            if len(runs := runs_of(folder)) > done:
                done, changed = len(runs), time.monotonic()
            if done == tasks:
                break
            time.sleep(0.05)
        seconds = time.monotonic() - began
        for worker in workers[:2]:
            worker.stop()
    finally:
        for worker in workers:
            worker.end()
    runs = runs_of(folder)
    repeated = sum(count > 1 for count in runs.values())
    return Outcome(tasks, kills, tasks - len(runs), repeated, runs.total(), round(seconds, 1))
