"""The one place that turns an error into a response code and remark.

    RemoteProtocolError   the code and remark it carries
    NotWriteable          SERVICE_NOT_AVAILABLE: a producer goes to another broker
    StoreFull             the same
    any other StoreError  SYSTEM_ERROR
    anything else         SYSTEM_ERROR, with the class, as 4.9.3 answers any exception

Source: org.apache.rocketmq.remoting.netty.NettyRemotingAbstract.processRequestCommand (4.9.3).
"""

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.storage.errors import NotWriteable, StoreError, StoreFull

REMARK_CHARACTERS_MAX = 1_024  # an exception may quote what a client sent


def error_answer(request: RemotingCommand, error: Exception) -> RemotingCommand:
    """Return the answer to a request whose processing raised."""
    if isinstance(error, RemoteProtocolError):
        return answer(request, error.code, error.remark)
    if isinstance(error, NotWriteable | StoreFull):
        return answer(request, ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
    remark = str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
    return answer(request, ResponseCode.SYSTEM_ERROR, remark[:REMARK_CHARACTERS_MAX])
