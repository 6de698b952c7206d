"""One reading of a cluster: brokers, topics, groups, members. It asks as an operator does.

Every name server is asked which brokers it knows, beside the others and within
`NAME_SERVER_SECONDS_MAX`. A broker that one of them knows is read.

Brokers are asked beside each other, and each for `BROKER_SECONDS_MAX` at most in each of four
steps: the broker itself; then how far its groups have come, which may take longer; then its groups
and dead letters; then members of groups, and what waits. One that fails in a step has no part in
the next ones.

Invariants: no answer raises. A name server or a broker that is away, hangs or refuses is a value,
beside what it had answered before.

Ends are those of dead-letter topics. Other topics have an end in the progress of their groups.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError, within
from wakelog.client.route import MASTER_ID, NO_NAME_SERVER
from wakelog.console.progress import NOTHING_YET, PART_GROUPS_MAX, Progress, read_progress
from wakelog.console.runtime_values import clock_ms
from wakelog.console.runtime_values import runtime_number as runtime_number
from wakelog.console.waiting import Backlog, read_waiting
from wakelog.network.background import gathered
from wakelog.protocol.bodies import (
    ClusterInfo,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ProducerInfo,
    ProducerTableInfo,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicStatsTable,
)
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.names import DLQ_PREFIX

NAME_SERVER_SECONDS_MAX: Final = 3.0
BROKER_SECONDS_MAX: Final = 3.0
"""What a broker gets for one step."""
PROGRESS_SECONDS_MAX: Final = 10.0
"""For how far all groups have come (`progress`)."""
IN_FLIGHT_MAX: Final = 8
"""Requests that wait at one broker."""
BROKERS_AT_ONCE_MAX: Final = 32
KEPT: Final = "those of an earlier reading are shown"
MEMBERS_ASKED_MAX: Final = 64
"""Members of groups that are asked in one reading, those of the groups with the most lag first."""

Ask = Callable[[], Awaitable[None]]


@dataclass
class NameServerReading:
    """What one name server says. failure: None if it answered. took_ms: until it did."""

    address: str
    info: ClusterInfo = field(default_factory=ClusterInfo)
    failure: ClientError | None = None
    took_ms: float = 0.0


@dataclass
class BrokerReading:
    """What one broker says. failure: the first one, None if it answered all.

    clock_ahead_ms: by how much its clock is ahead of the one here, to half a second; None if it
    does not tell.
    certificate_end_ms: until when its certificate is valid, 0 without TLS.
    settings: with the values of the next start. waiting: keys that wait for a restart, and their
    values in use.
    messages: delayed and half messages that wait, None if it was not asked.
    groups, topics, system_topics: of the broker that is asked for its name, the master if there
    is one. producers: by group, None if the broker does not say, as one of 4.9.3.
    """

    cluster: str
    name: str
    broker_id: int
    address: str
    values: Mapping[str, str] = field(default_factory=dict)
    clock_ahead_ms: float | None = None
    certificate_end_ms: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)
    messages: Backlog | None = None
    groups: Mapping[str, SubscriptionGroupConfig] = field(default_factory=dict)
    topics: Mapping[str, TopicConfig] = field(default_factory=dict)
    system_topics: frozenset[str] = frozenset()
    producers: Mapping[str, list[ProducerInfo]] | None = None
    progress: Progress = NOTHING_YET
    failure: ClientError | None = None

    @property
    def in_use(self) -> Mapping[str, str]:
        """The settings by which it goes now."""
        return {**self.settings, **self.waiting}


@dataclass
class GroupReading:
    """What brokers and members say of a group.

    clients: None if no broker could be asked. members: those that were asked and answered.
    """

    configs: list[SubscriptionGroupConfig] = field(default_factory=list)
    progress: ConsumeStats = field(default_factory=ConsumeStats)
    clients: ConsumerConnection | None = None
    members: dict[str, ConsumerRunningInfo] = field(default_factory=dict)

    @property
    def are_members_known(self) -> bool:
        """Whether every client of the group answered."""
        return self.clients is not None and self.members.keys() == {
            each.client_id for each in self.clients.connection_set
        }


@dataclass
class ClusterReading:
    """A cluster at one time. failure: of all name servers, which leaves nothing else to ask.

    info: the brokers that any name server knows; of two addresses the one of the first server.
    dead_letters: how many each group has ever had. limits: what was not read, in words.
    """

    taken_ms: int
    info: ClusterInfo = field(default_factory=ClusterInfo)
    name_server: str = ""
    brokers: list[BrokerReading] = field(default_factory=list)
    groups: dict[str, GroupReading] = field(default_factory=dict)
    dead_letters: dict[str, int] = field(default_factory=dict)
    failure: ClientError | None = None
    limits: list[str] = field(default_factory=list)
    name_servers: list[NameServerReading] = field(default_factory=list)

    @property
    def system_topics(self) -> frozenset[str]:
        """The topics that brokers call their own."""
        return frozenset().union(*(each.system_topics for each in self.brokers))


async def read_cluster(
    admin: Admin, now_ms: int, before: ClusterReading | None = None, *, with_groups: bool = True
) -> ClusterReading:
    """Ask the name servers and every broker that they know; without groups the brokers alone.

    before: what was read last, for what is read in turns.
    """
    read_before = {x.address: x.progress for x in before.brokers} if before is not None else {}
    found = ClusterReading(now_ms, name_server=next(iter(admin.options.name_servers), ""))
    clock = _Clock(now_ms)
    found.name_servers = list(
        await asyncio.gather(*(_name_server(admin, x, clock) for x in admin.options.name_servers))
    )
    failures = [each.failure for each in found.name_servers]
    if None not in failures:
        none = ClientError("no name server is given", "Give -n HOST:PORT")
        found.failure = next(iter(failures), none)
        return found
    found.info = _together(found.name_servers)
    found.brokers = [
        BrokerReading(data.cluster, name, broker_id, address)
        for name, data in sorted(found.info.broker_addr_table.items())
        for broker_id, address in sorted(data.broker_addrs.items())
    ]
    first = {each.name: each for each in reversed(found.brokers)}
    await _step(
        found.brokers,
        lambda x: _broker_asks(admin, x, clock, has_tables=with_groups and first[x.name] is x),
    )
    if not with_groups:
        return found
    firsts = list(first.values())
    talking = [x for x in firsts if x.failure is None or x.failure.code is not None]
    await _step(
        talking, lambda x: [partial(_progress, admin, x, read_before)], PROGRESS_SECONDS_MAX
    )
    found.limits = [_part_text(each) for each in talking if each.progress.is_part]
    found.groups = _groups_of(firsts)
    homes = _homes(found, firsts)
    await _step(_answering(firsts), lambda x: _group_asks(admin, x, homes[x.address], found))
    chosen = _members_to_ask(found.groups)
    await _step(
        _answering(firsts), lambda x: _member_asks(admin, x, homes[x.address], found, chosen)
    )
    masters = [x for x in _answering(firsts) if x.broker_id == MASTER_ID]
    await _step(masters, lambda x: [partial(_waiting, admin, x, now_ms)])
    return found


def with_kept(found: ClusterReading, before: ClusterReading) -> ClusterReading:
    """Return a reading in which brokers that did not answer whole have what they had before.

    before: what was shown last.
    """
    then = {each.address: each for each in before.brokers}
    brokers, limits, names = [], list(found.limits), set[str]()
    for broker in found.brokers:
        had = then.get(broker.address)
        if broker.failure is not None and had is not None and had.topics and not broker.topics:
            limits.append(
                f"broker {broker.name} has not said which topics and groups it has: {KEPT}"
            )
        if broker.failure is not None and had is not None:
            broker = replace(
                broker,
                topics=broker.topics or had.topics,
                system_topics=broker.system_topics or had.system_topics,
                groups=broker.groups or had.groups,
            )
            names.update(broker.groups)
        brokers.append(broker)
    groups = {x: y for x, y in before.groups.items() if x in names and x not in found.groups}
    return replace(found, brokers=brokers, groups={**groups, **found.groups}, limits=limits)


class _Clock:
    """What time it is, from a time that was given and the loop's clock."""

    def __init__(self, now_ms: int) -> None:
        self._begin_ms = now_ms
        self._began_seconds = asyncio.get_running_loop().time()

    @property
    def now_ms(self) -> float:
        return self._begin_ms + (asyncio.get_running_loop().time() - self._began_seconds) * 1000


