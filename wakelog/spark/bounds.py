"""Which messages a query reads: topics, queues, their bounds, and tags.

The driver makes a selection from the options and sends it with every task. For each queue in its
part of the log, a task gets the bounds from the selection once.

Invariants: values that can be pickled; both bounds of a queue apply to each of its records.

Source: org.apache.rocketmq.common.topic.TopicValidator, MixAll (4.9.3) for the system's topics.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from wakelog.broker.names import SYSTEM_TOPICS
from wakelog.protocol.java import LONG_MAX, LONG_MIN
from wakelog.protocol.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX

QueueKey = tuple[str, str, int]
"""Broker name, topic, queue id."""


class Bounds(NamedTuple):
    """Half-open ranges of queue offsets and physical offsets.

    LONG_MAX as an end is no bound: a damaged record may have any number, and must not be left out.
    """

    queue_begin: int = LONG_MIN
    queue_end: int = LONG_MAX
    physical_begin: int = 0
    physical_end: int = LONG_MAX

    def within(self, other: "Bounds") -> "Bounds":
        """Return the intersection."""
        return Bounds(
            max(self.queue_begin, other.queue_begin),
            min(self.queue_end, other.queue_end),
            max(self.physical_begin, other.physical_begin),
            min(self.physical_end, other.physical_end),
        )


EVERYTHING: Final = Bounds()


class Topics(NamedTuple):
    """Topics and queues; `names`, `pattern` and `assigned` exclude one another.

    Without any of them every topic of users is meant. Topics of the system, retry and dead-letter
    topics are included by their flags, or if they are named.
    assigned: topic to broker name ("" for every broker) to queue ids.
    """

    names: frozenset[str] = frozenset()
    pattern: str = ""
    assigned: Mapping[str, Mapping[str, frozenset[int]]] | None = None
    include_system: bool = False
    include_retry: bool = False
    include_dlq: bool = False

    def accept(self, broker: str, topic: str, queue_id: int) -> bool:
        """Return whether a queue is included."""
        if self.assigned is not None:
            brokers = self.assigned.get(topic, {})
            return queue_id in brokers.get(broker, brokers.get("", frozenset()))
        return self.accept_topic(topic)

    def accept_topic(self, topic: str) -> bool:
        """Return whether any queue of a topic may be included."""
        if self.assigned is not None:
            return topic in self.assigned
        if self.names:
            return topic in self.names
        if self.pattern and re.fullmatch(self.pattern, topic) is None:
            return False
        if topic.startswith(RETRY_PREFIX):
            return self.include_retry
        if topic.startswith(DLQ_PREFIX):
            return self.include_dlq
        return self.include_system or not is_system_topic(topic)

    @property
    def named(self) -> frozenset[str]:
        """The topics that the user named."""
        return self.names if self.assigned is None else frozenset(self.assigned)


class Selection(NamedTuple):
    """The messages of a query.

    brokers: bounds of every queue of a broker. queues: of single queues. everywhere: of every
        queue. All of them apply.
    tags: a message has one of these; none means any message. sql: a SQL92 expression; "" for none.
    """

    topics: Topics = Topics()
    brokers: Mapping[str, Bounds] = {}
    queues: Mapping[QueueKey, Bounds] = {}
    everywhere: Bounds = EVERYTHING
    tags: tuple[str, ...] = ()
    sql: str = ""

    def bounds(self, broker: str, topic: str, queue_id: int) -> Bounds | None:
        """Return the bounds of a queue, None if the query does not read it."""
        if not self.topics.accept(broker, topic, queue_id):
            return None
        found = self.everywhere.within(self.brokers.get(broker, EVERYTHING))
        return found.within(self.queues.get((broker, topic, queue_id), EVERYTHING))


def is_system_topic(topic: str) -> bool:
    """Return whether the name of a topic is one of the broker's own."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)
