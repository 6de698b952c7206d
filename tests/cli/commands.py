"""A command line running as a process of its own, watched line by line."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS_MAX = 30.0


class Command:
    """A process whose output arrives in `lines`."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        ignores_interrupt: bool,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if ignores_interrupt:
            # As a shell without job control starts what it puts into the background.
            words = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *words]
        self._process = subprocess.Popen(
            words,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._arrived: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def process_id(self) -> int:
        return self._process.pid

    def wait_line(self, part: str, seconds_max: float = SECONDS_MAX) -> str:
        """Return the next line with `part` in it."""
        end = time.monotonic() + seconds_max
        while True:
            line = self._arrived.get(timeout=max(0.001, end - time.monotonic()))
            if line is None:
                raise AssertionError(f"ended before {part!r}: {self.lines}, {self.wait_end()}")
            if part in line:
                return line

    def signal(self, number: signal.Signals, *, group: bool = False) -> None:
        (os.killpg if group else os.kill)(self._process.pid, number)

    def write_line(self, line: str = "") -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def wait_end(self, seconds_max: float = SECONDS_MAX) -> tuple[int, str]:
        """Return exit code and what was written to standard error."""
        code = self._process.wait(seconds_max)
        self._reader.join(SECONDS_MAX)
        assert self._process.stderr is not None
        return code, self._process.stderr.read()

    def close(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))
            self._arrived.put(self.lines[-1])
        self._arrived.put(None)


@contextmanager
def running(
    program: Sequence[str],
    *arguments: str,
    ignores_interrupt: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Command]:
    """Run `python *program *arguments`; kill it at the end if it still runs."""
    command = Command(
        [sys.executable, *program, *arguments],
        ignores_interrupt=ignores_interrupt,
        environment=environment,
    )
    try:
        yield command
    finally:
        command.close()
