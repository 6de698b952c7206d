"""The queue offset that each queue's next message gets, and the offsets of multi dispatch.

An append of a message that consumers will see advances its queue by one. Prepared and rolled-back
messages are not consumed: they carry queue offset 0 and advance nothing.

With `enableMultiDispatch` a message may name more queues in its property INNER_MULTI_DISPATCH. The
log writes the next offset of each to INNER_MULTI_QUEUE_OFFSET, in the same order, and encodes the
properties again: in HashMap order and without WAIT.

While the files of a topic's queues are removed, the topic is closed: it gets no new queue. So no
message can come to a queue that is half removed.

Source: org.apache.rocketmq.store.MultiDispatch, CommitLog.topicQueueTable, lmqTopicQueueTable
(4.9.3); one table here, since an LMQ queue has a name no topic can take.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from wakelog.protocol.properties import (
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    WAIT,
    decode_properties,
    encode_properties,
)
from wakelog.storage.errors import IllegalName
from wakelog.storage.paths import check_topic_name

LMQ_PREFIX: Final = "%LMQ%"
MULTI_DISPATCH_SEPARATOR: Final = ","

QueueKey = tuple[str, int]


def multi_dispatch_keys(names: str, queue_id: int, *, enable_lmq: bool) -> list[QueueKey]:
    """Return the queues that INNER_MULTI_DISPATCH names; a light queue has only queue 0."""
    # Java's split drops empty strings at the end, and only there.
    return [
        (name, 0 if enable_lmq and name.startswith(LMQ_PREFIX) else queue_id)
        for name in names.rstrip(MULTI_DISPATCH_SEPARATOR).split(MULTI_DISPATCH_SEPARATOR)
    ]


def _is_light(key: QueueKey) -> bool:
    return key[0].startswith(LMQ_PREFIX)


class TopicClosed(Exception):
    """The queues of a topic are being removed: try again."""


class QueueOffsets:
    """Next queue offset by (topic, queue id).

    find: returns a queue's next offset, None for a queue that has never had one.
    grown: the topics that got a message since `MessageStore.take_grown` has emptied it.
    removals_count: how often queues were dropped, or their topics opened again.
    """

    def __init__(self, seed: dict[QueueKey, int], *, enable_lmq: bool) -> None:
        """Own the table that recovery made."""
        self._next = seed
        self.find = seed.get
        self._enable_lmq = enable_lmq
        self.light_count = sum(map(_is_light, seed))
        self._closed: dict[str, dict[QueueKey, int]] = {}
        self.grown: set[str] = set()
        self.removals_count = 0

    def __len__(self) -> int:
        """Return how many queues have had a message."""
        return len(self._next)

    def queues(self) -> list[QueueKey]:
        """Return the queues that have had a message; for any thread."""
        return list(self._next)

    def get(self, key: QueueKey) -> int:
        """Return a queue's next offset, 0 for a queue that has never had one."""
        return self._next.get(key, 0)

    def get_or_add(self, key: QueueKey) -> int:
        """Return a queue's next offset; a new queue joins the table with 0.

        Raises: IllegalName for a new queue whose name must not reach a path; TopicClosed.
        """
        queue_offset = self._next.get(key)
        if queue_offset is None:
            if key[1] < 0:
                raise IllegalName("queue", f"{key[0]}/{key[1]}")
            check_topic_name(key[0])
            if key[0] in self._closed:
                raise TopicClosed(key[0])
            queue_offset = self._next[key] = 0
            self.light_count += _is_light(key)
        return queue_offset

    def advance(self, key: QueueKey, count: int = 1) -> None:
        """Note that a queue got `count` messages."""
        self._next[key] += count
        self.grown.add(key[0])

    def advance_all(self, keys: Iterable[QueueKey], counts: Iterable[int]) -> None:
        """Note how many messages each queue got; some may have none."""
        for key, count in zip(keys, counts, strict=True):
            if count:
                self._next[key] += count
                self.grown.add(key[0])

    def close(self, topics: tuple[str, ...], queues: Mapping[QueueKey, int]) -> list[QueueKey]:
        """Drop queues and close their topics; return what was dropped.

        topics: all of their queues are dropped. queues: with the next offset that each must have,
        else it stays. Should they come back, they start at 0.
        """
        wanted = set(topics)
        dropped = [key for key in self._next if key[0] in wanted]
        dropped += [
            key
            for key, next_offset in queues.items()
            if self._next.get(key) == next_offset and key[0] not in wanted
        ]
        self.removals_count += 1
        for key in dropped:
            self._closed.setdefault(key[0], {})[key] = self._next.pop(key)
            self.light_count -= _is_light(key)
        return dropped

    def is_closed(self, topic: str) -> bool:
        """Return whether a topic's queues are being removed."""
        return topic in self._closed

    def open(self, topics: tuple[str, ...], *, removed: bool) -> None:
        """Let closed topics have queues again; those that were not removed keep their offsets."""
        self.removals_count += 1
        for topic in topics:
            kept = self._closed.pop(topic)
            if not removed:
                self._next.update(kept)
                self.light_count += sum(map(_is_light, kept))

    def add_further_offsets(self, properties_text: str, queue_id: int) -> tuple[str, set[QueueKey]]:
        """Return a multi-dispatch message's properties with its offsets, and its queues.

        The table does not change: `advance` each queue once after the message is placed. A message
        without the property keeps its properties. Raises: IllegalName, TopicClosed.
        """
        properties = decode_properties(properties_text)
        names = properties.get(INNER_MULTI_DISPATCH, "")
        if not names.strip():
            return properties_text, set()
        keys = multi_dispatch_keys(names, queue_id, enable_lmq=self._enable_lmq)
        offsets = [str(self.get_or_add(key)) for key in keys]
        properties[INNER_MULTI_QUEUE_OFFSET] = MULTI_DISPATCH_SEPARATOR.join(offsets)
        properties.pop(WAIT, None)
        return encode_properties(properties), set(keys)
