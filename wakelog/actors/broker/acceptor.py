"""Acceptor: listens at a port, and takes the connections of slaves or members of the group.

Source: org.apache.rocketmq.store.ha.HAService.AcceptSocketService (4.9.3).
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final, NamedTuple

from structlog.stdlib import BoundLogger

from wakelog.actors.transport.timer import Timer
from wakelog.network.bound_ports import bound_socket
from wakelog.network.errors import PortUnavailable

PAUSE_SECONDS: Final = 1.0
"""How long nothing is accepted after that has failed, as without a free descriptor."""


class Accepted(NamedTuple):
    """A connection. address: `HOST:PORT` of its other end; local_host: of this one."""

    opened: socket.socket
    address: str
    host: str
    local_host: str


class Acceptor:
    """See the module. One loop's thread."""

    def __init__(self, take: Callable[[Accepted], object], whose: str, log: BoundLogger) -> None:
        """Listen nowhere yet. whose: what connects, for the logs."""
        self._take, self._whose, self._log = take, whose, log
        self._pause = Timer(self._accept_on)
        self._listening: socket.socket | None = None

    def open(self, host: str, port: int, backlog: int) -> None:
        """Listen. Raises: PortUnavailable."""
        listening = bound_socket(host, port)
        try:
            listening.listen(backlog)
        except OSError as error:
            listening.close()
            raise PortUnavailable(host, port, error) from error
        listening.setblocking(False)
        self._listening = listening
        self._accept_on()

    def close(self) -> None:
        """Listen no more."""
        self._pause.cancel()
        listening, self._listening = self._listening, None
        if listening is not None:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()

    def _accept_on(self) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        """Take the connections that wait."""
        while (listening := self._listening) is not None:
            try:
                opened, (host, port, *_) = listening.accept()
                local_host = opened.getsockname()[0]
            except (BlockingIOError, ConnectionError):
                return
            except OSError as error:
                self._log.error(f"cannot accept {self._whose}", cause=str(error))
                asyncio.get_running_loop().remove_reader(listening)
                self._pause.start(PAUSE_SECONDS)
                return
            self._take(Accepted(opened, f"{host}:{port}", host, local_host))
