"""Values as mqadmin writes them: times in local time, and what Java's toString gives.

Source: org.apache.rocketmq.common.{UtilAll, TopicConfig}, common.message.{Message,
MessageExt}, common.subscription.SubscriptionGroupConfig (4.9.3).
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec

from wakelog.actors.errors import NotPossible
from wakelog.protocol.bodies import TopicConfig
from wakelog.protocol.compression import inflate
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.java import boolean_text, iteration_order
from wakelog.protocol.message_id import create_message_id
from wakelog.protocol.properties import UNIQ_KEY, decode_properties
from wakelog.protocol.record import MessageRecord

NONE: Final = "null"

_TIME_PATTERN: Final = "%Y-%m-%d#%H:%M:%S:%f"


def plain_time(timestamp_ms: int) -> str:
    """Return a local time to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(timestamp_ms / 1000))


def compact_time(timestamp_ms: int) -> str:
    """Return a local time in digits alone, with milliseconds."""
    seconds, ms = divmod(timestamp_ms, 1000)
    return f"{time.strftime('%Y%m%d%H%M%S', time.localtime(seconds))}{ms:03d}"


def first_rate(values: Mapping[str, str], name: str) -> float:
    """Return the first of the rates of a broker; 0 in its first seconds, when it has none."""
    return float(values.get(name, "").partition(" ")[0] or 0)


def read_time(text: str) -> int:
    """Return the milliseconds of `now` (-1), a number, or yyyy-MM-dd#HH:mm:ss:SSS.

    Raises: NotPossible.
    """
    if text == "now":
        return -1
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return round(datetime.strptime(text, _TIME_PATTERN).astimezone().timestamp() * 1000)
    except ValueError:
        remedy = "Give milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS."
        raise NotPossible(f"{text!r} is no time", remedy) from None


def word(value: Any) -> str:
    """Write a value as Java joins it to a text."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return boolean_text(value)
    return map_text(value) if isinstance(value, Mapping) else str(value)


def map_text(values: Mapping[Any, Any]) -> str:
    """Write a map as a HashMap's toString does."""
    order = iteration_order(tuple(values)) if all(isinstance(x, str) for x in values) else values
    return "{" + ", ".join(f"{key}={word(values[key])}" for key in order) + "}"


def bean_text(name: str, values: Mapping[str, Any]) -> str:
    """Write a bean: `Name [a=1, b=true]`."""
    return f"{name} [" + ", ".join(f"{key}={word(value)}" for key, value in values.items()) + "]"


def bean_values(bean: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a body by their names on the wire."""
    names = zip(bean.__struct_fields__, bean.__struct_encode_fields__, strict=True)
    return {wire: getattr(bean, attribute) for attribute, wire in names}


def topic_text(topic: TopicConfig) -> str:
    """Write a topic, with its permission in letters."""
    return bean_text("TopicConfig", {**bean_values(topic), "perm": permission_text(topic.perm)})


def permission_text(perm: int) -> str:
    """Write a permission: read, write, inherit."""
    bits = ((4, "R"), (2, "W"), (1, "X"))
    return "".join(letter if perm & bit else "-" for bit, letter in bits)


def host_port(host: tuple[str, int]) -> str:
    """Write an address."""
    return f"{host[0]}:{host[1]}"


def offset_id(record: MessageRecord) -> str:
    """Return the id that the broker gave."""
    return create_message_id(*record.store_host, record.physical_offset)


def message_id(record: MessageRecord) -> str:
    """Return the id that the producer gave, else the broker's."""
    return decode_properties(record.properties_text).get(UNIQ_KEY) or offset_id(record)


def body_of(record: MessageRecord) -> bytes:
    """Return the body, decompressed if that can be done."""
    with suppress(RemoteProtocolError, ModuleNotFoundError):
        return inflate(record.body, record.sys_flag)
    return bytes(record.body)


def queue_text(topic: str, broker_name: str, queue_id: int) -> str:
    """Write a queue as MessageQueue's toString does."""
    names = {"topic": topic, "brokerName": broker_name, "queueId": queue_id}
    return bean_text("MessageQueue", names)


def message_text(record: MessageRecord, broker_name: str | None) -> str:
    """Write a message as MessageExt's toString does."""
    body = ", ".join(str(byte - 256 if byte > 127 else byte) for byte in body_of(record))
    properties = map_text(decode_properties(record.properties_text))
    message = (
        f"Message{{topic='{record.topic}', flag={record.flag}, properties={properties}, "
        f"body=[{body}], transactionId='null'}}"
    )
    fields = {
        "brokerName": broker_name,
        "queueId": record.queue_id,
        "storeSize": record.size_bytes,
        "queueOffset": record.queue_offset,
        "sysFlag": record.sys_flag,
        "bornTimestamp": record.born_timestamp_ms,
        "bornHost": f"/{host_port(record.born_host)}",
        "storeTimestamp": record.store_timestamp_ms,
        "storeHost": f"/{host_port(record.store_host)}",
        "msgId": message_id(record),
        "commitLogOffset": record.physical_offset,
        "bodyCRC": record.body_crc,
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "toString()": message,
    }
    return bean_text("MessageExt", fields)
