"""TopicQueues: for each topic, the queues that each broker name has of it.

The order is that of 4.9.3. A broker name that is new to a topic, or whose numbers changed, goes to
the end of the topic's entries. The unit flags of a topic are those of the first entry.

Entries are found by broker name. In a list, each of 1,000 brokers with 1,000 topics would look at
all entries of a topic when it comes and when it leaves: 50 s to register them, and 13 s to forget.

Invariants:
    - a topic has at least one entry, and at most one a broker name.

Source: org.apache.rocketmq.namesrv.routeinfo.RouteInfoManager.topicQueueTable (4.9.3).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Set

from wakelog.protocol.bodies import QueueData, TopicConfig
from wakelog.protocol.steps import Steps, batched

TOPICS_PER_STEP = 512
"""Some 0.3 ms to look at them."""

ENTRIES_PER_STEP = 8_192
"""Some 0.3 ms to look for broker names among them; a topic costs as much as 16 of them."""


class TopicQueues:
    """Queues by topic, in the order in which brokers registered them."""

    def __init__(self) -> None:
        self._queues: dict[str, dict[str, QueueData]] = {}

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self._queues)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the topics' names."""
        return iter(self._queues)

    def __contains__(self, topic: str) -> bool:
        """Return whether any broker has the topic."""
        return topic in self._queues

    def of(self, topic: str) -> list[QueueData]:
        """Return the queues of a topic, none if no broker has it; not to be changed."""
        return list(self._queues.get(topic, {}).values())

    def put(self, broker_name: str, topics: Iterable[TopicConfig]) -> None:
        """Update these topics of a broker; its other topics stay.

        4.9.3's brokers also send single topics as increments, so an absent topic is not removed.
        """
        for topic in topics:
            registered = QueueData(
                broker_name,
                topic.read_queue_nums,
                topic.write_queue_nums,
                topic.perm,
                topic.topic_sys_flag,
            )
            queues = self._queues.setdefault(topic.topic_name, {})
            if queues.get(broker_name) != registered:
                queues.pop(broker_name, None)
                queues[broker_name] = registered

    def remove_topic(self, topic: str) -> None:
        """Forget a topic at every broker."""
        self._queues.pop(topic, None)

    def remove_broker(self, broker_name: str) -> Steps[None]:
        """Forget a broker at every topic, and the topics of no other broker."""
        for topics in batched(self._queues, TOPICS_PER_STEP):
            for topic in topics:
                queues = self._queues.get(topic)
                if queues is not None:
                    queues.pop(broker_name, None)
                    if not queues:
                        self.remove_topic(topic)
            if len(topics) == TOPICS_PER_STEP:
                yield

    def change_perm(self, broker_name: str, change: Callable[[int], int]) -> Iterator[list[str]]:
        """Change the permission of every topic of a broker; yield the names of some at a time."""
        for topics in batched(self._queues.items(), TOPICS_PER_STEP):
            changed = []
            for topic, queues in topics:
                queue = queues.get(broker_name)
                if queue is not None:
                    queue.perm = change(queue.perm)
                    changed.append(topic)
            yield changed

    def at_brokers(self, broker_names: Set[str]) -> Steps[list[str]]:
        """Return the topics that any of these brokers has."""
        chosen: list[str] = []
        entries_count = 0
        for topic, queues in list(self._queues.items()):
            if not queues.keys().isdisjoint(broker_names):
                chosen.append(topic)
            entries_count += 16 + min(len(queues), len(broker_names))
            if entries_count >= ENTRIES_PER_STEP:
                entries_count = 0
                yield
        return chosen

    def flagged(self, mask: int, flags: int) -> Steps[list[str]]:
        """Return the topics whose unit flags, of those in the mask, are exactly these."""
        chosen: list[str] = []
        for some in batched(self._queues.items(), TOPICS_PER_STEP):
            for topic, queues in some:
                first = next(iter(queues.values()), None)
                if first is not None and first.topic_sys_flag & mask == flags:
                    chosen.append(topic)
            if len(some) == TOPICS_PER_STEP:
                yield
        return chosen

    def validate(self, broker_names: Collection[str]) -> None:
        """Assert the invariants of the module, and that only these brokers have topics."""
        for topic, queues in self._queues.items():
            assert queues, topic
            assert all(queue.broker_name == name for name, queue in queues.items()), topic
            assert queues.keys() <= set(broker_names), topic