async def _name_server(admin: Admin, address: str, clock: _Clock) -> NameServerReading:
    found, began_ms = NameServerReading(address), clock.now_ms
    try:
        async with within(NAME_SERVER_SECONDS_MAX, f"{address} does not answer"):
            found.info = await admin.ask_for(ClusterInfo, address, Code.GET_BROKER_CLUSTER_INFO)
    except ClientError as error:
        found.failure = error
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            found.failure = ClientError(error.cause, NO_NAME_SERVER, code=error.code)
    found.took_ms = clock.now_ms - began_ms
    return found


def _together(servers: Iterable[NameServerReading]) -> ClusterInfo:
    """Return what name servers know; what the first one says of a broker holds."""
    found = ClusterInfo({}, {})
    for info in (each.info for each in servers):
        for name, data in info.broker_addr_table.items():
            found.broker_addr_table.setdefault(name, data)
        for cluster, names in info.cluster_addr_table.items():
            found.cluster_addr_table.setdefault(cluster, set()).update(names)
    return found


async def _step(
    brokers: Iterable[BrokerReading],
    asks_of: Callable[[BrokerReading], Iterable[Ask]],
    seconds_max: float | None = None,
) -> None:
    """Ask brokers beside each other; a broker keeps its first failure.

    seconds_max: for one broker, `BROKER_SECONDS_MAX` if None.
    """
    limit = BROKER_SECONDS_MAX if seconds_max is None else seconds_max

    async def keep_failure(broker: BrokerReading, ask: Ask) -> None:
        try:
            await ask()
        except ClientError as error:
            broker.failure = broker.failure or error

    async def ask_all(broker: BrokerReading) -> None:
        async with within(limit, f"{broker.address} does not answer"):
            one = partial(keep_failure, broker)
            await gathered(one, asks_of(broker), at_once_max=IN_FLIGHT_MAX)

    await gathered(
        lambda x: keep_failure(x, partial(ask_all, x)), brokers, at_once_max=BROKERS_AT_ONCE_MAX
    )


