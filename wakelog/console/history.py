"""The last hour of a cluster: of each group its lag, retries and dead letters, of each broker disk
and log; what changed, and where name servers differ.

Snapshots and their times go in. What they say is kept as numbers, one for each `SAMPLE_MS_MIN` at
most, so an hour has a bounded size however often a cluster is read.

Invariants: no clock. A number that a reading lacks is NaN. A name without a number in the last
hour is forgotten. A clock that was set back begins a new hour. A group without dead letters has 0
in every reading in which all brokers answered.
"""

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from wakelog.broker.health_values import read_actors
from wakelog.console.changes import HOUR_MS, ClusterChanges
from wakelog.console.cluster_reading import ClusterReading, GroupReading, runtime_number
from wakelog.console.lag import GroupLag, lag_of, trend_of
from wakelog.protocol.bodies import BrokerData
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.names import RETRY_PREFIX

SAMPLE_MS_MIN: Final = 10_000
SAMPLES_MAX: Final = HOUR_MS // SAMPLE_MS_MIN + 1
SERIES_MAX: Final = 4_096
"""Numbers of one sample; what comes after is not kept."""

LAG: Final = "lag"
DEAD_LETTERS: Final = "dead letters"
RETRIED: Final = "retried messages"
CONSUMED: Final = "consumed messages"
BEGUN: Final = "begun services"
DISK: Final = "disk"
STORED: Final = "stored bytes"
HELD: Final = "held bytes"
SENT: Final = "sent messages"
KINDS: Final = (LAG, DEAD_LETTERS, RETRIED, CONSUMED, DISK, STORED, HELD, SENT, BEGUN)
"""Messages are counted since ever. STORED: where a log ends; HELD: how long it is. BEGUN: how often
a service began to work for its broker, since the broker started."""
FROM_ZERO: Final = frozenset({DEAD_LETTERS})
"""A group without such a topic has none."""

Series = tuple[str, str]
"""One of KINDS, and the name of a group or the address of a broker, with that of a service."""


class Change(NamedTuple):
    """The first and the last number of a series that are known."""

    before: float
    after: float
    elapsed_ms: int

    @property
    def grown(self) -> float:
        """By how much it grew."""
        return self.after - self.before


class Unmoved(NamedTuple):
    """Since when a group has stayed at an offset of a queue, and where the queue ended then.

    While the group has all of the queue, that time is now.
    clear_ms: until when the group may have had all of the queue, 0 if it never had: the reading
        after the last one in which it had.
    """

    since_ms: int
    consumer_offset: int
    broker_offset: int
    clear_ms: int = 0


class UnmovedLevel(NamedTuple):
    """Since when a broker has delivered a level of delays up to an offset."""

    since_ms: int
    offset: int


