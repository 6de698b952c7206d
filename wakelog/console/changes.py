"""What changed in a cluster in the last hour: what came, what went, and what is otherwise now.

Two readings go in, one after the other, and events come out. A broker that does not answer says
nothing: what it had is not gone. The names of RocketMQ itself are left out.

Invariants: no clock. `EACH_MAX` events of one kind for one reading, `EVENTS_MAX` in all.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.console.runtime_values import runtime_number
from wakelog.console.subjects import broker_text, role_text
from wakelog.protocol.bodies import BrokerData
from wakelog.protocol.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SYSTEM_TOPIC_PREFIX,
    is_own_group,
)

HOUR_MS: Final = 3_600_000
EVENTS_MAX: Final = 500
EACH_MAX: Final = 20
"""Of one kind, between two readings; the others are counted in one event."""
SETTING_CHARACTERS_MAX: Final = 60
STARTS_MAX: Final = 100
"""Times of starts that are known of one broker."""

_SECRET: Final = re.compile("password|secret|accesskey", re.IGNORECASE)


class Event(NamedTuple):
    """What happened between two readings. at_ms: of the second one."""

    at_ms: int
    about: str
    found: str


class Gone(NamedTuple):
    """A broker that no name server has any more, and since when. broker: as it was last."""

    since_ms: int
    broker: BrokerReading


class ClusterChanges:
    """The events of the last hour, the oldest first; and what became of brokers.

    gone: by address, those that went in the last hour. One has come back if its address has, or
        another one has registered with its name: a new host may have its store.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self.events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self.gone: dict[str, Gone] = {}
        self._last: ClusterReading | None = None
        self._starts: dict[str, deque[int]] = {}

    def add(self, cluster: ClusterReading) -> None:
        """Take the next reading; one without a name server says nothing."""
        if cluster.failure is not None:
            return
        before, self._last = self._last, cluster
        if before is not None and cluster.taken_ms < before.taken_ms:
            self.events.clear()
            self.gone.clear()
            self._starts.clear()
        elif before is not None:
            self.events.extend(events_between(before, cluster))
            self._add_gone(before, cluster)
        begin_ms = cluster.taken_ms - HOUR_MS
        while self.events and self.events[0].at_ms < begin_ms:
            self.events.popleft()
        self.gone = {x: y for x, y in self.gone.items() if y.since_ms >= begin_ms}
        self._add_starts(cluster)

    def starts(self, address: str) -> list[int]:
        """Return when a broker started in the last hour, by its own clock, in milliseconds."""
        begin_ms = self._last.taken_ms - HOUR_MS if self._last else 0
        return [each for each in self._starts.get(address, ()) if each >= begin_ms]

    def _add_gone(self, before: ClusterReading, after: ClusterReading) -> None:
        then, now = {x.address for x in before.brokers}, {x.address for x in after.brokers}
        for broker in before.brokers:
            if broker.address not in now:
                self.gone[broker.address] = Gone(after.taken_ms, broker)
        for broker in after.brokers:
            if self.gone.pop(broker.address, None) is None and broker.address not in then:
                same = (x for x, y in self.gone.items() if y.broker.name == broker.name)
                self.gone.pop(next(same, ""), None)

    def _add_starts(self, cluster: ClusterReading) -> None:
        known = {x.address for x in cluster.brokers} | self.gone.keys()
        self._starts = {x: y for x, y in self._starts.items() if x in known}
        for broker in cluster.brokers:
            boot_ms = runtime_number(broker.values, "bootTimestamp")
            if boot_ms is None:
                continue
            starts = self._starts.setdefault(broker.address, deque(maxlen=STARTS_MAX))
            if not starts or starts[-1] != boot_ms:
                starts.append(round(boot_ms))


def events_between(before: ClusterReading, after: ClusterReading) -> Iterator[Event]:
    """Yield what is otherwise in the second of two readings."""
    both = _both(before, after)
    for found in (
        _places(before, after),
        _starts(both),
        _settings(both),
        _topics(both),
        _groups(both),
        _members(before, after),
    ):
        for count, (about, text) in enumerate(found):
            if count < EACH_MAX:
                yield Event(after.taken_ms, about, text)
            else:
                more = 1 + sum(1 for _ in found)
                yield Event(after.taken_ms, "", f"{more:,} more changes of this kind")
                break


Pair = tuple[BrokerReading, BrokerReading]
Found = Iterator[tuple[str, str]]


