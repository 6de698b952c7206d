"""`wakelog hello`: send one message and pull it back, as a producer and a consumer would.

It shows that a name server and a broker work, and the order of a client's calls:

    name server   GET_ROUTEINFO_BY_TOPIC   which brokers have the topic; for a new topic, which
                                           brokers would create it (those with TBW102)
    broker        SEND_MESSAGE_V2          the message is stored: queue, offset, message id
    broker        PULL_MESSAGE             the record at that offset; held until it is dispatched

It works with any RocketMQ 4.x.
"""

import time
from collections.abc import AsyncIterator
from typing import Final

from wakelog.cli.output import Output, Text
from wakelog.client.admin import Admin
from wakelog.client.errors import CHECK_LOG, ClientError, InvalidArgument
from wakelog.client.messages import EncodedMessage, SendRequest, refusal_reason
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.record import decode_record

BODY: Final = b"hello"
HOLD_MS: Final = 2_000


async def greet(admin: Admin, topic: str) -> AsyncIterator[Output]:
    """Send one message, pull it back, and yield both. Raises: ClientError."""
    if reason := refusal_reason(topic, BODY):
        raise InvalidArgument(f"the message cannot be sent: {reason}", "Nothing was sent")
    try:
        async for said in _greet(admin, topic):
            yield said
    except ProtocolError as error:
        cause = f"a response is not as RocketMQ 4.x gives it: {error}"
        raise ClientError(cause, "Check which program listens there") from error


async def _greet(admin: Admin, topic: str) -> AsyncIterator[Output]:
    began = time.perf_counter()
    stored = await admin.sender.send(SendRequest((EncodedMessage(topic, BODY),)))
    sent = time.perf_counter()
    queue, send_ms = stored.queue, (sent - began) * 1000
    yield Text(
        f"sent      to topic {topic}, {queue.broker} queue {queue.queue_id} offset "
        f"{stored.queue_offset}, in {send_ms:.1f} ms (id {stored.message_id})",
        {
            "what": "sent",
            "topic": topic,
            "broker": queue.broker,
            "queue": queue.queue_id,
            "offset": stored.queue_offset,
            "messageId": stored.message_id,
            "ms": round(send_ms, 3),
        },
    )
    pulled = await admin.calls.pull(queue, stored.queue_offset, 1, hold_ms=HOLD_MS)
    if not pulled.body:
        raise ClientError(
            f"{queue.broker} did not return the message: {pulled.code} ({pulled.remark})",
            CHECK_LOG,
        )
    body = decode_record(pulled.body).body.decode(errors="replace")
    pull_ms = (time.perf_counter() - sent) * 1000
    value = {"what": "received", "body": body, "ms": round(pull_ms, 3)}
    yield Text(f"received  {body!r}, in {pull_ms:.1f} ms", value)
