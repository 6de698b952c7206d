"""What programs of tests are started with."""

import subprocess
import sys

from tests.compat.processes import free_port

COUNT = 200
ASK = f"from tests.compat.processes import free_port; print(*(free_port() for _ in range({COUNT})))"


def test_no_two_processes_are_given_the_same_port() -> None:
    own = {free_port() for _ in range(COUNT)}
    asked = subprocess.run([sys.executable, "-c", ASK], check=True, capture_output=True, text=True)
    others = {int(word) for word in asked.stdout.split()}
    assert len(own) == len(others) == COUNT
    assert own.isdisjoint(others)
