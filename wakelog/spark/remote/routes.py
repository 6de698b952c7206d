"""Asking name servers where a topic is: what the remote reader and the sink have in common.

Source: org.apache.rocketmq.client.impl.MQClientAPIImpl#getTopicRouteInfoFromNameServer (4.9.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from wakelog.network.errors import RemotingError, SendFailed, TlsFailed
from wakelog.protocol.bodies import TopicRouteData
from wakelog.protocol.body_codec import decode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.ext_fields import to_ext_fields
from wakelog.protocol.headers.admin import TopicRequestHeader
from wakelog.spark.errors import SourceError

_NAMES = {code.value: code.name for code in ResponseCode}


class Client(Protocol):
    """`RemotingClient`, or what a test has in its place."""

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        """Send a request and return its answer."""
        ...


class WireFailed(SourceError):
    """Nobody answered, or not as hoped; with the cause and what to do about it."""

    def __init__(self, cause: str, remedy: str) -> None:
        """Say both."""
        self.cause = cause
        self.remedy = remedy
        super().__init__(f"{cause}. {remedy}")


async def ask_name_servers(
    client: Client,
    name_servers: Sequence[str],
    command: RemotingCommand,
    what: str,
    *,
    timeout_ms: int,
) -> RemotingCommand:
    """Ask in turn until one answers; the answer is SUCCESS or TOPIC_NOT_EXIST.

    Raises: WireFailed.
    """
    reasons = []
    remedy = "Look whether it runs, and whether the option nameServer has its address"
    for address in name_servers:
        try:
            answer = await client.invoke(address, command, timeout_ms=timeout_ms)
        except RemotingError as error:
            reasons.append(str(error))
            remedy = tls_remedy(error) or remedy
            continue
        if answer.code in (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST):
            return answer
        reasons.append(f"{address} answered {said(answer)}")
    raise WireFailed(f"no name server says {what}: {'; '.join(reasons)}", remedy)


async def find_route(
    client: Client, name_servers: Sequence[str], topic: str, *, timeout_ms: int
) -> TopicRouteData | None:
    """Return where a topic is, None if it is nowhere. Raises: WireFailed."""
    fields = to_ext_fields(TopicRequestHeader(topic=topic))
    command = RemotingCommand(int(RequestCode.GET_ROUTEINFO_BY_TOPIC), ext_fields=fields)
    what = f"where topic {topic} is"
    answer = await ask_name_servers(client, name_servers, command, what, timeout_ms=timeout_ms)
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return None
    try:
        return decode_body(TopicRouteData, answer.body)
    except ProtocolError as error:
        remedy = "Look whether the option nameServer has a name server's address"
        raise WireFailed(f"the route of topic {topic} cannot be read: {error}", remedy) from error


def tls_remedy(error: RemotingError) -> str:
    """Return what to do where it is TLS that is in the way, "" where it may be anything."""
    if isinstance(error, TlsFailed):
        return (
            "Look whether it serves TLS, and at the options tls.client.trustCertPath, certPath and "
            "checkHost"
        )
    if isinstance(error, SendFailed):
        return "Look at its log; if it wants TLS, there is the option tls.enable"
    return ""


def said(answer: RemotingCommand) -> str:
    """Return what an answer says: its code, the code's name and the reason."""
    name = _NAMES.get(answer.code, "unknown")
    return f"{answer.code} ({name}): {answer.remark or 'no reason given'}"
