"""`wakelog` as processes that need not import it: forks of one, the template, that has.

    test session  --- starts --->  template  --- forks --->  each `wakelog up`

To import what a broker in one process needs takes 0.6 s of processor time, three quarters of its
start and end. The session asks the template over a socket, with the command line and where output
goes. It is answered with the fork's id; a pipe of each fork has the exit code once it has ended.

A fork does what `python -m wakelog` does after its imports. Only its name and its environment in
/proc are the template's. So a program is started where the environment differs, and by tests of
the start itself: tests/cli/test_up.py, tests/test__main__.py, tests/test_docs.py.

The template ends with the session: `end_standbys` closes it, or the kernel its socket.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from tests.compat.standby_processes import end_with_session

ROOT: Final = Path(__file__).resolve().parent.parent.parent
MODULES: Final = (
    *("wakelog.cli.app", "wakelog.cli.up", "wakelog.actors.deploy.local"),
    *("wakelog.cli.admin.command", "wakelog.cli.cluster.commands", "wakelog.cli.spark"),
    *("encodings.idna", "javaproperties", "lark"),
)
"""What `wakelog up --local` has imported once it serves, by the modules that bring the rest."""

OWN_NAMES: Final = frozenset({"TMPDIR", "PYTEST_CURRENT_TEST"})
"""Variables that nothing reads while it is imported: a fork gets its own."""

TEMPLATES_MAX: Final = 2
"""In one session, whose environment is another while it runs Spark."""

REQUEST_BYTES_MAX: Final = 1 << 17
_DESCRIPTORS_MAX: Final = 1 << 16
_STREAMS_COUNT: Final = 3


class ForkedProcess:
    """A fork of the template; it is used as a `subprocess.Popen` is."""

    def __init__(self, pid: int, ended: int) -> None:
        """ended: a pipe that has the exit code once there is one; it is closed then."""
        self.pid = pid
        self.returncode: int | None = None
        self._ended = ended
        self._turn = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self._read(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended. Raises: subprocess.TimeoutExpired."""
        code = self._read(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("a fork of wakelog", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _read(self, seconds_max: float | None) -> int | None:
        with self._turn:
            if self.returncode is None and _is_readable(self._ended, seconds_max):
                said = os.read(self._ended, 16)
                os.close(self._ended)
                assert said, "the template ended before its fork"
                self.returncode = int(said)
            return self.returncode


def _is_readable(descriptor: int, seconds_max: float | None) -> bool:
    waiting = select.poll()  # `select` knows no descriptor above 1,023
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if seconds_max is None else seconds_max * 1_000))


class Template:
    """The process that is forked, as its session sees it."""

    def __init__(self) -> None:
        """Start it; the first fork waits until it has imported what it should."""
        self.environment = dict(os.environ)
        self._turn = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def serves(self, environment: Mapping[str, str]) -> bool:
        """Return whether a program with this environment is what a fork would be."""
        return _is_same(self.environment, environment)

    def fork(
        self, words: Sequence[str], *, environment: Mapping[str, str], folder: Path, output: int
    ) -> ForkedProcess:
        """Run `python *words` in a fork. output: a descriptor, for both streams of it."""
        request = {"words": list(words), "environment": dict(environment), "folder": str(folder)}
        ended, ends = os.pipe()
        try:
            with self._turn:
                socket.send_fds(self._socket, [json.dumps(request).encode()], [output, ends])
                answer = self._socket.recv(16)
        finally:
            os.close(ends)
        assert answer, "the template of wakelog has ended"
        return ForkedProcess(int(answer), ended)

    def close(self) -> None:
        """End it. Forks that run are not its business."""
        self._socket.shutdown(socket.SHUT_RDWR)  # a fork of this session may hold it, too
        self._socket.close()
        self._process.wait()


_templates: list[Template] = []
_starting = threading.Lock()


def start_forked(
    words: Sequence[str], *, environment: Mapping[str, str], folder: Path, output: int
) -> ForkedProcess | None:
    """Run `python *words` in a fork; None where a program would be something else.

    words: `-m` and a module, or a path, and arguments. output: a descriptor, for both streams.
    """
    with _starting:
        template = next((each for each in _templates if each.serves(environment)), None)
        if not template and len(_templates) < TEMPLATES_MAX and _is_same(os.environ, environment):
            template = Template()
            _templates.append(template)
            end_with_session(template)
    if template is None:
        return None
    return template.fork(words, environment=environment, folder=folder, output=output)


def _is_same(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    names = (one.keys() | other.keys()) - OWN_NAMES
    return all(one.get(name) == other.get(name) for name in names)


def _serve(session: socket.socket) -> list[str] | None:
    """Fork for each request. Return the words of one in its fork, None once the session ends."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([session.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 512)
            _report_ended(running)
        if session.fileno() in ready:
            data, descriptors, _, _ = socket.recv_fds(session, REQUEST_BYTES_MAX, 2)
            if not data:
                return None
            output, ends = descriptors
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of threads: numpy's rest, and know of forks
                pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                return _become(json.loads(data), output)
            running[pid] = ends
            os.close(output)
            session.send(str(pid).encode())


def _report_ended(running: dict[int, int]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        ends = running.pop(pid)
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
            os.write(ends, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(ends)


def _become(request: dict[str, Any], output: int) -> list[str]:
    """Make of a fork what a new process is, and return its words."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.closerange(_STREAMS_COUNT, _DESCRIPTORS_MAX)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    tempfile.tempdir = None
    words: list[str] = request["words"]
    return words


def _run(words: Sequence[str]) -> None:
    """Run what `python *words` would."""
    if words[0] == "-m":
        sys.argv[:] = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = words
        runpy.run_path(words[0], run_name="__main__")


def main() -> NoReturn:
    """Be the template, and in each fork the program that was asked for."""
    for name in MODULES:
        importlib.import_module(name)
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as session:
        words = _serve(session)
        if words is not None:
            session.detach()  # a fork has closed it
    if words is not None:
        _run(words)
    sys.exit(0)


if __name__ == "__main__":
    main()
