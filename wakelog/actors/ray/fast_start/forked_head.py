"""A head that is a fork of `wakelog up`: Ray is imported once for both, and for all workers.

    wakelog up  --- fork ---> head --- fork ---> template --- fork ---> each worker

`up` imports Ray with the environment of the workers, forks the head, and goes on as a driver with
an environment of its own. A program that calls wakelog may run threads, or have imported Ray
otherwise: for it the head is a program too (`private_ray`).

Ray is told that a worker ends with `up`; it does so with its raylet, too, which ends with the head.

Invariants:
- the process that forks runs one thread, and has no log file open.
- the head has no descriptor of it but the three that it is given.

Source: ray._raylet.setproctitle (2.60).
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, Final, NoReturn

from wakelog.actors.ray.fast_start import guard, worker_template
from wakelog.telemetry.lean_import import uncollected

TITLE: Final = "wakelog head"
"""What the head and the template are called in a list of processes."""

END_CHECK_SECONDS: Final = 0.01
DESCRIPTORS_MAX: Final = 1 << 16
_STREAMS_COUNT: Final = 3


class ForkedHead:
    """A head that runs; it is used as a `subprocess.Popen` with pipes is."""

    def __init__(
        self, run: Callable[[], int], environment: Mapping[str, str], errors: IO[Any]
    ) -> None:
        """Fork. run: the head, which returns its exit code; errors: its standard error."""
        given, self._stdin = os.pipe()
        self._stdout, said = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become_head(run, environment, (given, said, errors.fileno()))
        os.close(given)
        os.close(said)
        self.stdin: IO[bytes] = os.fdopen(self._stdin, "wb", buffering=0)
        self.stdout: IO[bytes] = os.fdopen(self._stdout, "rb", buffering=0)
        self._exit_code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        if self._exit_code is None:
            process_id, status = os.waitpid(self.pid, os.WNOHANG)
            if process_id:
                self._exit_code = os.waitstatus_to_exitcode(status)
        return self._exit_code

    def wait(self, seconds_max: float) -> int:
        """Return the exit code once it has ended. Raises: subprocess.TimeoutExpired."""
        end = time.monotonic() + seconds_max
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(TITLE, seconds_max)
            time.sleep(END_CHECK_SECONDS)
        return code

    def kill(self) -> None:
        """Kill it."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def can_fork() -> bool:
    """Return whether this process may import Ray for workers, and be forked."""
    if sys.platform != "linux" or "ray" in sys.modules:
        return False
    return len(os.listdir("/proc/self/task")) == 1


def import_for_workers(environment: Mapping[str, str]) -> str | None:
    """Import Ray with the environment of workers, and return what `guard.missing_name` does."""
    with (
        uncollected(),
        _environment(environment),
        worker_template.prepare_import(os.getpid()),
    ):
        return guard.missing_name()


@contextlib.contextmanager
def _environment(environment: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    _replace_environment(environment)
    try:
        yield
    finally:
        _replace_environment(before)


def _replace_environment(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def _become_head(
    run: Callable[[], int], environment: Mapping[str, str], streams: tuple[int, int, int]
) -> NoReturn:
    """Run the head or a worker in this process, a fork, and end it: nothing returns from here."""
    code = 1
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for standard, descriptor in enumerate(streams):
            os.dup2(descriptor, standard)
        os.closerange(_STREAMS_COUNT, DESCRIPTORS_MAX)
        _replace_environment(environment)
        _set_title()
        code = run()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _set_title() -> None:
    import ray._raylet

    raylet: Any = ray._raylet
    raylet.setproctitle(TITLE)
