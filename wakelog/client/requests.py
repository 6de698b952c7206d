"""Request and reply: a message that a consumer answers, and the reply that finds its way back.

The request carries an id and the client that waits. The consumer's reply goes to its broker, which
pushes it to that client.

Invariants: at most `WAITING_MAX` requests wait; each ends with its reply, by its time, or when the
client closes. A reply that no request waits for is dropped.

Source: org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl#request, org.apache.rocketmq.
client.producer.RequestFutureHolder, org.apache.rocketmq.client.utils.MessageUtil#createReplyMessage
(4.9.3).
"""

import asyncio
import uuid
from collections.abc import Mapping
from typing import Final

from wakelog.client.errors import ClientError, InvalidArgument, NoReply, closed_meanwhile
from wakelog.client.messages import EncodedMessage, Message, encode
from wakelog.client.plain import check_kind
from wakelog.client.received import ReceivedMessage
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.ext_fields import read_header
from wakelog.protocol.headers.send import ReplyMessageRequestHeader
from wakelog.protocol.names import reply_topic
from wakelog.protocol.properties import (
    CLUSTER,
    CORRELATION_ID,
    MESSAGE_TYPE,
    REPLY_TO_CLIENT,
    TIME_TO_LIVE,
    decode_properties,
)
from wakelog.protocol.record import MessageRecord

WAITING_MAX: Final = 10_000
REPLY: Final = "reply"


class PendingRequests:
    """The requests of one client that wait for a reply."""

    def __init__(self, client_id: str) -> None:
        """client_id: by which the broker finds this client."""
        self._client_id = client_id
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}

    def begin(self, timeout_ms: int) -> dict[str, str]:
        """Return the properties of the next request. Raises: ClientError if too many wait."""
        if len(self._waiting) >= WAITING_MAX:
            raise ClientError(f"{WAITING_MAX} requests wait for a reply", "Send fewer at a time")
        correlation_id = str(uuid.uuid4())
        self._waiting[correlation_id] = asyncio.get_running_loop().create_future()
        return {
            CORRELATION_ID: correlation_id,
            REPLY_TO_CLIENT: self._client_id,
            TIME_TO_LIVE: str(timeout_ms),
        }

    async def wait(self, properties: Mapping[str, str]) -> ReceivedMessage:
        """Return the reply. Raises: NoReply; NotAcknowledged after `close`."""
        timeout_ms = int(properties[TIME_TO_LIVE])
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._waiting[properties[CORRELATION_ID]]
        except TimeoutError:
            raise NoReply(
                f"no consumer replied within {timeout_ms} ms",
                "Check that consumers of the topic run, that they reply, and how long they take",
            ) from None

    def end(self, properties: Mapping[str, str]) -> None:
        """Wait no longer."""
        self._waiting.pop(properties[CORRELATION_ID], None)

    def close(self) -> None:
        """End every wait: no reply can come any more."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(closed_meanwhile())
                waiting.exception()  # seen: a request that cannot be sent does not wait for it

    async def accept_reply(self, address: str, request: RemotingCommand) -> RemotingCommand:
        """Give a reply to its request (an instance's Answer)."""
        header = read_header(ReplyMessageRequestHeader, request.ext_fields)
        waiting = self._waiting.get(decode_properties(header.properties).get(CORRELATION_ID, ""))
        if waiting is not None and not waiting.done():
            waiting.set_result(ReceivedMessage(_record_of(header, request.body)))
        return answer(request, ResponseCode.SUCCESS)


def make_reply(
    request: ReceivedMessage,
    body: bytes | str,
    unique_key: str,
    properties: Mapping[str, str] | None = None,
) -> EncodedMessage:
    """Return the reply to a request, which a consumer received.

    Raises: InvalidArgument if the message is no request.
    """
    check_kind("request", request, ReceivedMessage)
    found = request.properties
    cluster, client = found.get(CLUSTER), found.get(REPLY_TO_CLIENT)
    if not cluster or not client or CORRELATION_ID not in found:
        cause = f"{request!r} is no request"
        raise InvalidArgument(cause, "Reply to messages of `Producer.request` only")
    more: dict[str, str] = {
        name: found[name] for name in (CORRELATION_ID, TIME_TO_LIVE) if name in found
    }
    more |= {MESSAGE_TYPE: REPLY, REPLY_TO_CLIENT: client}
    message = Message(reply_topic(cluster), body, properties=properties)
    reply = encode(message, unique_key, more=more)
    return reply._replace(is_reply=True, is_alone=True)


def _record_of(header: ReplyMessageRequestHeader, body: bytes) -> MessageRecord:
    """Return the reply as a record; it has no place in a queue."""
    return MessageRecord(
        size_bytes=0,
        body_crc=0,
        queue_id=header.queue_id,
        flag=header.flag,
        queue_offset=0,
        physical_offset=0,
        sys_flag=header.sys_flag,
        born_timestamp_ms=header.born_timestamp,
        born_host=("0.0.0.0", 0),
        store_timestamp_ms=header.store_timestamp,
        store_host=("0.0.0.0", 0),
        reconsume_times=header.reconsume_times or 0,
        prepared_transaction_offset=0,
        body=body,
        topic=header.topic,
        properties_text=header.properties or "",
    )
