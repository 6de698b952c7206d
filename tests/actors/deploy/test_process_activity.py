"""What a process is seen to do: compute, be stopped, wait, or nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from wakelog.actors.deploy.process_activity import Sample, activity, read_sample

pytestmark = pytest.mark.process


def sample(seconds: float, cpu_seconds: float, states: str = "S") -> Sample:
    return Sample(seconds, cpu_seconds, frozenset(states))


@pytest.mark.parametrize(
    ("after", "doing"),
    [
        (sample(10, 5.5), "computing, 50% of a CPU"),
        (sample(10, 1.5, "SR"), "computing, 10% of a CPU"),
        (sample(10, 0.6, "SR"), None),
        (sample(10, 0.6, "SD"), "waiting for the disk"),
        (sample(10, 0.5, "T"), "stopped by a signal"),
        (sample(0, 0.5), None),
    ],
)
def test_what_two_samples_say(after: Sample, doing: str | None) -> None:
    assert activity(sample(0, 0.5), after) == doing


def test_a_process_that_is_gone_has_no_sample() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert read_sample(process.pid) is None


def wait_for(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not done():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_stopped_process_is_seen_as_one_and_a_busy_one_computes() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            first = read_sample(process.pid)
            assert first is not None

            def does(what: str) -> bool:
                now = read_sample(process.pid)
                return now is not None and (activity(first, now) or "").startswith(what)

            wait_for(lambda: does("computing"))
            os.kill(process.pid, signal.SIGSTOP)
            wait_for(lambda: does("stopped"))
        finally:
            process.kill()
