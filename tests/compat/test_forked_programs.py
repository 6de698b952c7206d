"""A fork of `wakelog` is to a test what a program of its own is."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.compat.forked_programs import OWN_NAMES, ForkedProcess, Template, start_forked
from tests.compat.processes import ProcessFailed, TestProcess

pytestmark = [pytest.mark.process, pytest.mark.slow]

SECONDS_MAX = 30.0
SAYS_WHAT_IT_IS = """
import os, sys, tempfile
print(*sys.argv[1:], __name__, os.getcwd(), os.environ["TMPDIR"], tempfile.gettempdir())
print(os.getpid() == os.getsid(0), sorted(os.listdir("/proc/self/fd"))[:-1], sys.stdin.read())
print("wakelog.actors.deploy.local" in sys.modules)
sys.exit(int(sys.argv[1]))
"""


def run(folder: Path, *words: str, is_forked: bool, **own: str) -> tuple[int, str]:
    """Run a command to its end; return the exit code and what it printed."""
    log_path = folder / f"out-{is_forked}"
    command, env = [sys.executable, *words], {**os.environ, **own}
    with TestProcess(command, env=env, log_path=log_path, is_forked=is_forked) as process:
        assert isinstance(process._process, ForkedProcess) is is_forked
        code = process.wait_end(seconds_max=SECONDS_MAX)
    return code, log_path.read_text()


def test_a_fork_says_and_returns_what_a_program_does(tmp_path: Path) -> None:
    words = ("-m", "wakelog", "up", "--broker-port", "x")
    forked, program = (run(tmp_path, *words, is_forked=x) for x in (True, False))
    assert forked == program and forked[1]


def test_a_fork_has_folder_variables_and_descriptors_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SAYS_WHAT_IT_IS)
    code, said = run(tmp_path, str(script), "7", "b", is_forked=True, TMPDIR=str(tmp_path))
    assert code == 7
    first, second, imported = said.splitlines()
    assert first == f"7 b __main__ {Path.cwd()} {tmp_path} {tmp_path}"
    assert second.strip() == "True ['0', '1', '2']"
    assert imported == "True"


@pytest.mark.parametrize("other", [{"PYTHONPATH": "/elsewhere"}, {"WAKELOG_NEW": "1"}])
def test_another_environment_takes_a_program(tmp_path: Path, other: Mapping[str, str]) -> None:
    forked = start_forked(
        ["-m", "wakelog"], environment={**os.environ, **other}, folder=tmp_path, output=2
    )
    assert forked is None


def test_a_fork_gets_signals_and_its_end_is_known(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    log_path, command = tmp_path / "out", [sys.executable, str(script)]
    env = dict(os.environ)
    with (
        TestProcess(command, env=env, log_path=log_path, is_forked=True) as killed,
        pytest.raises(ProcessFailed, match="ended with -9 before"),
    ):
        os.kill(killed.process_id, signal.SIGKILL)
        killed.wait_until(lambda: False, seconds_max=SECONDS_MAX, what="well")
    with TestProcess(command, env=env, log_path=log_path, is_forked=True) as late:
        late.wait_until(lambda: "up" in log_path.read_text(), seconds_max=SECONDS_MAX, what="up")
        with pytest.raises(ProcessFailed, match=r"did not end within 0.1 s.*"):
            late.wait_end(seconds_max=0.1)
        assert late.wait_end(seconds_max=SECONDS_MAX) == -signal.SIGKILL


@pytest.mark.long
def test_the_template_ends_with_its_session_though_others_hold_the_socket() -> None:
    template = Template()
    holder = subprocess.Popen(["sleep", "60"], pass_fds=[template._socket.fileno()])
    try:
        assert template.serves({**os.environ, **dict.fromkeys(OWN_NAMES, "other")})
        template.close()
        assert template._process.returncode == 0
    finally:
        holder.kill()
        holder.wait()
