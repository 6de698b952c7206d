"""Responses to requests that are refused or have failed, in 4.9.3's words.

Clients and operators search for these texts, so they are the same to the letter. Our addition, the
measured wait of [OVERLOAD], comes after them.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingAbstract#processRequestCommand,
org.apache.rocketmq.broker.latency.BrokerFastFailure,
org.apache.rocketmq.remoting.common.RemotingHelper#exceptionSimpleDesc (4.9.3).
"""

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.errors import RemoteProtocolError

REMARK_CHARACTERS_MAX = 1_024
"""An exception's text may hold what the peer sent; it is cut to this length."""


def overloaded(request: RemotingCommand, *, waited_ms: int, waiting_count: int) -> RemotingCommand:
    """Refuse a request whose lane is full."""
    remark = (
        "[OVERLOAD]system busy, start flow control for a while, "
        f"period in queue: {waited_ms}ms, size of queue: {waiting_count}"
    )
    return answer(request, ResponseCode.SYSTEM_BUSY, remark)


def waited_too_long(
    request: RemotingCommand, *, waited_ms: int, waiting_count: int
) -> RemotingCommand:
    """Refuse a request that waited longer than its lane allows."""
    remark = (
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
        f"period in queue: {waited_ms}ms, size of queue: {waiting_count}"
    )
    return answer(request, ResponseCode.SYSTEM_BUSY, remark)


def unsupported(request: RemotingCommand, hint: str = "") -> RemotingCommand:
    """Refuse a request code; 4.9.3 has the leading blank, too, but no hint."""
    remark = f" request type {request.code} not supported{hint}"
    return answer(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)


def failed(
    request: RemotingCommand,
    error: Exception,
    *,
    code: int = ResponseCode.SYSTEM_ERROR,
    has_own_words: bool = False,
) -> RemotingCommand:
    """Make the response to an exception; a mistake of the peer has a code of its own.

    has_own_words: whether its text is for operators, and so needs no class before it.
    """
    if isinstance(error, RemoteProtocolError):
        return answer(request, error.code, error.remark)
    kind = type(error)
    remark = str(error) if has_own_words else f"{kind.__module__}.{kind.__qualname__}: {error}"
    return answer(request, code, remark[:REMARK_CHARACTERS_MAX])
