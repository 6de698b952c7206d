"""Which messages a query is about: topics and queues, from where to where, with which tags.

Made on the driver from options, offsets and pushed filters; sent with every task, which asks it
once for each queue that it meets in a piece of the log.

Invariants: a value, picklable, the same answer everywhere; both bounds of a queue hold for each
record, whatever else does.

Source: org.apache.rocketmq.common.topic.TopicValidator, MixAll (4.9.3) for which topics are the
system's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from wakelog.broker.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from wakelog.protocol.java import LONG_MAX, LONG_MIN

QueueKey = tuple[str, str, int]
"""Broker name, topic, queue id."""


class Bounds(NamedTuple):
    """Records with queue offset and physical offset in these half-open ranges.

    LONG_MAX at an end is no bound: a damaged record may state any number, and is not left out.
    """

    queue_begin: int = LONG_MIN
    queue_end: int = LONG_MAX
    physical_begin: int = 0
    physical_end: int = LONG_MAX

    def within(self, other: Bounds) -> Bounds:
        """Return what lies in both."""
        return Bounds(
            max(self.queue_begin, other.queue_begin),
            min(self.queue_end, other.queue_end),
            max(self.physical_begin, other.physical_begin),
            min(self.physical_end, other.physical_end),
        )


EVERYTHING: Final = Bounds()


class Topics(NamedTuple):
    """Which topics and queues; `names`, `pattern` and `assigned` exclude one another.

    Without any of them it is every topic of users. The system's, retry and dead-letter topics are
    included when asked for, or when named.
    """

    names: frozenset[str] = frozenset()
    pattern: str = ""
    assigned: Mapping[str, Mapping[str, frozenset[int]]] | None = None
    include_system: bool = False
    include_retry: bool = False
    include_dlq: bool = False

    def accept(self, broker: str, topic: str, queue_id: int) -> bool:
        """Tell whether a queue is one of these."""
        if self.assigned is not None:
            brokers = self.assigned.get(topic, {})
            return queue_id in brokers.get(broker, brokers.get("", frozenset()))
        return self.accept_topic(topic)

    def accept_topic(self, topic: str) -> bool:
        """Tell whether any queue of a topic may be one of these."""
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
        """The topics that the user named one by one."""
        return self.names if self.assigned is None else frozenset(self.assigned)


class Selection(NamedTuple):
    """All of it.

    brokers: bounds of every queue of a broker, where it has any.
    queues: bounds of single queues, beside those of their broker.
    everywhere: pushed bounds, of every queue; `store_ms` of every record, [begin, end).
    tags: one of these; none means any. sql: a SQL92 expression that holds; empty means any.
    """

    topics: Topics = Topics()
    brokers: Mapping[str, Bounds] = {}
    queues: Mapping[QueueKey, Bounds] = {}
    everywhere: Bounds = EVERYTHING
    store_ms: tuple[int, int] | None = None
    tags: tuple[str, ...] = ()
    sql: str = ""
    queue_ids: frozenset[int] | None = None
    broker_names: frozenset[str] | None = None
    topic_names: frozenset[str] | None = None

    def bounds(self, broker: str, topic: str, queue_id: int) -> Bounds | None:
        """Return the bounds of a queue, None if nothing of it is wanted."""
        if self.queue_ids is not None and queue_id not in self.queue_ids:
            return None
        if self.topic_names is not None and topic not in self.topic_names:
            return None
        if not self.topics.accept(broker, topic, queue_id):
            return None
        found = self.everywhere.within(self.brokers.get(broker, EVERYTHING))
        return found.within(self.queues.get((broker, topic, queue_id), EVERYTHING))


def is_system_topic(topic: str) -> bool:
    """Tell whether a topic is the broker's own, by its name."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)
