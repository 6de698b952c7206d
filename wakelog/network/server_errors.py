"""Errors of the server.

    ServerError
    +-- PortUnavailable   a port could not be bound or listened on; says why and what to do

A bad peer is not an error of the server: it costs its own connection and is counted.
"""

import errno

REMEDY_OF_ERRNO = {
    errno.EADDRINUSE: (
        "another process uses this port",
        "stop it, or choose another port",
    ),
    errno.EADDRNOTAVAIL: (
        "this machine has no such address",
        "bind to an address that `ip addr` shows, or to 127.0.0.1 or 0.0.0.0",
    ),
    errno.EACCES: (
        "this user may not use this port",
        "choose a port above 1023",
    ),
}


class ServerError(Exception):
    """Base of the errors of this folder."""


class PortUnavailable(ServerError):
    """A port could not be taken.

    Attributes:
        host, port: what was asked for.
        cause, remedy: one sentence each for who started the server.
    """

    def __init__(self, host: str, port: int, error: OSError) -> None:
        self.host = host
        self.port = port
        unknown = (error.strerror or str(error), "check the address and the port")
        self.cause, self.remedy = REMEDY_OF_ERRNO.get(error.errno or 0, unknown)
        super().__init__(f"cannot listen on {host}:{port}: {self.cause}; {self.remedy}")
