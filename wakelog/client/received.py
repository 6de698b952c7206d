"""A message as it is received: from a pull, with a check of a transaction, or as a reply.

Properties are decoded and a body is inflated when they are asked for, once: a program that looks at
neither does not pay for them.

Source: org.apache.rocketmq.common.message.{MessageExt, MessageDecoder#decode} (4.9.3).
"""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

from wakelog.client.errors import ClientError
from wakelog.client.options import without_namespace
from wakelog.protocol.compression import inflate
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.message_id import create_message_id
from wakelog.protocol.properties import KEYS, TAGS, UNIQ_KEY, decode_properties, split_keys
from wakelog.protocol.record import MessageRecord

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ReceivedMessage:
    """See the module.

    record: as stored. broker: the name of the broker it is from, "" if unknown.
    """

    _offset_message_id: str = ""

    def __init__(self, record: MessageRecord, *, broker: str = "", namespace: str = "") -> None:
        """Decode nothing yet."""
        self.record = record
        self.broker = broker
        self.namespace = namespace

    @cached_property
    def body(self) -> bytes:
        """What the producer gave, inflated. Raises: ClientError if that cannot be done."""
        return self._inflated()

    def _inflated(self) -> bytes:
        try:
            return inflate(self.record.body, self.record.sys_flag)
        except RemoteProtocolError as error:
            raise ClientError(f"{self!r}: {error.remark}", "Look at how it was sent") from error
        except ModuleNotFoundError as error:
            cause = f"{self!r} is compressed by another client"
            raise ClientError(cause, f"Run pip install {error.name}") from error

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """All properties, RocketMQ's own among them."""
        return decode_properties(self.record.properties_text)

    @property
    def full_topic(self) -> str:
        """The topic with its namespace, as brokers know it."""
        return self.record.topic

    @property
    def topic(self) -> str:
        """The topic that it was sent to, without the namespace."""
        return without_namespace(self.namespace, self.full_topic)

    @property
    def tags(self) -> str:
        """What consumers filter by."""
        return self.properties.get(TAGS, "")

    @property
    def keys(self) -> list[str]:
        """The keys by which it can be found."""
        return split_keys(self.properties.get(KEYS, ""))

    @property
    def message_id(self) -> str:
        """The id that its producer gave it; the broker's without one."""
        return self.properties.get(UNIQ_KEY) or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """The broker's id, which names the place in its log."""
        if not self._offset_message_id:
            record = self.record
            self._offset_message_id = create_message_id(*record.store_host, record.physical_offset)
        return self._offset_message_id

    @property
    def queue_id(self) -> int:
        """The queue it is in."""
        return self.record.queue_id

    @property
    def queue_offset(self) -> int:
        """Its place in the queue."""
        return self.record.queue_offset

    @property
    def place(self) -> str:
        """Where it is stored, for a log or an error; that may be a retry topic."""
        queue = f"queue {self.queue_id} of topic {self.record.topic}"
        return f"offset {self.queue_offset} of {queue} at {self.broker or 'a broker'}"

    @property
    def reconsume_times(self) -> int:
        """How often a consumer has sent it back."""
        return self.record.reconsume_times

    @property
    def born_at(self) -> datetime:
        """When its producer says that it sent it; the nearest moment that a datetime can be."""
        return _moment(self.record.born_timestamp_ms)

    @property
    def stored_at(self) -> datetime:
        """When the broker stored it."""
        return _moment(self.record.store_timestamp_ms)

    def __repr__(self) -> str:
        """Name the message, not its content."""
        return f"{type(self).__name__}({self.topic!r}, {self.message_id!r})"


def body_values(body: bytes) -> dict[str, Any]:
    """Return a body as a field of a JSON object; one that is not UTF-8 is in base64."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"bodyBase64": base64.b64encode(body).decode()}


def values_of(message: ReceivedMessage) -> dict[str, Any]:
    """Return a message as a JSON object, without its body."""
    return {
        "topic": message.full_topic,
        "broker": message.broker,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "messageId": message.message_id,
        "offsetMessageId": message.offset_message_id,
        "storeTimestamp": message.record.store_timestamp_ms,
        "bornTimestamp": message.record.born_timestamp_ms,
        "reconsumeTimes": message.reconsume_times,
        "tags": message.tags,
        "keys": message.keys,
        "properties": dict(message.properties),
    }


def _moment(time_ms: int) -> datetime:
    """Return a time that another client gave: any long, of which a datetime has a part."""
    try:
        return _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return (datetime.max if time_ms > 0 else datetime.min).replace(tzinfo=UTC)
