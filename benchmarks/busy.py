"""Processes that compute all the time: a broker shares its cores with other programs."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_COMPUTE = "while True: pass"


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep so many processes busy meanwhile."""
    started = [subprocess.Popen([sys.executable, "-c", _COMPUTE]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
