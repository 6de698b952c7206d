"""Groups: how each stands in a word, how far behind it is, and when it will have caught up."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from wakelog.console.cluster_reading import ClusterReading, GroupReading
from wakelog.console.diagnosis import diagnosis, lag_text
from wakelog.console.findings import BROADCASTING
from wakelog.console.history import LAG, History
from wakelog.console.lag import GroupLag, falls_behind, is_late
from wakelog.console.rules import OK, PROBLEM, WARNING, Finding
from wakelog.console.views.clients import version_text
from wakelog.console.views.disagreements import disagreements
from wakelog.console.views.lists import Head, ListOf
from wakelog.protocol.bodies import SubscriptionGroupConfig
from wakelog.protocol.names import RETRY_PREFIX, is_own_group

GROUPS: Final = ListOf(
    (
        Head("name", "Group", lambda row: row.name.lower()),
        Head("lag", "Lag", lambda row: row.lag.messages, is_number=True),
        Head("", "Last hour"),
        Head("behind", "Behind", lambda row: row.lag.behind_ms, is_number=True),
        Head("", "Caught up in", is_number=True),
        Head("out", "Out", lambda row: row.out_a_second, is_number=True),
        Head("members", "Members", lambda row: row.members, is_number=True),
        Head("letters", "Dead letters", lambda row: row.letters, is_number=True),
    ),
    text=lambda row: row.name,
    sort="-lag",
)

LAG_RULES: Final = frozenset({"falls behind", "behind", "no client", "left alone"})
"""Those that say by how much a group lags."""


class GroupRow(NamedTuple):
    """A group. course: its lag in the last hour. members: None if that is not known.

    falls_since_ms: since when it falls further behind, 0 if it does not.
    """

    name: str
    state: str
    lag: GroupLag
    is_late: bool
    falls_since_ms: int
    course: Sequence[float]
    out_a_second: float
    members: int | None
    letters: int


class PlaceRow(NamedTuple):
    """A queue of a group. member: who has it, "" if that is not known."""

    topic: str
    broker: str
    queue_id: int
    consumed: int
    stored: int
    consumed_ms: int
    member: str

    @property
    def lag(self) -> int:
        """Messages that wait."""
        return self.stored - self.consumed


class MemberRow(NamedTuple):
    """A client of a group. queues: how many it has, None if it did not say."""

    client_id: str
    address: str
    language: str
    version: str
    queues: int | None


def rows(history: History, cluster: ClusterReading) -> list[GroupRow]:
    """Return the groups of users, in the order of their names."""
    return [
        group_row(name, group, history, cluster)
        for name, group in sorted(cluster.groups.items())
        if not is_own_group(name)
    ]


def group_row(
    name: str, group: GroupReading, history: History, cluster: ClusterReading
) -> GroupRow:
    """Return one group in numbers."""
    lag = history.lag(name, group)
    members = None if group.clients is None else len(group.clients.connection_set)
    return GroupRow(
        name,
        state_of(group, lag, cluster.taken_ms),
        lag,
        is_late(lag, cluster.taken_ms),
        lag.since_ms if falls_behind(lag, cluster.taken_ms) else 0,
        history.course(LAG, name),
        float(group.progress.consume_tps),
        members,
        cluster.dead_letters.get(name, 0),
    )


def state_of(group: GroupReading, lag: GroupLag, now_ms: int) -> str:
    """Return how a group stands, in a word or two."""
    if any(not each.consume_enable for each in group.configs):
        return "may not consume"
    if group.clients is None:
        return "not known"
    if not group.clients.connection_set:
        return "nobody, messages wait" if lag.messages else "nobody"
    if group.clients.message_model == BROADCASTING:
        return "broadcasting"
    if not is_late(lag, now_ms):
        return "consuming"
    return "falling behind" if falls_behind(lag, now_ms) else "behind"


def place_rows(group: GroupReading) -> list[PlaceRow]:
    """Return the queues of a group, the most lag first."""
    owners = {queue: name for name, info in group.members.items() for queue in info.mq_table}
    found = [
        PlaceRow(
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            place.consumer_offset,
            place.broker_offset,
            place.last_timestamp,
            owners.get(queue, ""),
        )
        for queue, place in group.progress.offset_table.items()
    ]
    return sorted(found, key=lambda row: (-row.lag, row.topic, row.broker, row.queue_id))


def member_rows(group: GroupReading) -> list[MemberRow]:
    """Return the clients of a group."""
    clients = group.clients.connection_set if group.clients else []
    infos = group.members
    return [
        MemberRow(
            each.client_id,
            each.client_addr,
            each.language,
            version_text(each.version),
            len(infos[each.client_id].mq_table) if each.client_id in infos else None,
        )
        for each in sorted(clients, key=lambda each: each.client_id)
    ]


def subscriptions(group: GroupReading) -> list[tuple[str, str, str]]:
    """Return topic, type and expression of what a group subscribes to."""
    table = group.clients.subscription_table if group.clients else {}
    return [(x.topic, x.expression_type, x.sub_string) for _, x in sorted(table.items())]


def topics_of(group: GroupReading) -> list[str]:
    """Return what a group consumes, without its retries."""
    found = {queue.topic for queue in group.progress.offset_table}
    found |= set(group.clients.subscription_table if group.clients else ())
    return sorted(name for name in found if not name.startswith(RETRY_PREFIX))


SETTINGS: Final = {
    "consume_enable": "may consume",
    "consume_broadcast_enable": "may broadcast",
    "consume_from_min_enable": "begins at the first message",
    "notify_consumer_ids_changed_enable": "notifies its clients",
    "retry_max_times": "retries at most",
    "retry_queue_nums": "queues of retries",
    "broker_id": "replica that it pulls from",
    "which_broker_when_consume_slowly": "replica when it is slow",
}
"""What a broker keeps of a group, by the fields of its configuration."""


class GroupConfigRow(NamedTuple):
    """What one broker keeps of a group. settings: by their labels."""

    broker: str
    address: str
    settings: Mapping[str, str]


def config_rows(name: str, cluster: ClusterReading) -> list[GroupConfigRow]:
    """Return the settings of a group at each broker that has it."""
    return [
        GroupConfigRow(broker.name, broker.address, settings_of(broker.groups[name]))
        for broker in cluster.brokers
        if name in broker.groups
    ]


def settings_of(config: SubscriptionGroupConfig) -> dict[str, str]:
    """Return the settings of a group as text, by their labels."""
    return {label: _setting_text(getattr(config, field)) for field, label in SETTINGS.items()}


def _setting_text(value: bool | int) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def differences(configs: Sequence[GroupConfigRow]) -> list[str]:
    """Return where brokers disagree about a group."""
    return disagreements((row.broker, row.settings) for row in configs)


def findings_about(name: str, findings: Sequence[Finding]) -> list[Finding]:
    """Return what is wrong with a group."""
    return [x for x in findings if x.about == f"group {name}" and x.verdict != OK]


def answer(
    name: str,
    group: GroupReading,
    findings: Sequence[Finding],
    now_ms: int,
    topic: str | None = None,
) -> list[Finding]:
    """Return why a group does not consume, the worst first, and what is fine with it.

    findings: of the cluster, which know its last hour. topic: it is to consume this one.
    """
    found = findings_about(name, findings)
    said = {each.found for each in found}
    if any(each.rule in LAG_RULES for each in found):
        said.add(lag_text(group))
    is_alone = any(each.rule in ("no client", "left alone") for each in found)
    found += [
        each
        for each in diagnosis(name, group, now_ms, topic)
        if each.found not in said and not (is_alone and each.rule == "no client")
    ]
    # This is what the doctor says.
    asked = f"See why: wakelog doctor --group {name}; "
    found = [
        each._replace(remedy=rest[:1].upper() + rest[1:])
        if (rest := each.remedy.removeprefix(asked)) != each.remedy
        else each
        for each in found
    ]
    return sorted(found, key=lambda each: (PROBLEM, WARNING, OK).index(each.verdict))
