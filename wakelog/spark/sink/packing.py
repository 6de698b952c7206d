"""Packs messages into requests: many small messages of one queue travel in one request.

A broker accepts delayed messages, and messages for a retry topic, only one by one. Requests that
name no queue are spread over the queues.

Invariants: messages of one list keep their order; a request has one topic and goes to one queue.

Source: org.apache.rocketmq.common.message.MessageBatch (4.9.3).
"""

from __future__ import annotations

from collections.abc import Iterable

from wakelog.broker.names import RETRY_PREFIX
from wakelog.client.messages import Message, SendRequest
from wakelog.protocol.batch import MESSAGE_BYTES_MIN


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
    is_retry = messages[0].topic.startswith(RETRY_PREFIX)
    for message in messages:
        size_bytes = MESSAGE_BYTES_MIN + len(message.body) + len(message.properties.encode())
        is_full = part_bytes + size_bytes > bytes_max or len(part) == rows_max
        if part and (is_full or is_retry or message.is_delayed or part[-1].is_delayed):
            requests.append(SendRequest(tuple(part)))
            part, part_bytes = [], 0
        part.append(message)
        part_bytes += size_bytes
    return [*requests, SendRequest(tuple(part))]
