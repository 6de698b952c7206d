"""What this program is called, and its exit codes."""

import shutil
import sys
from pathlib import Path

FAILED = 1
MISUSED = 2

SIGNALLED = 128
"""Plus its number: the exit code that shells give to what a signal ended."""

COMPLETE_NAME = "_WAKELOG_COMPLETE"
"""In the environment of a program that a shell runs to complete a line."""


def command_line() -> str:
    """Return how a user calls this program again."""
    called = Path(sys.argv[0]).name
    if called == "wakelog" and shutil.which("wakelog") is not None:
        return "wakelog"
    return f"{sys.executable} -m wakelog"
