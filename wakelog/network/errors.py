"""Errors of both ends of a connection, drawn as a tree.

    NetworkError
    +-- PortUnavailable      a port could not be bound or listened on
    +-- TlsRefused           a certificate or key file cannot be used
    +-- RemotingError        a request to a peer failed
        +-- ConnectFailed    there is no connection; nothing was sent
        |   +-- TlsFailed    the peer is not trusted or speaks no TLS; nothing was sent
        +-- SendFailed       the connection ended first; the peer may have executed the request
        |   +-- ClientClosed this end was closed
        +-- CallTimeout      no response in time; the peer may have executed the request
        +-- TooManyCalls     too many requests wait for a response; nothing was sent

A bad client is not an error of the server: its connection is closed and counted.

Source: org.apache.rocketmq.remoting.exception (4.9.3) for RemotingError.
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


class NetworkError(Exception):
    """Root of the errors of this folder."""


class PortUnavailable(NetworkError):
    """A port could not be taken.

    Attributes:
        host, port: the address that was requested.
        cause, remedy: one sentence each, for the person that starts the server.
    """

    def __init__(self, host: str, port: int, error: OSError) -> None:
        self.host = host
        self.port = port
        unknown = (error.strerror or str(error), "check the address and the port")
        self.cause, self.remedy = REMEDY_OF_ERRNO.get(error.errno or 0, unknown)
        super().__init__(f"cannot listen on {host}:{port}: {self.cause}; {self.remedy}")


class TlsRefused(NetworkError, ValueError):
    """A certificate or key file cannot be used; the text names the file and the reason."""


class RemotingError(NetworkError):
    """A request failed; ``address`` is the peer's."""

    def __init__(self, address: str, reason: str) -> None:
        self.address = address
        self.reason = reason
        super().__init__(f"{address}: {reason}")


class ConnectFailed(RemotingError):
    """There is no connection; nothing was sent."""


class TlsFailed(ConnectFailed):
    """The TLS handshake failed; nothing was sent."""


class SendFailed(RemotingError):
    """The connection ended before the response; the peer may have executed the request."""


class ClientClosed(SendFailed):
    """This client was closed: no further request helps."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "this client is closed")


class CallTimeout(RemotingError):
    """No response came in time; the peer may have executed the request."""

    @classmethod
    def after(cls, address: str, timeout_ms: float) -> "CallTimeout":
        """Return the error of a call that has waited so long."""
        return cls(address, f"no answer within {timeout_ms:.0f} ms")


class TooManyCalls(RemotingError):
    """Too many requests wait for a response; nothing was sent."""
