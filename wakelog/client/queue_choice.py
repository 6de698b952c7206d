"""QueueChoice: which queue a message goes to.

    named queue       that one
    sharding key      always the same one of the topic's queues
    neither           each topic's queues in turn, those of brokers that have failed last

Source: org.apache.rocketmq.client.impl.producer.TopicPublishInfo#selectOneMessageQueue,
org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash (4.9.3).
"""

import random
from collections.abc import Sequence, Set
from typing import Final

from wakelog.client.errors import NO_QUEUE, InvalidArgument
from wakelog.client.messages import EncodedMessage
from wakelog.client.route import QueueAt, Routes, no_master
from wakelog.protocol.java import string_hash

INDEX_MAX: Final = 1 << 20
"""Above the number of queues of a topic: a random index below it may be any of them."""
TOPICS_COUNTED_MAX: Final = 1_024
"""Topics whose next queue is known; the topic counted longest then begins anew."""


class QueueChoice:
    """See the module. One thread."""

    def __init__(self, routes: Routes, first_queue: int | None = None) -> None:
        """first_queue: the index of each topic's queue that is used first.

        None for a random one, so that many short-lived producers do not all begin with the same.
        """
        self._routes = routes
        self._first_queue = first_queue
        self._next_queues: dict[str, int] = {}  # by topic

    def choose(
        self, message: EncodedMessage, queues: Sequence[QueueAt], avoided: Sequence[Set[str]] = ()
    ) -> QueueAt:
        """Return the queue of the next attempt to send a message, and those with it.

        avoided: brokers that are left out, if any other is left; else the next ones are.

        Raises: InvalidArgument if the named one is gone; ClientError if it has no master now.
        """
        if message.queue is not None:
            broker, queue_id = message.queue
            for queue in queues:
                if queue.queue_id == queue_id and broker in ("", queue.broker):
                    return queue
            if broker and self._routes.lacks_master(message.topic, broker):
                raise no_master(message.topic, broker)
            raise InvalidArgument(
                f"topic {message.topic} has no queue {queue_id} to write to"
                + (f" at {broker}" if broker else ""),
                f"{NO_QUEUE}, or give the topic more queues",
            )
        if message.sharding_key:
            return queues[abs(string_hash(message.sharding_key)) % len(queues)]
        others = queues
        for brokers in avoided:
            left = [queue for queue in queues if queue.broker not in brokers]
            if left:
                others = left
                break
        return others[self._next_index(message.topic) % len(others)]

    def _next_index(self, topic: str) -> int:
        """Return the index of a topic's next queue: other topics do not move it on."""
        index = self._next_queues.get(topic)
        if index is None:
            if len(self._next_queues) >= TOPICS_COUNTED_MAX:
                del self._next_queues[next(iter(self._next_queues))]
            first = self._first_queue
            index = random.SystemRandom().randrange(INDEX_MAX) if first is None else first
        self._next_queues[topic] = index + 1
        return index
