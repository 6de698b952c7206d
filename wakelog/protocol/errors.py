"""Errors of the protocol layer: whose fault a bad message is.

    ProtocolError            abstract
    +-- LocalProtocolError   our caller asked for something the protocol cannot say
    +-- RemoteProtocolError  the peer sent something the protocol does not allow

A RemoteProtocolError carries the response code and remark that answer the peer when the error
is inside one request; when it is in the frame itself the connection has to be closed.

Source: org.apache.rocketmq.remoting.exception.RemotingCommandException (4.9.3)
"""


class ProtocolError(Exception):
    """Base of both kinds; never raised itself."""

    def __init__(self, *arguments: object) -> None:
        """Refuse to be the abstract kind itself."""
        if type(self) is ProtocolError:
            raise TypeError("raise LocalProtocolError or RemoteProtocolError instead")
        super().__init__(*arguments)


class LocalProtocolError(ProtocolError):
    """A value that cannot be encoded: a name too long, a port out of range, a wrong type."""


class RemoteProtocolError(ProtocolError):
    """Bytes from the peer that are not RocketMQ's.

    Attributes:
        code: the response code to answer with, when there is a request to answer.
        remark: the text to answer with.
    """

    def __init__(self, code: int, remark: str) -> None:
        """Keep both, for the answer."""
        super().__init__(code, remark)
        self.code = code
        self.remark = remark

    def __str__(self) -> str:
        """Write the remark first, for logs."""
        return f"{self.remark} (response code {self.code})"
