"""What this program is called and which version it is."""

import shutil
import sys
from importlib import metadata
from pathlib import Path


def version() -> str:
    """Return the version of the installed distribution."""
    try:
        return metadata.version("wakelog")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def command_line() -> str:
    """Return how a user calls this program again."""
    called = Path(sys.argv[0]).name
    if called == "wakelog" and shutil.which("wakelog") is not None:
        return "wakelog"
    return f"{sys.executable} -m wakelog"
