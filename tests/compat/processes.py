"""A process of a test: started with its output in a file, waited for, and ended for certain."""

import atexit
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.compat.forked_programs import ForkedProcess, start_forked

POLL_SECONDS = 0.05
HOLD_SECONDS_MAX = 10.0
# Below the range from which the kernel takes ports for connections, so that one free now stays so.
FIRST_PORT = 20_001
LAST_PORT = 32_001
PART_PORTS = 500
"""So many at once belong to one process: two at a time found the same port free."""


class ProcessFailed(Exception):
    """A process ended early, or did not do in time what it was waited for."""


class TestProcess:
    """One child process in a group of its own, so that a Ctrl-C reaches it only through us."""

    __test__ = False  # the name is a noun, no test

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: dict[str, str],
        log_path: Path,
        cwd: Path | None = None,
        is_forked: bool = False,
    ) -> None:
        """is_forked: whether a `wakelog` that is imported already may do what the command says."""
        self._log_path = log_path
        self._process: subprocess.Popen[bytes] | ForkedProcess
        with open(log_path, "ab") as log:
            if is_forked:
                folder, output = cwd or Path.cwd(), log.fileno()
                forked = start_forked(command[1:], environment=env, folder=folder, output=output)
                if forked is not None:
                    self._process = forked
                    return
            self._process = subprocess.Popen(
                command,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def process_id(self) -> int:
        """Give the id of the process, for signals that a test sends."""
        return self._process.pid

    def wait_until(self, true: Callable[[], bool], *, seconds_max: float, what: str) -> None:
        """Poll until `true` holds.

        Raises:
            ProcessFailed: if the process ends first, or the time does; with its last output.
        """
        end = time.monotonic() + seconds_max
        while not true():
            if self._process.poll() is not None:
                raise ProcessFailed(f"ended with {self._process.returncode} before {what}{self}")
            if time.monotonic() > end:
                raise ProcessFailed(f"not {what} within {seconds_max} s{self}")
            time.sleep(POLL_SECONDS)

    def wait_end(self, *, seconds_max: float) -> int:
        """Wait for a process that ends by itself, and return its exit code.

        Raises:
            ProcessFailed: if it did not end in time; it is killed then.
        """
        try:
            return self._process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            raise ProcessFailed(f"did not end within {seconds_max} s{self}") from None

    def end(self, by: signal.Signals, *, seconds_max: float) -> int:
        """Send a signal, wait for the end, and return the exit code.

        Raises:
            ProcessFailed: if it did not end in time; it is killed then.
        """
        if self._process.poll() is None:
            self._process.send_signal(by)
        return self.wait_end(seconds_max=seconds_max)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def __str__(self) -> str:
        lines = self._log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n  ".join(["; its last output:", *lines[-15:]])


def hold(process_ids: Iterable[int]) -> None:
    """Stop processes, to be continued later; those that are gone are held already."""
    held = list(process_ids)
    for process_id in held:
        with suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGSTOP)
    # A thread that is in the kernel stops when it leaves it, and may be writing a file until then.
    end = time.monotonic() + HOLD_SECONDS_MAX
    while any(not states_of(process_id) <= set("tTZX") for process_id in held):
        if time.monotonic() > end:
            raise ProcessFailed("a process does not stop")
        time.sleep(POLL_SECONDS)


def states_of(process_id: int) -> set[str]:
    """Return the states of a process's threads, letters of the kernel's; none if it is gone."""
    states = set()
    for path in Path(f"/proc/{process_id}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            states.add(path.read_text().rpartition(")")[2].split()[0])
    return states


def free_port(*distances: int) -> int:
    """Return an odd port that is free on the loopback, as are those at these distances from it.

    None of them is given away again, by this process or another: whoever asked first may not have
    bound it yet.
    """
    with _giving:
        while True:
            candidates = [port for part in _own_parts for port in part if port % 2]
            random.SystemRandom().shuffle(candidates)
            own = {port for part in _own_parts for port in part}
            for port in candidates:
                wanted = {port + distance for distance in (0, *distances)}
                if wanted <= own - _given_away and all(map(_is_free, wanted)):
                    _given_away.update(wanted)
                    return port
            _own_parts.append(_claim_part())


_given_away: set[int] = set()
_own_parts: list[range] = []
_giving = threading.Lock()


def _claim_part() -> range:
    """Return a part of the ports that no process of a test has, to keep until this one ends."""
    for first in range(FIRST_PORT, LAST_PORT, PART_PORTS):
        claim = socket.socket(socket.AF_UNIX)
        try:
            # A name without a file: the kernel gives it to one socket, and forgets it with that.
            claim.bind(f"\0wakelog-test-ports-{first}")
        except OSError:
            claim.close()
            continue
        atexit.register(claim.close)  # which keeps it until then
        return range(first, min(first + PART_PORTS, LAST_PORT))
    raise ProcessFailed("no free port on the loopback")


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
