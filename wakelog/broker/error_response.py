"""The response code and remark for each error; a producer whose code is 14 goes to another broker.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingAbstract.processRequestCommand (4.9.3).
"""

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.storage.errors import NotWriteable, StoreError, StoreFull

REMARK_CHARACTERS_MAX = 1_024  # an exception may quote what a client sent


class LimitReached(RemoteProtocolError):
    """A table has no room for what a request would add; the request is refused and logged.

    4.9.3 has none of these limits. They keep made-up names from filling the memory.
    """

    def __init__(self, what: str, limit: int, remedy: str = "") -> None:
        """Make the remark; `what` is the plural of what the table keeps."""
        remark = f"the broker keeps at most {limit} {what}{remedy}"
        super().__init__(ResponseCode.SYSTEM_ERROR, remark)


def error_response(request: RemotingCommand, error: Exception) -> RemotingCommand:
    """Make the response to a request whose handler raised."""
    if isinstance(error, RemoteProtocolError):
        return answer(request, error.code, error.remark)
    if isinstance(error, NotWriteable | StoreFull):
        return answer(request, ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
    remark = str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
    return answer(request, ResponseCode.SYSTEM_ERROR, remark[:REMARK_CHARACTERS_MAX])