def _answering(brokers: Iterable[BrokerReading]) -> list[BrokerReading]:
    return [each for each in brokers if each.failure is None]


def _broker_asks(
    admin: Admin, broker: BrokerReading, clock: _Clock, *, has_tables: bool
) -> Iterable[Ask]:
    address = broker.address

    async def values() -> None:
        asked_ms = clock.now_ms
        broker.values = await admin.runtime_info(address)
        between_ms = (asked_ms + clock.now_ms) / 2
        if (its_ms := clock_ms(broker.values)) is not None:
            broker.clock_ahead_ms = its_ms + 500 - between_ms
        broker.certificate_end_ms = admin.certificate_end_ms(address)

    async def configuration() -> None:
        found = await admin.configuration(address)
        broker.settings, broker.waiting = found.settings, found.waiting

    async def groups() -> None:
        broker.groups = await admin.groups(address)

    async def topics() -> None:
        table = await admin.ask_for(TopicConfigSerializeWrapper, address, Code.GET_ALL_TOPIC_CONFIG)
        broker.topics = table.topic_config_table

    async def system_topics() -> None:
        code = Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER
        broker.system_topics = frozenset((await admin.ask_for(TopicList, address, code)).topic_list)

    async def producers() -> None:
        code = Code.GET_ALL_PRODUCER_INFO
        try:
            broker.producers = (await admin.ask_for(ProducerTableInfo, address, code)).data
        except ClientError as error:
            if error.code is None:
                raise  # and else it is a broker of before 4.9.4, which has no such request

    own = values, configuration
    return (*own, groups, topics, system_topics, producers) if has_tables else own


async def _progress(admin: Admin, broker: BrokerReading, before: Mapping[str, Progress]) -> None:
    then = before.get(broker.address, NOTHING_YET)
    broker.progress = then if then.is_part else broker.progress
    broker.progress = await read_progress(admin, broker.address, broker.groups, then)


