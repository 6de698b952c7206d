"""A message, and the request that carries one message or a batch.

Source: org.apache.rocketmq.common.message.MessageBatch, MessageDecoder#encodeMessages (4.9.3).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from wakelog.protocol.batch import BatchedMessage, encode_batch_body
from wakelog.protocol.properties import WAIT, encode_properties

_BATCH_PROPERTIES: Final = encode_properties({WAIT: "true"})


class Message(NamedTuple):
    """One message to send.

    properties: encoded as they are stored.
    queue: broker name ("" for any) and queue id; None for any queue.
    sharding_key: messages with the same key go to the same queue; "" for none.
    is_delayed: it has a delay level; brokers refuse that in a batch.
    """

    topic: str
    body: bytes
    properties: str = ""
    flag: int = 0
    queue: tuple[str, int] | None = None
    sharding_key: str = ""
    is_delayed: bool = False


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
