"""Processes that compute beside a measurement."""

import os

import pytest

from benchmarks.busy import busy_processes


@pytest.mark.process
def test_they_run_meanwhile_and_are_gone_afterwards() -> None:
    before = children()
    with busy_processes(2):
        assert len(children()) == len(before) + 2
    assert children() == before


def children() -> set[str]:
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parent = file.read().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if int(parent) == os.getpid():
            found.add(name)
    return found
