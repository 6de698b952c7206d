"""What waits at a broker, as operators ask for it: delayed messages, and half messages given up.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor#{getAllDelayOffset,
queryConsumeQueue, resumeCheckHalfMessage} (4.9.3).
"""

from collections.abc import Sequence
from typing import NamedTuple

from wakelog.client.admin import Admin
from wakelog.client.errors import CHECK_LOG, ClientError
from wakelog.client.plain import plain_text, whole_number
from wakelog.protocol.bodies import ConsumeQueueData, QueryConsumeQueueResponseBody
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.fastjson import loads, to_long
from wakelog.protocol.java import INT_MAX
from wakelog.protocol.message_id import decode_message_id
from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.protocol.record import MessageRecord, decode_record


class QueueEntries(NamedTuple):
    """Entries of a consume queue. [begin, end): the offsets that the queue has.

    A broker says neither end, 0 and 0, if it has no entry at the offset that was asked for.
    """

    begin: int
    end: int
    entries: Sequence[ConsumeQueueData]


class DueEntry(NamedTuple):
    """An entry of a queue of delayed messages. [begin, end): the offsets that the queue has.

    due_ms: when the message is due; 0 if there is none at that offset.
    """

    begin: int
    end: int
    due_ms: int


async def delay_offsets(admin: Admin, address: str) -> dict[int, int]:
    """Return how far a broker has delivered each level of delays: its next queue offset.

    A level is there once a message of it was delivered. Raises: ClientError.
    """
    response = await admin.ask(address, Code.GET_ALL_DELAY_OFFSET)
    try:
        table = loads(response.body or b"{}").get("offsetTable") or {}
        return {int(level): to_long(offset) for level, offset in table.items()}
    except (ValueError, AttributeError, ProtocolError) as error:
        cause = f"the answer of {address} to {Code.GET_ALL_DELAY_OFFSET.name} cannot be read"
        raise ClientError(f"{cause}: {error}", CHECK_LOG) from error


async def due_at(admin: Admin, address: str, level: int, queue_offset: int) -> DueEntry:
    """Return when the message at an offset of a level is due. No message is read.

    Raises: ClientError, also for a level that never had a message.
    """
    queue_id = whole_number("level", level, 1, INT_MAX) - 1
    begin, end, entries = await entries_at(admin, address, SCHEDULE_TOPIC, queue_id, queue_offset)
    return DueEntry(begin, end, entries[0].tags_code if entries else 0)


async def entries_at(
    admin: Admin, address: str, topic: str, queue_id: int, queue_offset: int, count: int = 1
) -> QueueEntries:
    """Return entries of a consume queue from an offset on; the topic may have no configuration.

    Raises: ClientError, also for a queue that never had a message.
    """
    fields = {
        "topic": plain_text("topic", topic),
        "queueId": whole_number("queue_id", queue_id, 0, INT_MAX),
        "index": whole_number("queue_offset", queue_offset, 0),
        "count": whole_number("count", count, 1, INT_MAX),
    }
    code = Code.QUERY_CONSUME_QUEUE
    found = await admin.ask_for(QueryConsumeQueueResponseBody, address, code, fields)
    return QueueEntries(found.min_queue_index, found.max_queue_index, found.queue_data or ())


async def message_at(admin: Admin, address: str, physical_offset: int) -> MessageRecord:
    """Return the message at an offset of a broker's log. Raises: ClientError."""
    offset = whole_number("physical_offset", physical_offset, 0)
    response = await admin.ask(address, Code.VIEW_MESSAGE_BY_ID, {"offset": offset})
    try:
        return decode_record(response.body)
    except ProtocolError as error:
        cause = f"the answer of {address} to {Code.VIEW_MESSAGE_BY_ID.name} cannot be read"
        raise ClientError(f"{cause}: {error}", CHECK_LOG) from error


async def resume_check(admin: Admin, message_id: str) -> str:
    """Have a half message checked again that was given up; return the address of its broker.

    message_id: that of the broker, which names the record. It is put into the half queue once more
    with each call, and its checks count from 0. Raises: ClientError.
    """
    message_id = plain_text("message_id", message_id)
    try:
        (host, port), _ = decode_message_id(message_id)
    except ProtocolError as error:
        raise ClientError(str(error), "Give the id that a broker gave (OffsetID)") from None
    address = f"{host}:{port}"
    await admin.ask(address, Code.RESUME_CHECK_HALF_MESSAGE, {"msgId": message_id})
    return address