class History:
    """See the module.

    unlike: of each broker and name server that says otherwise than the first one, since when.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self.latest = ClusterReading(0)
        self._answered: ClusterReading | None = None
        self.changes = ClusterChanges()
        self.unlike: dict[tuple[str, str], int] = {}
        self.unmoved: dict[tuple[str, MessageQueue], Unmoved] = {}
        self.unmoved_levels: dict[tuple[str, int], UnmovedLevel] = {}
        self._times_ms = array("q")
        self._is_whole = array("b")
        self._series: dict[Series, array[float]] = {}

    def add(self, cluster: ClusterReading) -> None:
        """Take the newest reading."""
        times = self._times_ms
        if times and cluster.taken_ms < times[-1]:
            del times[:], self._is_whole[:]
            self._series.clear()
            self.unmoved.clear()
            self.unmoved_levels.clear()
            self.unlike.clear()
            self._answered = None
        if cluster.failure is None:
            self._answered = cluster
            self.changes.add(cluster)
            self._add_offsets(cluster)
            self._add_levels(cluster)
            self._add_unlike(cluster)
        self.latest = cluster
        if len(times) > 1 and cluster.taken_ms - times[-2] < SAMPLE_MS_MIN:
            self._drop(-1)
        numbers = dict(_numbers(cluster))
        for name in numbers:
            if name not in self._series and len(self._series) < SERIES_MAX:
                self._series[name] = self._before(name[0])
        for name, values in self._series.items():
            values.append(numbers.get(name, math.nan))
        times.append(cluster.taken_ms)
        self._is_whole.append(_is_whole(cluster))
        while len(times) > SAMPLES_MAX or times[-1] - times[0] > HOUR_MS:
            self._drop(0)
        self._series = {x: y for x, y in self._series.items() if not all(map(math.isnan, y))}

    def change(self, kind: str, name: str) -> Change | None:
        """Return what became of a number in the hour, None if it was not known at two times."""
        values = self._series.get((kind, name), ())
        known = [at for at, value in enumerate(values) if not math.isnan(value)]
        if len(known) < 2:
            return None
        first, last = known[0], known[-1]
        elapsed_ms = self._times_ms[last] - self._times_ms[first]
        return Change(values[first], values[last], elapsed_ms)

    def lag(self, name: str, group: GroupReading) -> GroupLag:
        """Return how far behind a group is. group: of the latest reading with an answer."""
        queues = group.progress.offset_table
        clear_ms = self.clear_ms(name, queues)
        trend = trend_of(self._times_ms, self._series.get((LAG, name), ()))
        now_ms = self._answered.taken_ms if self._answered else 0
        return lag_of(queues, clear_ms, trend, now_ms)

    def clear_ms(self, name: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Return until when a group may have had all of each queue, where that is known."""
        known = ((x, self.unmoved.get((name, x))) for x in queues)
        return {queue: x.clear_ms for queue, x in known if x is not None and x.clear_ms}

    @property
    def times_ms(self) -> Sequence[int]:
        """When each point of a course was read."""
        return self._times_ms

    def course(self, kind: str, name: str) -> list[float]:
        """Return the hour of a number, NaN where it was not known; empty if it never was."""
        return list(self._series.get((kind, name), ()))

    def largest(self, kind: str) -> list[float]:
        """Return the hour of the largest number of a kind."""
        return self._over(kind, max)

    def rates(self, kind: str) -> list[float]:
        """Return by how much all numbers of a kind grew in a second, between each two readings."""
        sums, times = self._over(kind, sum), self._times_ms
        found = [math.nan] if sums else []
        for at in range(1, len(sums)):
            seconds = (times[at] - times[at - 1]) / 1000
            grown = sums[at] - sums[at - 1]
            found.append(max(0.0, grown) / seconds if seconds > 0 else math.nan)
        return found

    def _over(self, kind: str, of: Callable[[Iterable[float]], float]) -> list[float]:
        """Return a course over all numbers of a kind; NaN where one is not known."""
        all_values = [values for (each, _), values in self._series.items() if each == kind]
        return [
            math.nan if any(map(math.isnan, column)) else of(column)
            for column in zip(*all_values, strict=True)
        ]

    def _drop(self, sample: int) -> None:
        del self._times_ms[sample], self._is_whole[sample]
        for values in self._series.values():
            del values[sample]

    def _before(self, kind: str) -> "array[float]":
        """Return what a number was in the readings before the first one that has it."""
        zero = 0.0 if kind in FROM_ZERO else math.nan
        return array("d", [zero if each else math.nan for each in self._is_whole])

    def _add_unlike(self, cluster: ClusterReading) -> None:
        found = {}
        tables = [
            (x.address, x.info.broker_addr_table) for x in cluster.name_servers if not x.failure
        ]
        for address, table in tables:
            for name, data in cluster.info.broker_addr_table.items():
                if table.get(name, BrokerData()).broker_addrs != data.broker_addrs:
                    key = name, address
                    found[key] = self.unlike.get(key, cluster.taken_ms)
        self.unlike = found

    def _add_offsets(self, cluster: ClusterReading) -> None:
        away = {x.name for x in cluster.brokers if x.failure is not None}
        found = {x: y for x, y in self.unmoved.items() if x[1].broker_name in away}
        for name, group in cluster.groups.items():
            for queue, place in group.progress.offset_table.items():
                key = name, queue
                then = self.unmoved.get(key)
                was_clear = then is not None and then.broker_offset <= then.consumer_offset
                is_clear = place.broker_offset <= place.consumer_offset
                clear_ms = then.clear_ms if then else 0
                if was_clear or is_clear:
                    clear_ms = cluster.taken_ms
                if then is None or was_clear or then.consumer_offset != place.consumer_offset:
                    since_ms = cluster.taken_ms
                    then = Unmoved(since_ms, place.consumer_offset, place.broker_offset)
                found[key] = then._replace(clear_ms=clear_ms)
        self.unmoved = found

    def _add_levels(self, cluster: ClusterReading) -> None:
        found = {}
        for broker in cluster.brokers:
            for level in broker.messages.levels if broker.messages else ():
                key = broker.address, level.level
                then = self.unmoved_levels.get(key)
                if then is None or then.offset != level.offset:
                    then = UnmovedLevel(cluster.taken_ms, level.offset)
                found[key] = then
        self.unmoved_levels = found


def _is_whole(cluster: ClusterReading) -> bool:
    """Whether all brokers answered: a sum without a part misleads."""
    return bool(cluster.brokers) and all(each.failure is None for each in cluster.brokers)


def _numbers(cluster: ClusterReading) -> Iterator[tuple[Series, float]]:
    if _is_whole(cluster):
        for name, group in cluster.groups.items():
            places = group.progress.offset_table
            if not places:
                continue
            yield (LAG, name), group.progress.total_diff()
            retries = [x for x in places if x.topic.startswith(RETRY_PREFIX)]
            if retries:
                yield (RETRIED, name), sum(places[x].broker_offset for x in retries)
                consumed = sum(x.consumer_offset for x in places.values())
                yield (CONSUMED, name), consumed - sum(places[x].consumer_offset for x in retries)
        for name, count in cluster.dead_letters.items():
            yield (DEAD_LETTERS, name), count
    for broker in cluster.brokers:
        values = broker.values
        begin, end = (runtime_number(values, f"commitLog{x}Offset") for x in ("Min", "Max"))
        held = end - begin if begin is not None and end is not None else None
        for kind, number in (
            (DISK, runtime_number(values, "commitLogDiskRatio")),
            (STORED, end),
            (HELD, held),
            (SENT, runtime_number(values, "msgPutTotalTodayNow")),
        ):
            if number is not None:
                yield (kind, broker.address), number
        for name, actor in read_actors(values).items():
            yield (BEGUN, f"{broker.address} {name}"), actor.attached_count
