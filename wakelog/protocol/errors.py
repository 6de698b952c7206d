"""Errors of the protocol layer: whose fault a bad message is.

    ProtocolError            abstract
    +-- LocalProtocolError   the caller gave a value that the protocol cannot express
    +-- RemoteProtocolError  the peer sent bytes that the protocol does not allow
        +-- BrokenStream     a master or a slave did, between the two

A RemoteProtocolError has the response code and remark for the peer. An error in the frame itself
closes the connection instead.

Source: org.apache.rocketmq.remoting.exception.RemotingCommandException (4.9.3)
"""


class ProtocolError(Exception):
    """Base of both kinds; never raised."""

    def __init__(self, *arguments: object) -> None:
        """Refuse to make the abstract kind."""
        if type(self) is ProtocolError:
            raise TypeError("raise LocalProtocolError or RemoteProtocolError instead")
        super().__init__(*arguments)


class LocalProtocolError(ProtocolError):
    """A value that cannot be encoded: a name too long, a port out of range, a wrong type."""


class RemoteProtocolError(ProtocolError):
    """Bytes from the peer that do not follow RocketMQ's protocol.

    Attributes:
        code: the response code, if there is a request to respond to.
        remark: the text of the response.
        closes_connection: whether the connection is closed once the response has left.
    """

    closes_connection = False

    def __init__(self, code: int, remark: str) -> None:
        """Keep both, for the response."""
        super().__init__(code, remark)
        self.code = code
        self.remark = remark

    def __str__(self) -> str:
        """Write the remark first, for logs."""
        return f"{self.remark} (response code {self.code})"
