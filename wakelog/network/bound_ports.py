"""BoundPorts: the ports that a server will listen on, taken before it is made.

A bound port refuses connections, and no other process gets it. So a start that cannot have its
ports fails before it touches a file.
"""

import asyncio
import socket
from collections.abc import Callable, Collection
from functools import partial

from wakelog.network.errors import PortUnavailable

MakeProtocol = Callable[[Collection[int]], asyncio.Protocol]
"""Returns the protocol of a connection to a port on which these codes are refused."""


class BoundPorts:
    """Sockets that are bound, until one server listens on them."""

    def __init__(self) -> None:
        self._bound: list[tuple[socket.socket, Collection[int]]] = []

    def bind(self, host: str, port: int, *, refused_codes: Collection[int] = ()) -> int:
        """Take a port without listening on it, and return its number; 0 means any.

        Requests with one of ``refused_codes`` get code 3 on this port, as PULL_MESSAGE does on the
        broker's second port.

        Raises: PortUnavailable.
        """
        sock = bound_socket(host, port)
        self._bound.append((sock, frozenset(int(code) for code in refused_codes)))
        return int(sock.getsockname()[1])

    async def listen(self, make_protocol: MakeProtocol, backlog: int) -> list[asyncio.Server]:
        """Accept connections on every port, and return what listens.

        Raises: PortUnavailable, if another process listens on a port bound at the same moment.
        """
        listening: list[asyncio.Server] = []
        try:
            while self._bound:
                sock, refused_codes = self._bound.pop(0)
                host, port = sock.getsockname()[:2]
                try:
                    # Here and not in create_server: uvloop's swallows the error of a taken port.
                    sock.listen(backlog)
                except OSError as error:
                    sock.close()
                    raise PortUnavailable(host, port, error) from error
                make = partial(make_protocol, refused_codes)
                loop = asyncio.get_running_loop()
                listening.append(await loop.create_server(make, sock=sock, backlog=backlog))
        except BaseException:
            for one in listening:
                one.close()
            raise
        return listening

    def close(self) -> None:
        """Give up the ports on which no server listens."""
        while self._bound:
            self._bound.pop()[0].close()


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that has a port without listening on it; 0 means any.

    Raises: PortUnavailable.
    """
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = infos[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise PortUnavailable(host, port, error) from error
    try:
        # A restarted broker must not wait for connections in TIME_WAIT.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise PortUnavailable(host, port, error) from error
    return sock
