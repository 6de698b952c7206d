"""`up` is forked for its head where that is safe, and the fork has nothing of it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from wakelog.actors.ray.fast_start.forked_head import TITLE

WAIT_SECONDS_MAX = 60.0

# A head that imports no Ray: it says what it is, and obeys the end of its input.
_HOST = """
import os, signal, subprocess, sys, tempfile, threading
from wakelog.actors.ray.fast_start import forked_head

forked_head._set_title = lambda: None
opened = open(sys.argv[1], "w")

def head():
    print("an error", file=sys.stderr, flush=True)
    print(os.getpid() == os.getsid(0), os.environ["COLOUR"], os.path.exists("/proc/self/fd/3"),
          signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, flush=True)
    sys.stdin.read()
    {end}

signal.signal(signal.SIGTERM, lambda *_: None)
with tempfile.TemporaryFile() as errors:
    head = forked_head.ForkedHead(head, {{**os.environ, "COLOUR": "blue"}}, errors)
    print(head.stdout.readline().decode().strip(), head.poll())
    try:
        head.wait(0.0)
    except subprocess.TimeoutExpired:
        print("runs")
    {stop}
    print(head.wait(60.0), head.poll(), "COLOUR" in os.environ)
    errors.seek(0)
    print(errors.read().decode().splitlines()[-1])
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("end", "stop", "code", "said"),
    [
        ("return 3", "head.stdin.close()", 3, "an error"),
        ("raise SystemExit(4)", "head.stdin.close()", 4, "an error"),
        ("raise ValueError('lost')", "head.stdin.close()", 1, "ValueError: lost"),
        ("return 0", "head.kill()", -signal.SIGKILL, "an error"),
    ],
)
def test_a_fork_is_a_process_of_its_own(
    tmp_path: Path, end: str, stop: str, code: int, said: str
) -> None:
    program = _HOST.format(end=end, stop=stop)
    command = [sys.executable, "-c", program, str(tmp_path / "opened")]
    environment = {key: value for key, value in os.environ.items() if key != "COLOUR"}
    found = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS_MAX,
        check=True,
        env=environment,
    )
    assert found.stdout.splitlines() == [
        "True blue False True None",
        "runs",
        f"{code} {code} False",
        said,
    ]


_WHERE = """
import sys, threading
from wakelog.actors.ray.fast_start.forked_head import can_fork
print(can_fork())
ended = threading.Event()
threading.Thread(target=ended.wait).start()
print(can_fork())
ended.set()
"""


@pytest.mark.process
def test_only_a_process_without_threads_and_ray_is_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", _WHERE]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.split() == ["True", "False"]


_IMPORTS = """
import os
from wakelog.actors.ray.fast_start import forked_head
print(forked_head.import_for_workers({**os.environ, "RAY_COLOUR": "blue"}))
print(sorted(name for name in os.environ if name.startswith("RAY_")))
import ray._raylet
forked_head._set_title()
print(open("/proc/self/cmdline").read().rstrip("\\0"))
import gc
print(gc.isenabled(), forked_head.can_fork())
"""


@pytest.mark.process
@pytest.mark.slow
def test_the_environment_of_workers_is_there_for_the_import_only() -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    command = [sys.executable, "-c", _IMPORTS]
    found = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert found.stdout.splitlines() == ["None", "[]", TITLE, "True False"]
