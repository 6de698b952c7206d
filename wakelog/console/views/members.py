"""One member of a group: what it subscribes to, its queues, its rates, and where its threads are.

Source: org.apache.rocketmq.common.protocol.body.{ConsumerRunningInfo, ProcessQueueInfo,
ConsumeStatus}, org.apache.rocketmq.common.UtilAll#jstack (4.9.3).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from wakelog.console.cluster_reading import GroupReading
from wakelog.console.diagnosis import stuck_findings
from wakelog.console.findings import member_findings
from wakelog.console.rules import Finding
from wakelog.console.views.messages import visible
from wakelog.protocol.bodies import Connection, ConsumerRunningInfo
from wakelog.protocol.names import RETRY_PREFIX

STACKS_LENGTH_MAX: Final = 400_000
"""Characters of stacks that are shown; the rest is counted."""
STACKS_MAX: Final = 500
"""Different stacks that are shown."""
CONSUMING: Final = ("ConsumeMessageThread", "ConsumeMessageScheduledThread")
"""How threads are called that give messages to listeners."""

_MOMENT: Final = "TIMESTAMP"


class SubscriptionRow(NamedTuple):
    """A topic that a member subscribes to. others: expressions of members that differ, by them."""

    topic: str
    kind: str
    expression: str
    others: Mapping[str, str]


class HeldQueue(NamedTuple):
    """A queue of a member. lag: None if no broker says it. waiting: what it has and not consumed.

    locked: whether it has the lock of an ordered queue. Times are 0 for what never happened.
    """

    topic: str
    broker: str
    queue_id: int
    lag: int | None
    committed: int
    waiting: int
    waiting_mebibytes: int
    locked: bool
    pulled_ms: int
    consumed_ms: int


class RateRow(NamedTuple):
    """How a member consumes a topic. Pulls and messages take milliseconds; the others are a second.

    failed_in_hour: messages that were not acknowledged.
    """

    topic: str
    pull_ms: float
    pulls: float
    consume_ms: float
    consumed: float
    failed: float
    failed_in_hour: int


class PropertyRow(NamedTuple):
    """What a member says of itself. time_ms: of one that is a moment, else 0."""

    name: str
    value: str
    time_ms: int


class Stack(NamedTuple):
    """What threads of the same state do. frames: the innermost first."""

    names: Sequence[str]
    state: str
    frames: Sequence[str]


class Stacks(NamedTuple):
    """The stacks of a member, those that consume first. hidden: characters that are not shown."""

    rows: Sequence[Stack]
    hidden: int


def connection_of(group: GroupReading, client_id: str) -> Connection | None:
    """Return a member that is online, None if there is none."""
    clients = group.clients.connection_set if group.clients else ()
    return next((each for each in clients if each.client_id == client_id), None)


def findings_of(
    group: str, client_id: str, info: ConsumerRunningInfo, now_ms: int
) -> list[Finding]:
    """Return what is wrong with a member by itself."""
    about = f"group {group}"
    found = list(member_findings(about, {client_id: info}, now_ms))
    return found + list(stuck_findings(about, client_id, info, now_ms))


def subscription_rows(
    client_id: str, info: ConsumerRunningInfo, members: Mapping[str, ConsumerRunningInfo]
) -> list[SubscriptionRow]:
    """Return what a member subscribes to. members: all of the group that have answered."""
    others = {x: _expressions(y) for x, y in sorted(members.items()) if x != client_id}
    rows = []
    for each in sorted(info.subscription_set, key=lambda x: x.topic):
        differing = {
            name: expressions.get(each.topic, "does not subscribe")
            for name, expressions in others.items()
            if expressions.get(each.topic) != each.sub_string
        }
        rows.append(SubscriptionRow(each.topic, each.expression_type, each.sub_string, differing))
    return rows


def missing_topics(
    client_id: str, info: ConsumerRunningInfo, members: Mapping[str, ConsumerRunningInfo]
) -> list[str]:
    """Return the topics that other members subscribe to, and this one does not."""
    own = _expressions(info).keys()
    found = set().union(*(_expressions(y).keys() for x, y in members.items() if x != client_id))
    return sorted(x for x in found - own if not x.startswith(RETRY_PREFIX))


def _expressions(info: ConsumerRunningInfo) -> dict[str, str]:
    return {each.topic: each.sub_string for each in info.subscription_set}


def held_queues(info: ConsumerRunningInfo, group: GroupReading) -> list[HeldQueue]:
    """Return the queues of a member, the most lag first."""
    places = group.progress.offset_table
    found = []
    for queue, process in info.mq_table.items():
        place = places.get(queue)
        lag = None if place is None else place.broker_offset - place.consumer_offset
        found.append(
            HeldQueue(
                queue.topic,
                queue.broker_name,
                queue.queue_id,
                lag,
                process.get("commitOffset", 0),
                process.get("cachedMsgCount", 0),
                process.get("cachedMsgSizeInMiB", 0),
                bool(process.get("locked")),
                process.get("lastPullTimestamp", 0),
                process.get("lastConsumeTimestamp", 0),
            )
        )
    return sorted(found, key=lambda x: (-(x.lag or 0), x.topic, x.broker, x.queue_id))


def rate_rows(info: ConsumerRunningInfo) -> list[RateRow]:
    """Return how fast a member consumes each of its topics."""
    rows = []
    for topic, status in sorted(info.status_table.items()):
        pull_ms, pulls = status.get("pullRT", 0.0), status.get("pullTPS", 0.0)
        consume_ms, consumed = status.get("consumeRT", 0.0), status.get("consumeOKTPS", 0.0)
        failed, in_hour = status.get("consumeFailedTPS", 0.0), status.get("consumeFailedMsgs", 0)
        rows.append(RateRow(topic, pull_ms, pulls, consume_ms, consumed, failed, int(in_hour)))
    return rows


def property_rows(info: ConsumerRunningInfo) -> list[PropertyRow]:
    """Return what a member says of itself, by name."""
    return [
        PropertyRow(name, str(value), _moment_ms(name, str(value)))
        for name, value in sorted(info.properties.items())
    ]


def _moment_ms(name: str, value: str) -> int:
    return int(value) if name.endswith(_MOMENT) and value.isdecimal() else 0


def stacks_of(text: str) -> Stacks:
    """Return what a member's threads do; those that do the same are one row.

    A text in another form than Java's is shown as it is.
    """
    shown = visible(text[:STACKS_LENGTH_MAX].replace("\r\n", "\n"))
    same: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, state, frames in _threads(shown):
        same.setdefault((state, frames), []).append(name)
    rows = [Stack(sorted(names, key=_consuming_first), *key) for key, names in same.items()]
    rows.sort(key=lambda row: list(map(_consuming_first, row.names)))
    return Stacks(rows[:STACKS_MAX], max(0, len(text) - STACKS_LENGTH_MAX))


def _consuming_first(name: str) -> tuple[bool, str]:
    return not name.startswith(CONSUMING), name


def _threads(text: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield name, state and frames of each thread of Java, or of each task of Python."""
    for part in text.split("\n\n"):
        head, *lines = part.strip("\n").split("\n")
        name, _, rest = head.rpartition("TID: ")
        _, has_state, state = rest.partition(" STATE: ")
        if has_state:
            name = name.rstrip()
            yield name, state, tuple(line.removeprefix(name).strip() for line in lines)
        elif part.strip():
            yield from _tasks(part)


def _tasks(text: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the tasks of a Python member: a name, and below it frames that are indented."""
    name, frames = "", list[str]()
    for line in text.strip("\n").split("\n"):
        if line.startswith(" "):
            frames.append(line.strip())
            continue
        if name or frames:
            yield name, "", tuple(frames)
        name, frames = line.strip(), []
    yield name, "", tuple(frames)
