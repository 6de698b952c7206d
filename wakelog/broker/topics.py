"""Topics: the topics of this broker, the ways to create one, and topics.json.

The system's topics exist from the start. Code 17 defines others. A send creates a missing topic
from the default topic that it names, if that one may be inherited. Heartbeats and send-backs create
retry and dead letter topics. Topics of light queues (%LMQ%...) never enter the table.

Invariants:
    - every name in the table is legal, except the names of the cluster and of the broker. Illegal
      names in a file are dropped, so that none gets to the file system.
    - each change makes a new object of DataVersion and writes the file; a new topic is registered.
      A change that was asked for can be undone until then.

Source: org.apache.rocketmq.broker.topic.{TopicConfigManager, LmqTopicConfigManager} (4.9.3).
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from wakelog.broker import names
from wakelog.broker.changes import persist_again, restore
from wakelog.broker.config import BrokerConfig
from wakelog.broker.decision import Instruction, Persist, RegisterBroker
from wakelog.broker.error_response import LimitReached
from wakelog.broker.table_limits import DEFAULT_LIMITS, TableLimits, table_full
from wakelog.protocol.bodies import (
    FILTER_MULTI_TAG,
    DataVersion,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from wakelog.protocol.body_codec import decode_file
from wakelog.protocol.fastjson import dumps
from wakelog.protocol.names import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    OFFSET_MOVED_EVENT,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    is_topic,
    reply_topic,
)
from wakelog.protocol.sys_flag import (
    MESSAGE_MULTI_TAGS,
    PERM_INHERIT,
    PERM_READ,
    PERM_WRITE,
    is_inherited,
)
from wakelog.storage.log.queue_offsets import QueueKey

SCHEDULE_QUEUE_COUNT = 18
BENCHMARK_QUEUE_COUNT = 1_024
QUEUE_COUNT_MAX = 65_535  # each queue is a directory; 4.9.3 has no limit
READ_WRITE = PERM_READ | PERM_WRITE

PLAIN_TOPICS_MAX = 1_024
"""Of which `PlainQueues` keeps what it found; beyond it all are looked for again."""


class Topics:
    """Topic configurations by name."""

    def __init__(
        self,
        config: BrokerConfig,
        instructions: list[Instruction],
        now_ms: int,
        *,
        lmq: bool = False,
        limits: TableLimits = DEFAULT_LIMITS,
    ) -> None:
        self._config = config
        self._instructions = instructions
        self._lmq = lmq
        self._topics_max = limits.topics
        self._own_names = frozenset({config.broker_cluster_name, config.broker_name})
        self._system = (
            names.SYSTEM_TOPICS | self._own_names | {reply_topic(config.broker_cluster_name)}
        )
        if config.trace_topic_enable:
            self._system |= {config.msg_trace_topic_name}
        self._table = {topic.topic_name: topic for topic in _system_topics(config)}
        self._dropped_name_count = 0
        self.data_version = DataVersion(now_ms, 0)

    def get(self, topic: str) -> TopicConfig | None:
        """Return a topic's configuration, None if there is no such topic."""
        found = self._table.get(topic)
        if found is None and self._lmq and names.is_lmq(topic) and is_topic(topic):
            return TopicConfig(topic, 1, 1, READ_WRITE)
        return found

    def check_name(self, topic: str) -> None:
        """Refuse a name that no topic can have; that of a broker or a cluster may have a dot.

        Raises: RemoteProtocolError with code 1 and 4.9.3's remark.
        """
        if self.get(topic) is None:
            names.check_any_topic(topic)

    def system_topics(self) -> frozenset[str]:
        """Return the names of the topics that belong to the system."""
        return self._system

    def is_system(self, topic: str) -> bool:
        """Return whether a topic belongs to the system and may not be defined."""
        return topic in self._system or topic.startswith(SYSTEM_TOPIC_PREFIX)

    def create_from_default(
        self,
        topic: str,
        default_topic: str,
        queue_count: int,
        now_ms: int,
        *,
        topic_sys_flag: int = 0,
    ) -> TopicConfig | None:
        """Create a missing topic from ``default_topic``; None if that is not allowed.

        The new topic has the client's queue count, but not more than the default topic.

        Raises: LimitReached.
        """
        default = self._table.get(default_topic)
        if default is None or not is_inherited(default.perm):
            return None
        if default_topic == AUTO_CREATE_TOPIC and not self._config.auto_create_topic_enable:
            return None
        count = max(0, min(queue_count, default.write_queue_nums))
        perm = default.perm & ~PERM_INHERIT
        created = TopicConfig(topic, count, count, perm, default.topic_filter_type, topic_sys_flag)
        self._put(created, now_ms)
        self._register(topic)
        return created

    def create(
        self, topic: str, queue_count: int, now_ms: int, *, topic_sys_flag: int = 0
    ) -> TopicConfig:
        """Return a retry or dead letter topic, created readable and writeable if need be.

        Raises: RemoteProtocolError if the name is not legal, such as that of a long group;
            LimitReached.
        """
        found = self.get(topic)
        if found is None:
            found = TopicConfig(
                topic, queue_count, queue_count, READ_WRITE, topic_sys_flag=topic_sys_flag
            )
            self._put(found, now_ms)
            self._register(topic)
        return found

    def make_missing(self, queues: Mapping[str, Iterable[int]], now_ms: int) -> list[str]:
        """Create topics that have queues in the store and are in no table; return their names.

        Those that the table has no room for stay as they are.
        """
        made = []
        for topic, queue_ids in queues.items():
            if self.get(topic) is not None or names.is_lmq(topic) or not is_topic(topic):
                continue
            count = min(max(queue_ids, default=0) + 1, QUEUE_COUNT_MAX)
            try:
                self._put(TopicConfig(topic, count, count, READ_WRITE), now_ms)
            except LimitReached:
                break
            made.append(topic)
        return made

    def update(self, config: TopicConfig, now_ms: int) -> None:
        """Define or replace a topic, and register it. Raises: LimitReached."""
        name = config.topic_name
        before = self._table.get(name)
        self._put(config, now_ms, partial(self._restore, name, config, before, now_ms))
        self._register(name)

    def remove(self, topic: str, now_ms: int) -> TopicConfig | None:
        """Remove a topic and return it, if there was one; name servers still have its route."""
        found = self._table.pop(topic, None)
        if found is None:
            self._instructions.append(persist_again("topics"))
        else:
            self._changed(now_ms, partial(self._restore, topic, None, found, now_ms))
        return found

    def put_back(self, config: TopicConfig, now_ms: int) -> None:
        """Have a topic again that was removed, unless its name is in use by now."""
        if config.topic_name not in self._table:
            self._table[config.topic_name] = config
            self._changed(now_ms)

    def ensure_auto_create_topic(self, now_ms: int) -> None:
        """Create the default topic after autoCreateTopicEnable was switched on."""
        if AUTO_CREATE_TOPIC not in self._table:
            self._put(_auto_create_topic(self._config), now_ms)

    def update_order_topics(
        self, order_topics: Iterable[str], now_ms: int, among: Iterable[str] | None = None
    ) -> None:
        """Mark exactly these topics as ordered.

        among: check these alone, None for all.
        """
        wanted = set(order_topics)
        checked = self._table if among is None else self._table.keys() & set(among)
        found = [self._table[name] for name in checked]
        changed = [topic for topic in found if topic.order != (topic.topic_name in wanted)]
        for topic in changed:
            topic.order = not topic.order
        if changed:
            self._changed(now_ms)

    def next_version(self, now_ms: int) -> None:
        """Make a new DataVersion after the broker's permission has changed."""
        self.renew_version(now_ms)
        self._instructions.append(RegisterBroker())

    def renew_version(self, now_ms: int) -> None:
        """Make a new DataVersion of the same topics: a name server leaves out one that it knows."""
        self.data_version = self.data_version.next(now_ms)

    def wrapper(self, topics: Iterable[str] | None = None) -> TopicConfigSerializeWrapper:
        """Return a copy of the table, or of some topics: for name servers, code 21, and the file.

        The topics in it are shared; the table replaces them and changes only their order flag.
        """
        table = self._table
        if topics is None:
            return TopicConfigSerializeWrapper(dict(table), self.data_version)
        some = {name: table[name] for name in topics if name in table}
        return TopicConfigSerializeWrapper(some, self.data_version)

    def snapshot(self) -> Callable[[], str]:
        """Copy the table; return a function that encodes the copy as topics.json."""
        content = self.wrapper()
        return lambda: dumps(content, pretty=True).decode()

    def load(self, text: str) -> None:
        """Add the topics of a file to the system's own.

        Raises: ValueError if the text is not a topic table.
        """
        self._add(decode_file(TopicConfigSerializeWrapper, text))

    def replace(self, text: str) -> None:
        """Have the topics of a master's table, and the system's own, and no others.

        Raises: ValueError if the text is not a topic table; then nothing is replaced.
        """
        content = decode_file(TopicConfigSerializeWrapper, text)
        self._table = {topic.topic_name: topic for topic in _system_topics(self._config)}
        self._add(content)

    def _add(self, content: TopicConfigSerializeWrapper) -> None:
        for name, topic in content.topic_config_table.items():
            legal = name in self._own_names or is_topic(name)
            if legal and topic.read_queue_nums >= 0 <= topic.write_queue_nums:
                self._table[name] = topic
                topic.topic_name = name
            else:
                self._dropped_name_count += 1
        self.data_version = replace(content.data_version)

    def statistics(self) -> dict[str, Any]:
        """Return size and version."""
        return {
            "topic_count": len(self._table),
            "dropped_name_count": self._dropped_name_count,
            "data_version": self.data_version,
        }

    def validate(self) -> None:
        """Assert the invariants of the module."""
        for name, topic in self._table.items():
            assert name == topic.topic_name
            assert name in self._own_names or is_topic(name)
            assert topic.read_queue_nums >= 0 <= topic.write_queue_nums

    def _put(self, topic: TopicConfig, now_ms: int, undo: Callable[[], None] | None = None) -> None:
        name = topic.topic_name
        names.check_any_topic(name)
        is_full = len(self._table) >= self._topics_max
        if is_full and name not in self._table and not self.is_system(name):
            raise table_full("topics", self._topics_max)
        self._table[name] = topic
        self._changed(now_ms, undo)

    def _restore(
        self, name: str, ours: TopicConfig | None, before: TopicConfig | None, now_ms: int
    ) -> None:
        if restore(self._table, name, ours, before):
            self.renew_version(now_ms)

    def _changed(self, now_ms: int, undo: Callable[[], None] | None = None) -> None:
        self.renew_version(now_ms)
        # One each, even in one turn: it marks the response that has to wait for it.
        self._instructions.append(Persist("topics", undo))

    def _register(self, topic: str) -> None:
        self._instructions.append(RegisterBroker((topic,)))  # one each, too


