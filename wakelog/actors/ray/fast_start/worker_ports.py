"""Ports for Ray's workers: a range of our own, shared by several Rays of one machine.

Ray's default, 10002 to 19999, covers RocketMQ's 10909 to 10912.
"""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"
WORKER_PORTS_BEGIN, WORKER_PORTS_END = 14_000, 15_000
PORT_BLOCK_COUNT = 50
"""Ports are claimed in blocks of this many."""


class NoFreePorts(Exception):
    """Every block of worker ports is taken: too many Rays on this machine."""


class PortBlocks:
    """Worker ports for this Ray alone, claimed as long as this object and its process live.

    A block is claimed by binding the UDP port of its first number; Ray's workers use TCP. The
    kernel frees the claim with the process, and two heads cannot both bind it.
    """

    def __init__(self, count: int) -> None:
        """Claim blocks until they hold `count` free ports. Raises: NoFreePorts."""
        self._claims: list[socket.socket] = []
        self.ports: list[int] = []
        for first in range(WORKER_PORTS_BEGIN, WORKER_PORTS_END, PORT_BLOCK_COUNT):
            if len(self.ports) >= count:
                break
            claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                claim.bind((LOOPBACK, first))
            except OSError:
                claim.close()
                continue
            self._claims.append(claim)
            block = range(first, min(first + PORT_BLOCK_COUNT, WORKER_PORTS_END))
            self.ports += [port for port in block if is_free(port)]
        if len(self.ports) < count:
            self.close()
            raise NoFreePorts(
                f"ports {WORKER_PORTS_BEGIN} to {WORKER_PORTS_END - 1} have no {count} free ones "
                "for Ray's workers: stop another wakelog or Ray on this machine"
            )

    def close(self) -> None:
        """Release the blocks."""
        for claim in self._claims:
            claim.close()


def is_free(port: int) -> bool:
    """Return whether a worker can listen on a TCP port of every interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Ray's workers bind: a port in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True
