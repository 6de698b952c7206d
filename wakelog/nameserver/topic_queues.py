"""TopicQueues: for each topic, the queues that each broker name has of it.

The order is that of 4.9.3. A broker name that is new to a topic, or whose numbers changed, goes to
the end of the topic's list. The unit flags of a topic are those of the first entry.

Invariants:
    - a topic has at least one entry, and at most one a broker name.

Source: org.apache.rocketmq.namesrv.routeinfo.RouteInfoManager.topicQueueTable (4.9.3).
"""

from collections.abc import Callable, Collection, Iterable, Iterator

from wakelog.protocol.bodies import QueueData, TopicConfig
from wakelog.protocol.steps import Steps, batched

TOPICS_PER_STEP = 512
"""Some 0.3 ms to look at them."""


class TopicQueues:
    """Queues by topic, in the order in which brokers registered them."""

    def __init__(self) -> None:
        self._queues: dict[str, list[QueueData]] = {}

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
        return self._queues.get(topic, [])

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
            queues = self._queues.setdefault(topic.topic_name, [])
            if registered not in queues:
                queues[:] = [q for q in queues if q.broker_name != broker_name]
                queues.append(registered)

    def remove_topic(self, topic: str) -> None:
        """Forget a topic at every broker."""
        self._queues.pop(topic, None)

    def remove_broker(self, broker_name: str) -> Steps[None]:
        """Forget a broker at every topic, and the topics of no other broker."""
        for topics in batched(self._queues, TOPICS_PER_STEP):
            for topic in topics:
                left = [q for q in self.of(topic) if q.broker_name != broker_name]
                if left:
                    self._queues[topic] = left
                else:
                    self.remove_topic(topic)
            if len(topics) == TOPICS_PER_STEP:
                yield

    def change_perm(self, broker_name: str, change: Callable[[int], int]) -> int:
        """Change the permission of every topic of a broker; return their number."""
        count = 0
        for queues in self._queues.values():
            for queue in queues:
                if queue.broker_name == broker_name:
                    queue.perm = change(queue.perm)
                    count += 1
        return count

    def at_brokers(self, broker_names: Collection[str]) -> Steps[list[str]]:
        """Return the topics that any of these brokers has."""
        return self._chosen(lambda queues: any(q.broker_name in broker_names for q in queues))

    def flagged(self, mask: int, flags: int) -> Steps[list[str]]:
        """Return the topics whose unit flags, of those in the mask, are exactly these."""
        return self._chosen(lambda queues: queues[0].topic_sys_flag & mask == flags)

    def _chosen(self, is_wanted: Callable[[list[QueueData]], bool]) -> Steps[list[str]]:
        chosen: list[str] = []
        for some in batched(self._queues.items(), TOPICS_PER_STEP):
            chosen += [topic for topic, queues in some if is_wanted(queues)]
            if len(some) == TOPICS_PER_STEP:
                yield
        return chosen

    def validate(self, broker_names: Collection[str]) -> None:
        """Assert the invariants of the module, and that only these brokers have topics."""
        for topic, queues in self._queues.items():
            names = [q.broker_name for q in queues]
            assert names, topic
            assert len(set(names)) == len(names), topic
            assert set(names) <= set(broker_names), topic