class PlainQueues(dict[str, tuple[int, int]]):
    """By topic: how many of its queues take plain sends, and what the flag of their messages gets.

    Each send asks for it. Invariant: what is kept was found in the topics' present DataVersion.
    """

    def __init__(self, topics: Topics) -> None:
        super().__init__()
        self._topics = topics
        self._version = topics.data_version

    def flags(self, queues: Iterable[QueueKey]) -> list[int | None]:
        """Return what the messages of each queue get; None if sends to it are not plain."""
        if self._version is not self._topics.data_version:
            self._version = self._topics.data_version
            self.clear()
        flags: list[int | None] = []
        for topic, queue_id in queues:
            queues_count, flag = self[topic]
            flags.append(flag if 0 <= queue_id < queues_count else None)
        return flags

    def __missing__(self, topic: str) -> tuple[int, int]:
        """Find a topic; what takes no plain sends is looked for each time."""
        config = self._topics.get(topic)
        if (
            config is None
            or config.order
            or topic in names.NO_SEND_TOPICS
            or topic.startswith(RETRY_PREFIX)
        ):
            return 0, 0
        if len(self) >= PLAIN_TOPICS_MAX:
            self.clear()
        queues_count = max(config.write_queue_nums, config.read_queue_nums)
        self[topic] = found = queues_count, added_sys_flag(config)
        return found


