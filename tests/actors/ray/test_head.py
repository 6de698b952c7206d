"""Ports of a Ray's own, and an end that takes its whole session along."""

import os
import socket
import subprocess
import sys
import time

import pytest

from wakelog.actors.ray import head
from wakelog.actors.ray.head import (
    LOOPBACK,
    PORT_BLOCK_COUNT,
    WORKER_PORTS_BEGIN,
    WORKER_PORTS_END,
    NoFreePorts,
    PortBlocks,
    end_session,
    is_free,
    session_processes,
)


def test_two_rays_never_share_a_port() -> None:
    first, second = PortBlocks(PORT_BLOCK_COUNT + 1), PortBlocks(1)
    ports = [*first.ports, *second.ports]
    assert len(first.ports) > PORT_BLOCK_COUNT and len(set(ports)) == len(ports)
    assert all(WORKER_PORTS_BEGIN <= port < WORKER_PORTS_END for port in ports)
    first.close()
    second.close()


def test_blocks_are_given_back() -> None:
    first = PortBlocks(1)
    first.close()
    second = PortBlocks(1)
    assert second.ports == first.ports
    second.close()


def test_when_every_port_is_taken_that_is_said_and_nothing_kept() -> None:
    free = PortBlocks(1)
    with pytest.raises(NoFreePorts, match="stop another wakelog or Ray"):
        PortBlocks(WORKER_PORTS_END)
    free.close()
    PortBlocks(1).close()


def test_a_port_that_somebody_listens_on_is_left_out() -> None:
    with socket.socket() as listening:
        listening.bind((LOOPBACK, 0))
        listening.listen()
        assert not is_free(listening.getsockname()[1])


_PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; print(1, flush=True); input()"])
child.wait()
"""


@pytest.mark.process
def test_the_end_of_a_session_is_the_end_of_everybody_in_it() -> None:
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
