"""The death of a process is known at once, with process descriptors and without."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.transport import process_death
from wakelog.actors.transport.process_death import wait_death


@contextmanager
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that does nothing until it is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    ) as started:
        yield started
        started.kill()


@pytest.mark.process
@on_loop
async def test_a_process_that_is_dead_already_is_known_to_be() -> None:
    with process() as other:
        pass
    await wait_death(other.pid, asyncio.get_running_loop().create_future())


@pytest.mark.process
@on_loop
async def test_death_is_noticed_without_descriptors_of_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr(process_death, "POLL_SECONDS", 0.01)
    with process() as other:
        died = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(wait_death(other.pid, died))
        await asyncio.wait([waiting], timeout=0.05)
        assert not waiting.done()
    await waiting
