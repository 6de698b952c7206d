"""The names of OpenTelemetry's conventions for messaging, and what the client has for them.

Source: opentelemetry.semconv (messaging, RocketMQ).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from opentelemetry.semconv._incubating.attributes import messaging_attributes as messaging
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.semconv.attributes.server_attributes import SERVER_ADDRESS, SERVER_PORT
from opentelemetry.util.types import AttributeValue

from wakelog.client.errors import ClientError
from wakelog.client.received import ReceivedMessage
from wakelog.protocol.java import INT_MAX

Attributes = dict[str, AttributeValue]

SYSTEM: Final = "rocketmq"
SEND, RECEIVE, PROCESS = "send", "receive", "process"
NORMAL, FIFO, DELAYED, TRANSACTION = "normal", "fifo", "delay", "transaction"
CLUSTERING, BROADCASTING = "clustering", "broadcasting"
ATTRIBUTES_REMEMBERED_MAX: Final = 1_024
"""Operations, topics and servers whose attributes are not put together again."""


class Operation(NamedTuple):
    """What a span has from its begin on, and a sampler may look at; it is shared: do not change it.

    name: of the span.
    """

    name: str
    attributes: Attributes


@lru_cache(maxsize=ATTRIBUTES_REMEMBERED_MAX)
def operation(
    name: str, kind: str, topic: str, namespace: str, group: str = "", model: str = ""
) -> Operation:
    """Return what every span of an operation has: what the conventions want to be sampled by.

    name: of the method. kind: `send`, `receive` or `process`. topic: without the namespace, ""
    for several topics or an unknown one. group, model: of a consumer.
    """
    topic = plain_text(topic)
    found: Attributes = {
        messaging.MESSAGING_SYSTEM: SYSTEM,
        messaging.MESSAGING_OPERATION_NAME: name,
        messaging.MESSAGING_OPERATION_TYPE: kind,
        messaging.MESSAGING_ROCKETMQ_NAMESPACE: namespace,
    }
    if topic:
        found[messaging.MESSAGING_DESTINATION_NAME] = topic
    if group:
        found[messaging.MESSAGING_CONSUMER_GROUP_NAME] = group
    if model:
        found[messaging.MESSAGING_ROCKETMQ_CONSUMPTION_MODEL] = model
    return Operation(f"{name} {topic}".rstrip(), found)


def add_fields(found: Attributes, body: object, fields: Mapping[str, Any]) -> None:
    """Add what a call of `send` was given; what cannot be sent is left out, or made plain."""
    if isinstance(body, bytes):
        found[messaging.MESSAGING_MESSAGE_BODY_SIZE] = len(body)
    if not fields:
        found[messaging.MESSAGING_ROCKETMQ_MESSAGE_TYPE] = NORMAL
        return
    if tags := plain_text(fields.get("tags")):
        found[messaging.MESSAGING_ROCKETMQ_MESSAGE_TAG] = tags
    if texts := _texts(fields.get("keys")):
        found[messaging.MESSAGING_ROCKETMQ_MESSAGE_KEYS] = texts
    kind, level = NORMAL, fields.get("delay_level")
    if sharding_key := plain_text(fields.get("sharding_key")):
        kind = FIFO
        found[messaging.MESSAGING_ROCKETMQ_MESSAGE_GROUP] = sharding_key
    if level or fields.get("delay") is not None:
        kind = DELAYED
        if isinstance(level, int) and 0 < level <= INT_MAX:
            found[messaging.MESSAGING_ROCKETMQ_MESSAGE_DELAY_TIME_LEVEL] = level
    found[messaging.MESSAGING_ROCKETMQ_MESSAGE_TYPE] = kind


def of_messages(messages: Sequence[ReceivedMessage]) -> Attributes:
    """Return what a span says of messages that were received, one or several."""
    first = messages[0]
    found = of_server(*first.record.store_host)
    if len(messages) > 1:
        found[messaging.MESSAGING_BATCH_MESSAGE_COUNT] = len(messages)
        return found
    found[messaging.MESSAGING_MESSAGE_ID] = first.message_id
    found[messaging.MESSAGING_DESTINATION_PARTITION_ID] = str(first.queue_id)
    if first.tags:
        found[messaging.MESSAGING_ROCKETMQ_MESSAGE_TAG] = first.tags
    if first.keys:
        found[messaging.MESSAGING_ROCKETMQ_MESSAGE_KEYS] = tuple(first.keys)
    return found


@lru_cache(maxsize=ATTRIBUTES_REMEMBERED_MAX)
def of_address(address: str) -> Attributes:
    """Return the attributes of a server at `HOST:PORT`, which are shared; none for another form."""
    host, _, port = address.rpartition(":")
    return of_server(host, int(port)) if host and port.isdecimal() else {}


@lru_cache(maxsize=ATTRIBUTES_REMEMBERED_MAX)
def of_queue(address: str, queue_id: int) -> Attributes:
    """Return the attributes of where a message was stored, which are shared."""
    return {**of_address(address), messaging.MESSAGING_DESTINATION_PARTITION_ID: str(queue_id)}


def of_server(host: str, port: int) -> Attributes:
    """Return the attributes of a server."""
    return {SERVER_ADDRESS: host, SERVER_PORT: port}


def plain_text(given: object) -> str:
    """Return a text as an exporter can encode it; "" for what is no text.

    A text of a class of its own, such as an enum's, would be shown as that class shows it.
    """
    if not isinstance(given, str):
        return ""
    text = given if type(given) is str else str.__str__(given)
    return text if text.isascii() else text.encode(errors="replace").decode()


def error_type(error: BaseException) -> str:
    """Return the type of an error: the code of the broker that refused, else its class."""
    code = error.code if isinstance(error, ClientError) else None
    return type(error).__qualname__ if code is None else str(code)


def of_error(error: BaseException) -> Attributes:
    """Return the attribute of an error."""
    return {ERROR_TYPE: error_type(error)}


def _texts(keys: object) -> tuple[str, ...]:
    """Return one or several keys; none of what can be read once, as the client will."""
    if isinstance(keys, str):
        return (plain_text(keys),) if keys else ()
    if isinstance(keys, Sequence | set | frozenset):
        return tuple(plain_text(key) for key in keys if isinstance(key, str))
    return ()