def _both(before: ClusterReading, after: ClusterReading) -> list[Pair]:
    """Return the readings of the brokers that are in both; what one does not say is empty."""
    then = {x.address: x for x in before.brokers}
    return [(then[x.address], x) for x in after.brokers if x.address in then]


def _places(before: ClusterReading, after: ClusterReading) -> Found:
    """Yield brokers that came and went, and masters that changed."""
    tables = before.info.broker_addr_table, after.info.broker_addr_table
    for name in sorted(tables[0].keys() | tables[1].keys()):
        then, now = (_roles(table.get(name)) for table in tables)
        for address in sorted(then.keys() | now.keys()):
            is_in, was_in = address in now, address in then
            if is_in and not was_in:
                yield f"broker {name} at {address}", f"registered as {role_text(now[address])}"
            elif was_in and not is_in:
                text = f"left the name servers, where it was {role_text(then[address])}"
                yield f"broker {name} at {address}", text
            elif then[address] != now[address]:
                text = f"is {role_text(now[address])} now, and was {role_text(then[address])}"
                yield f"broker {name} at {address}", text


def _roles(data: BrokerData | None) -> dict[str, int]:
    return {} if data is None else {x: broker_id for broker_id, x in data.broker_addrs.items()}


def _starts(both: Iterable[Pair]) -> Found:
    for then, now in both:
        boots = [runtime_number(each.values, "bootTimestamp") for each in (then, now)]
        if None not in boots and boots[0] != boots[1]:
            yield broker_text(now), "started again"


def _settings(both: Iterable[Pair]) -> Found:
    for then, now in both:
        if then.settings and now.settings:
            for key, text in _differences(then.settings, now.settings):
                yield broker_text(now), f"{key} {text}"


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key in sorted(then.keys() | now.keys()):
        if then.get(key) != now.get(key):
            text = f"is {_shown(now.get(key))} now, and was {_shown(then.get(key))}"
            yield key, "was changed" if _SECRET.search(key) else text


def _shown(value: object) -> str:
    text = "not set" if value is None or value == "" else str(value)
    is_long = len(text) > SETTING_CHARACTERS_MAX
    return text[:SETTING_CHARACTERS_MAX] + "…" if is_long else text


def _topics(both: list[Pair]) -> Found:
    pairs = [(then, now) for then, now in both if then.topics and now.topics]
    then = {name: x for pair in pairs for name, x in pair[0].topics.items()}
    now = {name: x for pair in pairs for name, x in pair[1].topics.items()}
    hidden = frozenset().union(*(x.system_topics for pair in pairs for x in pair))
    for name in sorted(then.keys() ^ now.keys()):
        if name.startswith(DLQ_PREFIX) and name in now:
            yield f"group {name.removeprefix(DLQ_PREFIX)}", "has its first dead letter"
        elif not (
            name.startswith((DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX)) or name in hidden
        ):
            yield f"topic {name}", "was made" if name in now else "was deleted"
    for a, b in pairs:
        for name in sorted(a.topics.keys() & b.topics.keys()):
            for key, text in _differences(_plain(a.topics[name]), _plain(b.topics[name])):
                yield f"topic {name}", f"{key} {text} at {b.name}"


def _groups(both: list[Pair]) -> Found:
    pairs = [(then, now) for then, now in both if then.groups and now.groups]
    then = {name for pair in pairs for name in pair[0].groups if not is_own_group(name)}
    now = {name for pair in pairs for name in pair[1].groups if not is_own_group(name)}
    for name in sorted(then ^ now):
        yield f"group {name}", "was made" if name in now else "was deleted"
    for a, b in pairs:
        for name in sorted(a.groups.keys() & b.groups.keys()):
            for key, text in _differences(_plain(a.groups[name]), _plain(b.groups[name])):
                yield f"group {name}", f"{key} {text} at {b.name}"


def _plain(value: msgspec.Struct) -> dict[str, Any]:
    """Return the fields by RocketMQ's names."""
    fields = msgspec.structs.fields(value)
    return {each.encode_name: getattr(value, each.name) for each in fields}


def _members(before: ClusterReading, after: ClusterReading) -> Found:
    for name in sorted(before.groups.keys() & after.groups.keys()):
        clients = before.groups[name].clients, after.groups[name].clients
        if clients[0] is None or clients[1] is None or is_own_group(name):
            continue
        then, now = ({x.client_id for x in each.connection_set} for each in clients if each)
        for client in sorted(then ^ now):
            yield f"group {name}", f"{client} {'joined' if client in now else 'left'}"
