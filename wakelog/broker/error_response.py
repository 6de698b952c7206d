"""The response code and remark for each error; a producer whose code is 14 goes to another broker.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingAbstract.processRequestCommand (4.9.3).
"""

from wakelog.network.refusals import failed
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.storage.errors import NotWriteable, StoreError, StoreFull


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
    is_full = isinstance(error, NotWriteable | StoreFull)
    code = ResponseCode.SERVICE_NOT_AVAILABLE if is_full else ResponseCode.SYSTEM_ERROR
    return failed(request, error, code=code, has_own_words=isinstance(error, StoreError))
