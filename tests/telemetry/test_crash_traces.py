"""A process that crashes leaves its stack, and others can tell why it ended."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from wakelog.telemetry.crash_traces import CRASH_FILE, NO_TRACE, Crashes

pytestmark = pytest.mark.process

PROGRAM = """
import os, sys
from pathlib import Path
from wakelog.telemetry.crash_traces import keep_crash_traces

def at_fault():
    os.kill(os.getpid(), int(sys.argv[2]))

for _ in range(2):
    keep_crash_traces(Path(sys.argv[1]))
at_fault()
"""


def end(directory: Path, number: int) -> int:
    """Run a program that ends by a signal; return its exit code."""
    command = [sys.executable, "-c", PROGRAM, str(directory), str(number)]
    return subprocess.run(command, check=False).returncode


def test_a_crash_leaves_a_stack_and_its_cause_is_read_once(tmp_path: Path) -> None:
    crashes = Crashes(tmp_path)
    assert end(tmp_path, signal.SIGSEGV) == -signal.SIGSEGV
    assert "in at_fault" in (tmp_path / CRASH_FILE).read_text()
    assert crashes.cause() == "Fatal Python error: Segmentation fault"
    assert crashes.cause() == NO_TRACE
    assert Crashes(tmp_path).cause() == NO_TRACE
    assert end(tmp_path, signal.SIGBUS) == -signal.SIGBUS
    assert crashes.cause() == "Fatal Python error: Bus error"


def test_a_kill_leaves_none(tmp_path: Path) -> None:
    crashes = Crashes(tmp_path)
    assert end(tmp_path, signal.SIGKILL) == -signal.SIGKILL
    assert os.listdir(tmp_path) == [CRASH_FILE]
    assert crashes.cause() == NO_TRACE


def test_a_directory_that_is_not_there_ends_nothing(tmp_path: Path) -> None:
    assert end(tmp_path / "none", signal.SIGTERM) == -signal.SIGTERM
    assert Crashes(tmp_path / "none").cause() == NO_TRACE
