"""The directory for sockets and shared pages of a deployment in one process.

A process that is killed leaves its directory behind, and the next start removes it. Each process
holds a lock in its own directory, which the kernel frees with the process. Process ids would mean
nothing where several containers share the temporary directory.

Source: no counterpart in 4.9.3, whose threads share a process.
"""

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PREFIX = "wakelog-local-"
LOCK_NAME = "owner"

YOUNG_SECONDS = 60.0
"""A younger directory may be about to be locked, and is kept."""


class RuntimeDirectory:
    """A directory that lives as long as this object, or its process."""

    def __init__(self, parent: Path | None = None) -> None:
        """Make a directory in `parent`, and remove those of dead processes there."""
        parent = parent or Path(tempfile.gettempdir())
        _sweep(parent, time.time())
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._lock_fd = os.open(self.path / LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the directory and what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock_fd)


def _sweep(parent: Path, now_seconds: float) -> None:
    """Remove the directories of dead processes; those of other users stay."""
    for path in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if now_seconds - path.stat().st_mtime >= YOUNG_SECONDS and not _is_held(path):
                shutil.rmtree(path, ignore_errors=True)


def _is_held(path: Path) -> bool:
    """Whether a process has the lock in a directory. Raises: OSError."""
    try:
        fd = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