async def _waiting(admin: Admin, broker: BrokerReading, now_ms: int) -> None:
    broker.messages = await read_waiting(
        admin,
        broker.name,
        broker.address,
        broker.topics,
        broker.in_use.get("messageDelayLevel"),
        now_ms,
        clock_ahead_ms=round(broker.clock_ahead_ms or 0),
    )


def _part_text(broker: BrokerReading) -> str:
    """Return how far the groups of a broker are known that are asked in turns."""
    count, known = len(broker.groups), len(broker.progress.by_group)
    text = f"broker {broker.name} does not say at once how far its {count:,} groups have come"
    asked = f"{PART_GROUPS_MAX} of them are asked each time"
    return f"{text}: {asked}, and {known:,} are known"


def _groups_of(brokers: Iterable[BrokerReading]) -> dict[str, GroupReading]:
    found: dict[str, GroupReading] = {}
    for broker in brokers:
        for name, config in broker.groups.items():
            found.setdefault(name, GroupReading()).configs.append(config)
        for name, stats in broker.progress.by_group.items():
            progress = found.setdefault(name, GroupReading()).progress
            for each in stats:
                progress.offset_table.update(each.offset_table)
                progress.consume_tps += each.consume_tps
    return found


def _homes(found: ClusterReading, brokers: list[BrokerReading]) -> dict[str, list[str]]:
    """Return which groups each broker is asked about: clients connect to all that have theirs."""
    homes: dict[str, list[str]] = {each.address: [] for each in brokers}
    answering = _answering(brokers)
    for group in found.groups:
        for broker in answering:
            if group in broker.groups:
                homes[broker.address].append(group)
                break
    return homes


def _group_asks(
    admin: Admin, broker: BrokerReading, groups: list[str], found: ClusterReading
) -> Iterable[Ask]:
    async def clients(group: str) -> None:
        fields = {"consumerGroup": group}
        code = Code.GET_CONSUMER_CONNECTION_LIST
        try:
            reading = await admin.ask_for(ConsumerConnection, broker.address, code, fields)
        except ClientError as error:
            if error.code is None:
                raise
            reading = ConsumerConnection()  # as both say of a group that is not online
        found.groups[group].clients = reading

    async def letters(topic: str) -> None:
        fields = {"topic": topic}
        code = Code.GET_TOPIC_STATS_INFO
        table = await admin.ask_for(TopicStatsTable, broker.address, code, fields)
        group = topic.removeprefix(DLQ_PREFIX)
        count = sum(ends.max_offset for ends in table.offset_table.values())
        found.dead_letters[group] = found.dead_letters.get(group, 0) + count

    asks = [partial(clients, group) for group in groups]
    return asks + [partial(letters, x) for x in sorted(broker.topics) if x.startswith(DLQ_PREFIX)]


def _members_to_ask(groups: Mapping[str, GroupReading]) -> set[tuple[str, str]]:
    """Return group and client id of members that may explain something, a bounded number."""
    by_lag = sorted(groups.items(), key=lambda x: (-x[1].progress.total_diff(), x[0]))
    wanted = [
        (name, client.client_id)
        for name, group in by_lag
        if group.clients is not None
        and (len(group.clients.connection_set) > 1 or group.progress.total_diff() > 0)
        for client in group.clients.connection_set
    ]
    return set(wanted[:MEMBERS_ASKED_MAX])


def _member_asks(
    admin: Admin,
    broker: BrokerReading,
    groups: list[str],
    found: ClusterReading,
    chosen: set[tuple[str, str]],
) -> Iterable[Ask]:
    async def member(group: str, client_id: str) -> None:
        fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": False}
        code = Code.GET_CONSUMER_RUNNING_INFO
        try:
            info = await admin.ask_for(ConsumerRunningInfo, broker.address, code, fields)
        except ClientError:
            return  # a member that answers no questions is no fault of its broker
        found.groups[group].members[client_id] = info

    here = set(groups)
    return [partial(member, *each) for each in sorted(chosen) if each[0] in here]
