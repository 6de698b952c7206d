"""From messages to requests: many small messages of one queue travel in one.

What is delayed, and what goes to a retry topic, a broker takes only one by one. Messages that name
no queue are dealt out request by request.

Invariants: messages of one lane keep their order; a request has one topic and goes to one queue.

Source: org.apache.rocketmq.common.message.MessageBatch, MessageDecoder#encodeMessages,
org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash (4.9.3).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from wakelog.broker.names import RETRY_PREFIX
from wakelog.protocol.batch import MESSAGE_BYTES_MIN, BatchedMessage, encode_batch_body
from wakelog.protocol.properties import WAIT, encode_properties
from wakelog.spark.sink.rows import Message

BATCH_PROPERTIES: Final = encode_properties({WAIT: "true"})


class Lane(NamedTuple):
    """What has to arrive in order: one queue, or what one sharding key chooses."""

    topic: str
    queue: tuple[str, int] | None
    sharding_key: str

    @property
    def is_free(self) -> bool:
        """Tell whether any queue will do."""
        return self.queue is None and not self.sharding_key


class Request(NamedTuple):
    """One send, of one message or of several."""

    lane: Lane
    messages: tuple[Message, ...]

    @property
    def is_batch(self) -> bool:
        """Tell whether it is sent as a batch."""
        return len(self.messages) > 1

    @property
    def body(self) -> bytes:
        """Return what follows the header."""
        if not self.is_batch:
            return self.messages[0].body
        return encode_batch_body(
            BatchedMessage(each.flag, each.body, each.properties.encode()) for each in self.messages
        )

    @property
    def properties(self) -> str:
        """Return the header's properties; those of messages in a batch are in its body."""
        return BATCH_PROPERTIES if self.is_batch else self.messages[0].properties


def pack(messages: Iterable[Message], *, bytes_max: int, rows_max: int) -> list[list[Request]]:
    """Return requests, those of one lane in one list and in order; free ones are lists of one."""
    lanes: dict[Lane, list[Message]] = {}
    for message in messages:
        lane = Lane(message.topic, message.queue, message.sharding_key)
        lanes.setdefault(lane, []).append(message)
    packed: list[list[Request]] = []
    for lane, waiting in lanes.items():
        requests = _requests(lane, waiting, bytes_max, rows_max)
        packed += [[request] for request in requests] if lane.is_free else [requests]
    return packed


def _requests(lane: Lane, messages: list[Message], bytes_max: int, rows_max: int) -> list[Request]:
    requests: list[Request] = []
    part: list[Message] = []
    part_bytes = 0
    alone = lane.topic.startswith(RETRY_PREFIX)
    for message in messages:
        size_bytes = MESSAGE_BYTES_MIN + len(message.body) + len(message.properties.encode())
        is_full = part_bytes + size_bytes > bytes_max or len(part) == rows_max
        if part and (is_full or alone or message.is_delayed or part[-1].is_delayed):
            requests.append(Request(lane, tuple(part)))
            part, part_bytes = [], 0
        part.append(message)
        part_bytes += size_bytes
    return [*requests, Request(lane, tuple(part))]
