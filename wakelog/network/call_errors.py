"""What can go wrong with a call, drawn as a tree.

RemotingError                 of a call to an address
    ConnectFailed             nobody listens there, or the name is unknown
        TlsFailed             somebody does, but is not trusted, or speaks no TLS
    SendFailed                the connection ended before the answer came: it may have been done
    CallTimeout               no answer in time: it may have been done
    TooManyCalls              the limit on calls under way is reached; nothing was sent

Source: org.apache.rocketmq.remoting.exception (4.9.3).
"""


class RemotingError(Exception):
    """A call failed; ``address`` is whom it was for and ``reason`` why."""

    def __init__(self, address: str, reason: str) -> None:
        """Keep both."""
        self.address = address
        self.reason = reason
        super().__init__(f"{address}: {reason}")


class ConnectFailed(RemotingError):
    """There is no connection; nothing was sent."""


class TlsFailed(ConnectFailed):
    """No TLS came about with who listens there; nothing was sent."""


class SendFailed(RemotingError):
    """The connection ended while a call was under way; whether it was done is unknown."""


class CallTimeout(RemotingError):
    """No answer came in time; whether it was done is unknown."""


class TooManyCalls(RemotingError):
    """The limit on calls under way is reached; nothing was sent."""
