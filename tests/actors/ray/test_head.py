"""The end of a head is the end of every process in its session."""

import os
import subprocess
import sys
import time

import pytest

from wakelog.actors.ray import head
from wakelog.actors.ray.head import end_session, session_processes

_PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; print(1, flush=True); input()"])
child.wait()
"""


@pytest.mark.process
def test_the_end_of_a_session_is_the_end_of_every_process_in_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as leader:
        assert leader.stdout is not None
        assert leader.stdout.readline() == b"1\n"
        members = session_processes(leader.pid)
        assert len(members) == 2 and leader.pid in members
        assert os.getpid() not in members
        began = time.monotonic()
        end_session(leader.pid)
        assert time.monotonic() - began < head.PROCESS_END_SECONDS_MAX
        assert session_processes(leader.pid) == []
