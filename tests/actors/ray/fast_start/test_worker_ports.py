"""Ports for one Ray's workers, among several Rays of a machine."""

import socket

import pytest

from wakelog.actors.ray.fast_start.worker_ports import (
    LOOPBACK,
    PORT_BLOCK_COUNT,
    WORKER_PORTS_BEGIN,
    WORKER_PORTS_END,
    NoFreePorts,
    PortBlocks,
    is_free,
)


def test_two_rays_never_share_a_port() -> None:
    first, second = PortBlocks(PORT_BLOCK_COUNT + 1), PortBlocks(1)
    ports = [*first.ports, *second.ports]
    assert len(first.ports) > PORT_BLOCK_COUNT and len(set(ports)) == len(ports)
    assert all(WORKER_PORTS_BEGIN <= port < WORKER_PORTS_END for port in ports)
    first.close()
    second.close()


def test_blocks_are_released() -> None:
    first = PortBlocks(1)
    first.close()
    second = PortBlocks(1)
    assert second.ports == first.ports
    second.close()


def test_when_every_port_is_taken_an_error_says_so_and_no_claim_is_kept() -> None:
    free = PortBlocks(1)
    with pytest.raises(NoFreePorts, match="stop another wakelog or Ray"):
        PortBlocks(WORKER_PORTS_END)
    free.close()
    PortBlocks(1).close()


def test_a_port_with_a_listener_is_left_out() -> None:
    with socket.socket() as listening:
        listening.bind((LOOPBACK, 0))
        listening.listen()
        assert not is_free(listening.getsockname()[1])
