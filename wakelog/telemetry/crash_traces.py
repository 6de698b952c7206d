"""The stack of a process that crashes, kept beside its logs.

A fault of memory, or an `abort` in a library, ends a process at once: nothing of it reaches a log.
Python can write the stack of its threads first (`faulthandler`), to a file that is open by then. A
process that is killed, by the kernel for example when memory is short, leaves nothing.

All processes of a log directory add to one file. It is empty until one crashes.

Source: no counterpart in 4.9.3; Java writes hs_err_pidN.log.
"""

import contextlib
import faulthandler
import os
from pathlib import Path
from typing import Final

CRASH_FILE: Final = "crashes.log"
FILE_MODE: Final = 0o640
CAUSE_BYTES_MAX: Final = 4_096
"""How much of the newest stack is read for its first line."""

NO_TRACE: Final = f"no stack in {CRASH_FILE}: it was killed, or its process was ended"

_held: list[int] = []
"""The file in which this process writes; open for its life, since a crash cannot open one."""


def keep_crash_traces(directory: Path) -> None:
    """Write the stacks of this process to the directory's file if it crashes.

    Where the file cannot be made, stacks go where they went before.
    """
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(directory / CRASH_FILE, flags, FILE_MODE)
        faulthandler.enable(descriptor)
        for each in _held:
            os.close(each)
        _held[:] = [descriptor]


class Crashes:
    """What crashes have added to a directory's file since the last look."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / CRASH_FILE
        self._seen_bytes = self._size_bytes()

    def cause(self) -> str:
        """Return the first line of what was added, or that there is nothing."""
        begin, self._seen_bytes = self._seen_bytes, self._size_bytes()
        with contextlib.suppress(OSError), self._path.open("rb") as file:
            file.seek(begin)
            line, _, _ = file.read(CAUSE_BYTES_MAX).partition(b"\n")
            return line.decode(errors="replace") or NO_TRACE
        return NO_TRACE

    def _size_bytes(self) -> int:
        with contextlib.suppress(OSError):
            return self._path.stat().st_size
        return 0