def _system_topics(config: BrokerConfig) -> list[TopicConfig]:
    """Return the topics of every broker, in 4.9.3's order."""
    cluster, broker = config.broker_cluster_name, config.broker_name
    shared = PERM_INHERIT | READ_WRITE
    topics = [
        TopicConfig(SELF_TEST_TOPIC, 1, 1),
        TopicConfig(BENCHMARK_TOPIC, BENCHMARK_QUEUE_COUNT, BENCHMARK_QUEUE_COUNT),
        TopicConfig(cluster, perm=shared if config.cluster_topic_enable else PERM_INHERIT),
        TopicConfig(broker, 1, 1, shared if config.broker_topic_enable else PERM_INHERIT),
        TopicConfig(OFFSET_MOVED_EVENT, 1, 1),
        TopicConfig(SCHEDULE_TOPIC, SCHEDULE_QUEUE_COUNT, SCHEDULE_QUEUE_COUNT),
        TopicConfig(reply_topic(cluster), 1, 1),
    ]
    if config.auto_create_topic_enable:
        topics.append(_auto_create_topic(config))
    if config.trace_topic_enable:
        topics.append(TopicConfig(config.msg_trace_topic_name, 1, 1))
    return topics


def _auto_create_topic(config: BrokerConfig) -> TopicConfig:
    count = config.default_topic_queue_nums
    return TopicConfig(AUTO_CREATE_TOPIC, count, count, PERM_INHERIT | READ_WRITE)


def added_sys_flag(topic_config: TopicConfig) -> int:
    """Return what the flag of each message of a topic gets."""
    return MESSAGE_MULTI_TAGS if topic_config.topic_filter_type == FILTER_MULTI_TAG else 0
