"""Topics: what each holds, what comes in, and who consumes it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from wakelog.console.cluster_reading import ClusterReading
from wakelog.console.ends import Ends
from wakelog.console.history import History
from wakelog.console.lag import behind_of
from wakelog.console.views.disagreements import disagreements
from wakelog.console.views.lists import Head, ListOf
from wakelog.protocol.bodies import TopicConfig
from wakelog.protocol.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX
from wakelog.protocol.sys_flag import PERM_READ, PERM_WRITE

TOPICS: Final = ListOf(
    (
        Head("name", "Topic", lambda row: row.name.lower()),
        Head("in", "In", lambda row: row.ends.a_second if row.ends else None, is_number=True),
        Head("held", "Messages", lambda row: row.ends.held if row.ends else None, is_number=True),
        Head(
            "last",
            "Last stored",
            lambda row: row.ends.last_stored_ms if row.ends else None,
            is_number=True,
        ),
        Head("groups", "Groups", lambda row: len(row.groups), is_number=True),
        Head("queues", "Queues", lambda row: row.queues, is_number=True),
        Head("", "May"),
    ),
    text=lambda row: row.name,
    sort="name",
)


class TopicRow(NamedTuple):
    """A topic. ends: None until they were read."""

    name: str
    kind: str
    queues: int
    may: str
    groups: tuple[str, ...]
    ends: Ends | None


def kind_of(name: str, cluster: ClusterReading) -> str:
    """Return what a topic is for: "" for one of users, else whose it is."""
    if name.startswith(RETRY_PREFIX):
        return "retries"
    if name.startswith(DLQ_PREFIX):
        return "dead letters"
    info = cluster.info
    own = name in info.broker_addr_table or name in info.cluster_addr_table
    is_own = own or name.startswith(SYSTEM_TOPIC_PREFIX) or name in cluster.system_topics
    return "RocketMQ's" if is_own else ""


def rows(cluster: ClusterReading, ends: Mapping[str, Ends], *, shows_all: bool) -> list[TopicRow]:
    """Return the topics of a cluster. shows_all: also those of RocketMQ itself."""
    configs: dict[str, list[TopicConfig]] = {}
    for broker in cluster.brokers:
        for name, config in broker.topics.items():
            configs.setdefault(name, []).append(config)
    groups = groups_by_topic(cluster)
    found = []
    for name, of_brokers in sorted(configs.items()):
        kind = kind_of(name, cluster)
        if kind and not shows_all:
            continue
        queues = sum(each.read_queue_nums for each in of_brokers)
        may = may_text(max(each.perm for each in of_brokers))
        consumers = tuple(groups.get(name, ()))
        found.append(TopicRow(name, kind, queues, may, consumers, ends.get(name)))
    return found


def groups_by_topic(cluster: ClusterReading) -> dict[str, list[str]]:
    """Return which groups have consumed each topic, or subscribe to it now."""
    found: dict[str, set[str]] = {}
    for name, group in cluster.groups.items():
        for queue in group.progress.offset_table:
            found.setdefault(queue.topic, set()).add(name)
        for topic in group.clients.subscription_table if group.clients else ():
            found.setdefault(topic, set()).add(name)
    return {topic: sorted(names) for topic, names in found.items()}


def may_text(perm: int) -> str:
    """Return what clients may do with a topic."""
    parts = [(PERM_READ, "read"), (PERM_WRITE, "write")]
    return " and ".join(text for bit, text in parts if perm & bit) or "nothing"


class QueueRow(NamedTuple):
    """A queue. first and next: its offsets."""

    broker: str
    queue_id: int
    first: int
    next: int
    last_stored_ms: int


class ConsumerRow(NamedTuple):
    """A group that consumes a topic. lag: of this topic. consumed_ms: when what it has was stored.

    behind_ms: for how long what waits first has waited, None if nothing does.
    members: its clients that are online, None if that is not known.
    """

    name: str
    lag: int
    consumed_ms: int
    behind_ms: int | None
    members: int | None


class TopicConfigRow(NamedTuple):
    """What one broker knows of a topic."""

    broker: str
    address: str
    config: TopicConfig


COMPARED: Final[tuple[tuple[str, Callable[[TopicConfig], str]], ...]] = (
    ("read queues", lambda config: str(config.read_queue_nums)),
    ("write queues", lambda config: str(config.write_queue_nums)),
    ("clients may", lambda config: may_text(config.perm)),
    ("ordered", lambda config: "yes" if config.order else "no"),
    ("filter", lambda config: config.topic_filter_type),
)
"""What brokers should have alike of a topic."""


def queue_rows(ends: Ends | None) -> list[QueueRow]:
    """Return the queues of a topic in their order."""
    table = ends.table.offset_table if ends else {}
    return [
        QueueRow(x.broker_name, x.queue_id, y.min_offset, y.max_offset, y.last_update_timestamp)
        for x, y in sorted(table.items())
    ]


def consumer_rows(topic: str, history: History, cluster: ClusterReading) -> list[ConsumerRow]:
    """Return who consumes a topic, the most lag first."""
    found = []
    for name in groups_by_topic(cluster).get(topic, ()):
        group = cluster.groups[name]
        places = {x: y for x, y in group.progress.offset_table.items() if x.topic == topic}
        lag = sum(place.broker_offset - place.consumer_offset for place in places.values())
        consumed_ms = max((place.last_timestamp for place in places.values()), default=0)
        behind_ms = behind_of(places, history.clear_ms(name, places), cluster.taken_ms)
        members = None if group.clients is None else len(group.clients.connection_set)
        found.append(ConsumerRow(name, lag, consumed_ms, behind_ms, members))
    return sorted(found, key=lambda row: (-row.lag, row.name))


def differences(configs: Sequence[TopicConfigRow]) -> list[str]:
    """Return where brokers disagree about a topic."""
    return disagreements(
        (row.broker, {label: value_of(row.config) for label, value_of in COMPARED})
        for row in configs
    )


def config_rows(topic: str, cluster: ClusterReading) -> list[TopicConfigRow]:
    """Return the configuration of a topic at each broker that has it."""
    return [
        TopicConfigRow(broker.name, broker.address, broker.topics[topic])
        for broker in cluster.brokers
        if topic in broker.topics
    ]
