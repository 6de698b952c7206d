"""Delay levels: how a delayed message is parked in SCHEDULE_TOPIC_XXXX and delivered later.

A message with the property DELAY=n is stored in queue n-1 of the schedule topic, with its
destination in REAL_TOPIC and REAL_QID. Its consume queue entry has the time of delivery in place of
the tag's hash. A delivered message keeps all three properties, because 4.9.3 builds the string
before it cleans the map, and consumers see them.

Invariants: level = queue id + 1; level n waits for element n - 1 of `StoreConfig.delays_ms`.

Source: org.apache.rocketmq.store.schedule.ScheduleMessageService.parseDelayLevel and messageTimeup,
org.apache.rocketmq.store.CommitLog.asyncPutMessage (4.9.3).
"""

from collections.abc import Mapping

from wakelog.broker.names import SCHEDULE_TOPIC, TRANS_HALF_TOPIC, is_topic
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.java import parse_integer
from wakelog.protocol.properties import (
    DELAY,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    decode_properties,
    encode_properties,
)
from wakelog.protocol.record import MessageRecord
from wakelog.storage.log.append import MessageDraft


def delay_level(properties: Mapping[str, str]) -> int:
    """Return the level that properties ask for, 0 for none.

    Raises: RemoteProtocolError with code 1 if DELAY is not a number.
    """
    text = properties.get(DELAY)
    if text is None:
        return 0
    try:
        return parse_integer(text)
    except ValueError as error:
        remark = f"java.lang.NumberFormatException: {error}"
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark) from error


def park(
    level_max: int, properties: dict[str, str], topic: str, queue_id: int
) -> tuple[str, int, str] | None:
    """Return topic, queue id and properties text under which a delayed message is stored.

    None if the properties ask for no delay. ``properties`` are changed to the stored ones.

    level_max: the level of a message that asks for a higher one.

    Raises: RemoteProtocolError with code 1 if DELAY is not a number.
    """
    level = delay_level(properties)
    if level <= 0:
        return None
    if level > level_max:
        level = level_max
        properties[DELAY] = str(level)
    properties[REAL_TOPIC] = topic
    properties[REAL_QUEUE_ID] = str(queue_id)
    return SCHEDULE_TOPIC, level - 1, encode_properties(properties)


def unpark(record: MessageRecord) -> MessageDraft | None:
    """Return the message that a due record of the schedule topic is delivered as.

    None if the record names no destination that a message may have. 4.9.3 would try such a record
    for ever, or refuse it when it names the half topic.
    """
    properties = decode_properties(record.properties_text)
    topic = properties.get(REAL_TOPIC, "")
    queue_id = properties.get(REAL_QUEUE_ID, "")
    if topic in (SCHEDULE_TOPIC, TRANS_HALF_TOPIC) or not is_topic(topic):
        return None
    if not (queue_id.isascii() and queue_id.isdigit() and int(queue_id) <= 0x7FFFFFFF):
        return None
    return MessageDraft(
        topic=topic,
        queue_id=int(queue_id),
        body=record.body,
        properties_text=encode_properties(properties),
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=0,
    )
