"""The names of OpenTelemetry's conventions for messaging, and what the client has for them.

Source: opentelemetry.semconv (messaging, RocketMQ).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry.semconv._incubating.attributes import messaging_attributes as messaging
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.semconv.attributes.server_attributes import SERVER_ADDRESS, SERVER_PORT
from opentelemetry.util.types import AttributeValue

from wakelog.client.errors import ClientError
from wakelog.client.received import ReceivedMessage

Attributes = dict[str, AttributeValue]

SYSTEM: Final = "rocketmq"
SEND, RECEIVE, PROCESS = "send", "receive", "process"
NORMAL, FIFO, DELAYED, TRANSACTION = "normal", "fifo", "delay", "transaction"
CLUSTERING, BROADCASTING = "clustering", "broadcasting"


def operation(name: str, kind: str, topic: str, namespace: str) -> Attributes:
    """Return what every span has. name: of the method. kind: `send`, `receive` or `process`.

    topic: without the namespace.
    """
    return {
        messaging.MESSAGING_SYSTEM: SYSTEM,
        messaging.MESSAGING_OPERATION_NAME: name,
        messaging.MESSAGING_OPERATION_TYPE: kind,
        messaging.MESSAGING_DESTINATION_NAME: topic,
        messaging.MESSAGING_ROCKETMQ_NAMESPACE: namespace,
    }


def add_fields(found: Attributes, body: object, fields: Mapping[str, Any]) -> None:
    """Add what a call of `send` was given; what cannot be sent is left out."""
    if isinstance(body, bytes):
        found[messaging.MESSAGING_MESSAGE_BODY_SIZE] = len(body)
    tags, keys = fields.get("tags"), fields.get("keys")
    if tags and isinstance(tags, str):
        found[messaging.MESSAGING_ROCKETMQ_MESSAGE_TAG] = tags
    if keys and (texts := [keys] if isinstance(keys, str) else _texts(keys)):
        found[messaging.MESSAGING_ROCKETMQ_MESSAGE_KEYS] = texts
    sharding_key, level = fields.get("sharding_key"), fields.get("delay_level")
    kind = NORMAL
    if sharding_key and isinstance(sharding_key, str):
        kind = FIFO
        found[messaging.MESSAGING_ROCKETMQ_MESSAGE_GROUP] = sharding_key
    if level or fields.get("delay") is not None:
        kind = DELAYED
        if isinstance(level, int) and level:
            found[messaging.MESSAGING_ROCKETMQ_MESSAGE_DELAY_TIME_LEVEL] = level
    found[messaging.MESSAGING_ROCKETMQ_MESSAGE_TYPE] = kind


def of_messages(messages: Sequence[ReceivedMessage], group: str, model: str) -> Attributes:
    """Return what a span says of messages that were received, one or several."""
    first = messages[0]
    found = of_server(*first.record.store_host)
    found[messaging.MESSAGING_CONSUMER_GROUP_NAME] = group
    found[messaging.MESSAGING_ROCKETMQ_CONSUMPTION_MODEL] = model
    if len(messages) > 1:
        found[messaging.MESSAGING_BATCH_MESSAGE_COUNT] = len(messages)
        return found
    found[messaging.MESSAGING_MESSAGE_ID] = first.message_id
    found[messaging.MESSAGING_DESTINATION_PARTITION_ID] = str(first.queue_id)
    if first.tags:
        found[messaging.MESSAGING_ROCKETMQ_MESSAGE_TAG] = first.tags
    if first.keys:
        found[messaging.MESSAGING_ROCKETMQ_MESSAGE_KEYS] = first.keys
    return found


def of_address(address: str) -> Attributes:
    """Return the attributes of a server at `HOST:PORT`; none for another form."""
    host, _, port = address.rpartition(":")
    return of_server(host, int(port)) if host and port.isdecimal() else {}


def of_server(host: str, port: int) -> Attributes:
    """Return the attributes of a server."""
    return {SERVER_ADDRESS: host, SERVER_PORT: port}


def of_error(error: BaseException) -> Attributes:
    """Return the type of an error: the code of the broker that refused, else its class."""
    code = error.code if isinstance(error, ClientError) else None
    return {ERROR_TYPE: type(error).__qualname__ if code is None else str(code)}


def _texts(keys: object) -> list[str]:
    """Return several keys; none of what can be read once, as the client will."""
    if isinstance(keys, Sequence | set | frozenset):
        return [key for key in keys if isinstance(key, str)]
    return []
