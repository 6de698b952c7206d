"""A message, the request that carries one message or a batch, and the packing of requests.

Many small messages of one queue travel in one request. A broker accepts delayed messages, and
messages for a retry topic, only one by one.

Invariants: a request has one topic and goes to one queue; messages of one list keep their order.

Source: org.apache.rocketmq.common.message.MessageBatch, MessageDecoder#encodeMessages (4.9.3).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from wakelog.protocol.batch import MESSAGE_BYTES_MIN, BatchedMessage, encode_batch_body
from wakelog.protocol.properties import WAIT, encode_properties

_BATCH_PROPERTIES: Final = encode_properties({WAIT: "true"})


class Message(NamedTuple):
    """One message to send.

    properties: encoded as they are stored.
    queue: broker name ("" for any) and queue id; None for any queue.
    sharding_key: messages with the same key go to the same queue; "" for none.
    is_alone: brokers refuse it in a batch: it is delayed, or goes to a retry topic.
    """

    topic: str
    body: bytes
    properties: str = ""
    flag: int = 0
    queue: tuple[str, int] | None = None
    sharding_key: str = ""
    is_alone: bool = False


class SendRequest(NamedTuple):
    """One send: messages of one topic that go to one queue. Several are sent as a batch."""

    messages: tuple[Message, ...]

    @property
    def first(self) -> Message:
        """The message that names the topic, the queue and the sharding key of all."""
        return self.messages[0]

    @property
    def is_batch(self) -> bool:
        """Whether it is sent as a batch."""
        return len(self.messages) > 1

    @property
    def body(self) -> bytes:
        """The body of the request."""
        if not self.is_batch:
            return self.first.body
        return encode_batch_body(
            BatchedMessage(each.flag, each.body, each.properties.encode()) for each in self.messages
        )

    @property
    def properties(self) -> str:
        """The properties in the header; each message of a batch has its own in the body."""
        return _BATCH_PROPERTIES if self.is_batch else self.first.properties


def pack(messages: Iterable[Message], *, bytes_max: int, rows_max: int) -> list[list[SendRequest]]:
    """Return lists of requests; the requests of one list have to arrive in order.

    Messages that name a queue, or share a sharding key, are in one list. A request that may go to
    any queue is a list of its own.
    """
    groups: dict[tuple[str, tuple[str, int] | None, str], list[Message]] = {}
    for message in messages:
        key = message.topic, message.queue, message.sharding_key
        groups.setdefault(key, []).append(message)
    packed: list[list[SendRequest]] = []
    for (_, queue, sharding_key), group in groups.items():
        requests = _requests(group, bytes_max, rows_max)
        is_ordered = queue is not None or bool(sharding_key)
        packed += [requests] if is_ordered else [[request] for request in requests]
    return packed


def _requests(messages: list[Message], bytes_max: int, rows_max: int) -> list[SendRequest]:
    requests: list[SendRequest] = []
    part: list[Message] = []
    part_bytes = 0
    for message in messages:
        size_bytes = MESSAGE_BYTES_MIN + len(message.body) + len(message.properties.encode())
        is_full = part_bytes + size_bytes > bytes_max or len(part) == rows_max
        if part and (is_full or message.is_alone or part[-1].is_alone):
            requests.append(SendRequest(tuple(part)))
            part, part_bytes = [], 0
        part.append(message)
        part_bytes += size_bytes
    return [*requests, SendRequest(tuple(part))]
