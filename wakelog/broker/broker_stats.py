"""BrokerStats: messages and bytes in and out, and what came in a minute, an hour and a day.

Counters by topic, group and queue, under 4.9.3's names:

    TOPIC_PUT_NUMS, TOPIC_PUT_SIZE     topic
    GROUP_GET_NUMS, GROUP_GET_SIZE     topic@group
    SNDBCK_PUT_NUMS                    topic@group
    GROUP_GET_LATENCY                  queueId@topic@group, or topic@group without enableDetailStat
    QUEUE_PUT_NUMS, QUEUE_PUT_SIZE     topic@queueId, of the schedule topic only
    QUEUE_GET_NUMS, QUEUE_GET_SIZE     topic@queueId@group, of the schedule topic only
    BROKER_PUT_NUMS, BROKER_GET_NUMS   the cluster's name

They only grow. A sample is taken every 10 s for the minute, every 10 min for the hour, every hour
for the day. A sum is the difference of the last and the first sample that are kept. An item that is
younger than these begins at zero, one period before its first sample.

When a table is full, a new name counts under ``OTHERS``, so that made-up names cannot fill the
memory. The other names of 4.9.3 (GROUP_GET_FROM_DISK_*, COMMERCIAL_*) are never counted there.

Invariants:
    - a slot of a table belongs to one key, and the columns of a table have one place for each slot.
    - a sample holds every slot that was in use when it was taken.
    - a copy of the slots is dropped when a slot is given or freed.

Source: org.apache.rocketmq.store.stats.{BrokerStatsManager, LmqBrokerStatsManager},
org.apache.rocketmq.common.stats.{StatsItem, StatsItemSet} (4.9.3).
"""

from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from wakelog.broker.names import LMQ_PREFIX, is_lmq
from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.protocol.steps import batched
from wakelog.telemetry.pieces import PIECE_NAMES_MAX

Value = TypeVar("Value")
Key = TypeVar("Key", bound=Hashable)

NAMES_MAX = 20_000  # for each table; 4.9.3 has no limit. All tables full are 60 MB of samples
OTHERS = "*"
SCHEDULE_GROUP = "SCHEDULE_CONSUMER"


class Period(NamedTuple):
    """How often a sample is taken, and how many are kept."""

    period_ms: int
    samples_max: int


MINUTE, HOUR, DAY = range(3)
PERIODS = (Period(10_000, 7), Period(600_000, 7), Period(3_600_000, 25))


class StatsSnapshot(NamedTuple):
    """What came in a period: the amount, the amount a second, the amount a call."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class Sample(NamedTuple):
    """A copy of the columns of a table. times: calls by slot."""

    taken_ms: int
    times: "array[int]"
    columns: tuple["array[int]", ...]


class _Span(NamedTuple):
    """For how long amounts have come, and whether those of the first sample are taken away."""

    elapsed_ms: int
    from_first: bool


class Amounts(NamedTuple, Generic[Key]):
    """A copy of the amounts of a table, as columns."""

    slots: Mapping[Key, int]
    columns: tuple["array[int]", ...]

    def pieces(self) -> Iterator[dict[Key, tuple[int, ...]]]:
        """Yield the amounts by key, of some keys at a time."""
        for items in batched(self.slots.items(), PIECE_NAMES_MAX):
            keys, slots = zip(*items, strict=True)
            amounts = (map(column.__getitem__, slots) for column in self.columns)
            yield dict(zip(keys, zip(*amounts, strict=True), strict=True))


class Traffic(NamedTuple):
    """A copy of the counters by topic and group."""

    puts: Amounts[str]
    gets: Amounts[tuple[str, str]]
    send_backs: Amounts[tuple[str, str]]

    def pieces(self) -> Iterator[dict[str, Any]]:
        """Yield (messages, bytes) by topic, or by topic and then group; for any thread.

        Of send-backs messages only.
        """
        for puts in self.puts.pieces():
            yield {"put_by_topic": puts}
        for gets in self.gets.pieces():
            yield {"get_by_topic_and_group": _by_topic(gets)}
        for send_backs in self.send_backs.pieces():
            yield {"send_back_by_topic_and_group": _by_topic(send_backs)}


class Recent(NamedTuple, Generic[Key]):
    """A copy of the samples of one period of a table; for any thread.

    births: by slot, how many samples of the period had been taken when its key came.
    """

    period: int
    slots: Mapping[Key, int]
    births: Sequence[int]
    samples: Sequence[Sample]
    taken_count: int

    def snapshot(self, key: Key, column: int = 0) -> StatsSnapshot | None:
        """Return what came in the period, None for an unknown key."""
        slot = self.slots.get(key)
        return None if slot is None else self._at(slot, column)

    def tps(self, key: Key, column: int = 0) -> float:
        """Return the amount a second, 0 for an unknown key."""
        found = self.snapshot(key, column)
        return 0.0 if found is None else found.tps

    def rates(self, columns: Sequence[int]) -> Iterator[dict[Key, tuple[float, ...]]]:
        """Yield the amounts a second by key and column, of some keys at a time.

        Column by column: 20,000 keys are a call each in `snapshot`, which takes four times as long.
        """
        spans = [self._span(count) for count in range(PERIODS[self.period].samples_max + 1)]
        for items in batched(self.slots.items(), PIECE_NAMES_MAX):
            keys, slots = zip(*items, strict=True)
            of_slots = [spans[self._age(slot)] for slot in slots]
            found = [self._column_rates(slots, of_slots, column) for column in columns]
            yield dict(zip(keys, zip(*found, strict=True), strict=True))

    def _column_rates(
        self, slots: Sequence[int], spans: Sequence[_Span], column: int
    ) -> list[float]:
        if not self.samples:
            return [0.0] * len(slots)
        last, first = self.samples[-1].columns[column], self.samples[0].columns[column]
        return [
            (last[slot] - first[slot] if from_first else last[slot]) * 1000.0 / elapsed_ms
            if elapsed_ms > 0
            else 0.0
            for slot, (elapsed_ms, from_first) in zip(slots, spans, strict=True)
        ]

    def sums(self, column: int) -> Iterator[dict[Key, int]]:
        """Yield the amounts of the period by key, of some keys at a time."""
        for items in batched(self.slots.items(), PIECE_NAMES_MAX):
            yield {key: self._sum(slot, column) for key, slot in items}

    def _sum(self, slot: int, column: int) -> int:
        """Return what came in the period."""
        _, from_first = self._span(age := self._age(slot))
        if age == 0:
            return 0
        amount = self.samples[-1].columns[column][slot]
        return amount - self.samples[0].columns[column][slot] if from_first else amount

    def _age(self, slot: int) -> int:
        """Return how many of the samples that are kept have a slot."""
        count = self.taken_count - self.births[slot]
        return min(count, PERIODS[self.period].samples_max)

    def _span(self, age: int) -> _Span:
        """Return for how long the amounts of an item have come. age: in samples."""
        period_ms, samples_max = PERIODS[self.period]
        if not 0 < age <= len(self.samples):
            return _Span(0, False)
        began_ms = self.samples[-age].taken_ms
        is_old = age == samples_max
        return _Span(self.samples[-1].taken_ms - began_ms + (0 if is_old else period_ms), is_old)

    def _at(self, slot: int, column: int) -> StatsSnapshot:
        elapsed_ms, from_first = self._span(age := self._age(slot))
        if age == 0:
            return StatsSnapshot()
        amount, times = self._sum(slot, column), self.samples[-1].times[slot]
        if from_first:
            times -= self.samples[0].times[slot]
        tps = amount * 1000.0 / elapsed_ms if elapsed_ms > 0 else 0.0
        return StatsSnapshot(amount, tps, amount / times if times > 0 else 0.0)


class RecentTraffic(NamedTuple):
    """What came in the last minute, by topic and group; for any thread."""

    puts: Recent[str]
    gets: Recent[tuple[str, str]]
    send_backs: Recent[tuple[str, str]]

    def pieces(self) -> Iterator[dict[str, Any]]:
        """Yield (messages, bytes) a second by topic, or by topic and then group.

        Of send-backs the messages of the minute.
        """
        for puts in self.puts.rates((0, 1)):
            yield {"put_by_topic": puts}
        for gets in self.gets.rates((0, 1)):
            yield {"get_by_topic_and_group": _by_topic(gets)}
        for backs in self.send_backs.sums(0):
            sums = {key: [amount] for key, amount in backs.items()}
            yield {"send_back_by_topic_and_group": _by_topic(sums)}


class StatsItems(Generic[Key]):
    """The items of one table, as columns: a copy of a column is a sample of all items.

    slots: place in the columns by key. times: calls by slot. columns: amounts by slot.
    """

    def __init__(self, others: Key, columns_count: int = 2) -> None:
        self.slots: dict[Key, int] = {}
        self._copied_slots: dict[Key, int] | None = None
        self.times = array("q")
        self.columns = tuple(array("q") for _ in range(columns_count))
        self._others = others
        self._free_slots: list[int] = []
        self._births = tuple(array("q") for _ in PERIODS)
        self._taken_counts = [0] * len(PERIODS)
        self._samples = [deque[Sample](maxlen=samples_max) for _, samples_max in PERIODS]

    def make_slot(self, key: Key) -> int:
        """Return the slot of a key that has none, which is that of ``OTHERS`` in a full table."""
        if len(self.slots) >= NAMES_MAX:
            key = self._others
            if key in self.slots:
                return self.slots[key]
        if self._free_slots:
            slot = self._free_slots.pop()
        else:
            slot = len(self.times)
            for column in (self.times, *self.columns, *self._births):
                column.append(0)
        for births, taken_count in zip(self._births, self._taken_counts, strict=True):
            births[slot] = taken_count
        self.slots[key] = slot
        self._copied_slots = None
        return slot

    def add(self, key: Key, *amounts: int) -> None:
        """Add one call's amounts, one for each column."""
        slot = self.slots.get(key)
        if slot is None:
            slot = self.make_slot(key)
        self.times[slot] += 1
        for column, amount in zip(self.columns, amounts, strict=True):
            column[slot] += amount

    def sample(self, period: int, now_ms: int) -> None:
        """Keep a copy of all counters."""
        copies = tuple(column[:] for column in self.columns)
        self._samples[period].append(Sample(now_ms, self.times[:], copies))
        self._taken_counts[period] += 1

    def snapshot(self, key: Key, column: int, period: int) -> StatsSnapshot | None:
        """Return what came in a period, None for an unknown key."""
        return self._recent(period, self.slots, self._births[period]).snapshot(key, column)

    def copy_recent(self, period: int) -> Recent[Key]:
        """Return a copy of the samples of a period; 0.1 ms for a full table."""
        return self._recent(period, self._copy_slots(), self._births[period][:])

    def _recent(self, period: int, slots: Mapping[Key, int], births: Sequence[int]) -> Recent[Key]:
        samples = tuple(self._samples[period])
        return Recent(period, slots, births, samples, self._taken_counts[period])

    def forget(self, matches: Callable[[Key], bool]) -> None:
        """Remove the items whose keys match."""
        self._copied_slots = None
        for key in [key for key in self.slots if matches(key)]:
            slot = self.slots.pop(key)
            for column in (self.times, *self.columns):
                column[slot] = 0
            self._free_slots.append(slot)

    def copy_amounts(self) -> Amounts[Key]:
        """Return a copy of the amounts; 0.1 ms for a full table, and 0.4 ms after a new name."""
        return Amounts(self._copy_slots(), tuple(column[:] for column in self.columns))

    def _copy_slots(self) -> Mapping[Key, int]:
        """Return a copy of the slots, which stays as it is; the same one while no name comes."""
        if self._copied_slots is None:
            self._copied_slots = self.slots.copy()
        return self._copied_slots

    def validate(self) -> None:
        """Assert the invariants of the module."""
        assert len(self.slots) <= NAMES_MAX + 1
        used = sorted([*self.slots.values(), *self._free_slots])
        assert used == list(range(len(self.times)))
        assert all(len(column) == len(self.times) for column in self.columns)
        assert all(len(births) == len(self.times) for births in self._births)


class BrokerStats:
    """Counters of one broker."""

    def __init__(self, cluster: str = "", *, by_queue: bool = True, lmq: bool = False) -> None:
        """Start with nothing counted.

        by_queue: 4.9.3's enableDetailStat.
        lmq: count all light queues, and all their groups, under one name each.
        """
        self._cluster = cluster
        self._by_queue = by_queue
        self._lmq = lmq
        self._puts = StatsItems[str](OTHERS)
        self._gets = StatsItems[tuple[str, str]]((OTHERS, OTHERS))
        self._send_backs = StatsItems[tuple[str, str]]((OTHERS, OTHERS), 1)
        self._latencies = StatsItems[tuple[int, str, str]]((-1, OTHERS, OTHERS), 1)
        self._queue_puts = StatsItems[tuple[str, int]]((OTHERS, -1))
        self._queue_gets = StatsItems[tuple[str, int, str]]((OTHERS, -1, OTHERS))
        self._broker_puts = StatsItems[str](OTHERS, 1)
        self._broker_gets = StatsItems[str](OTHERS, 1)
        self._tables: tuple[StatsItems[Any], ...] = (
            *(self._puts, self._gets, self._send_backs, self._latencies),
            *(self._queue_puts, self._queue_gets, self._broker_puts, self._broker_gets),
        )

    def count_put(
        self, topic: str, messages_count: int, size_bytes: int, calls_count: int = 1
    ) -> None:
        """Count messages that calls have appended to a topic."""
        puts = self._puts
        slot = puts.slots.get(topic)
        if slot is None:
            slot = puts.make_slot(topic)
            self._broker_slot(self._broker_puts)
        puts.times[slot] += calls_count
        puts.columns[0][slot] += messages_count
        puts.columns[1][slot] += size_bytes
        self._broker_puts.columns[0][0] += messages_count

    def count_get(
        self,
        topic: str,
        group: str,
        messages_count: int,
        size_bytes: int,
        *,
        queue_id: int = -1,
        latency_ms: int = 0,
    ) -> None:
        """Count messages that a group has received from a queue, and how long it took."""
        key = topic, group
        if self._lmq:
            key = self._without_light_names(topic, group)
        gets = self._gets
        slot = gets.slots.get(key)
        if slot is None:
            slot = gets.make_slot(key)
            self._broker_slot(self._broker_gets)
        gets.times[slot] += 1
        gets.columns[0][slot] += messages_count
        gets.columns[1][slot] += size_bytes
        self._broker_gets.columns[0][0] += messages_count
        if queue_id >= 0:
            self._latencies.add((queue_id if self._by_queue else -1, *key), latency_ms)

    def count_send_back(self, topic: str, group: str) -> None:
        """Count a message that a group sent back."""
        key = self._without_light_names(topic, group) if self._lmq else (topic, group)
        self._send_backs.add(key, 1)

    def count_put_again(self, topic: str, size_bytes: int) -> None:
        """Count a message that a send-back has appended, which is no put of the broker."""
        self._puts.add(topic, 1, size_bytes)
        self._broker_slot(self._broker_puts)

    def count_delayed(self, queue_id: int, size_bytes: int) -> None:
        """Count a message that waits in a queue of the schedule topic."""
        if self._by_queue:
            self._queue_puts.add((SCHEDULE_TOPIC, queue_id), 1, size_bytes)

    def count_delivered(self, topic: str, queue_id: int, size_bytes: int) -> None:
        """Count a message that was delivered from a queue of the schedule topic."""
        if self._by_queue:
            self._queue_gets.add((SCHEDULE_TOPIC, queue_id, SCHEDULE_GROUP), 1, size_bytes)
        self._gets.add((SCHEDULE_TOPIC, SCHEDULE_GROUP), 1, size_bytes)
        self.count_put(topic, 1, size_bytes)

    def sample(self, period: int, now_ms: int) -> None:
        """Take the sample of a period, which is an index into PERIODS."""
        for table in self._tables:
            table.sample(period, now_ms)

    def get_tps(self, topic: str, group: str) -> float:
        """Return the messages a second that a group received in the last minute."""
        key = self._without_light_names(topic, group) if self._lmq else (topic, group)
        found = self._gets.snapshot(key, 0, MINUTE)
        return 0.0 if found is None else found.tps

    def snapshots(self, name: str, key: str) -> tuple[StatsSnapshot, ...] | None:
        """Return minute, hour and day of an item, None if nothing was counted under its key."""
        found = self._find(name, key)
        if found is None:
            return None
        table, column, place = found
        if table is self._broker_puts and not any(table.columns[0]):
            return None
        snapshots = [table.snapshot(place, column, period) for period in (MINUTE, HOUR, DAY)]
        return tuple(one for one in snapshots if one is not None) or None

    def forget_topic(self, topic: str) -> None:
        """Remove the items of a topic."""
        self._puts.forget(lambda name: name == topic)
        self._queue_puts.forget(lambda key: key[0] == topic)
        self._queue_gets.forget(lambda key: key[0] == topic)
        self._gets.forget(lambda key: key[0] == topic)
        self._send_backs.forget(lambda key: key[0] == topic)
        self._latencies.forget(lambda key: key[1] == topic)

    def forget_group(self, group: str) -> None:
        """Remove the items of a consumer group."""
        self._queue_gets.forget(lambda key: key[2] == group)
        self._gets.forget(lambda key: key[1] == group)
        self._send_backs.forget(lambda key: key[1] == group)
        self._latencies.forget(lambda key: key[2] == group)

    def statistics(self) -> Traffic:
        """Return a copy of the counters by topic and group."""
        return Traffic(
            self._puts.copy_amounts(), self._gets.copy_amounts(), self._send_backs.copy_amounts()
        )

    def minute(self) -> RecentTraffic:
        """Return a copy of what came in the last minute."""
        return RecentTraffic(
            self._puts.copy_recent(MINUTE),
            self._gets.copy_recent(MINUTE),
            self._send_backs.copy_recent(MINUTE),
        )

    def validate(self) -> None:
        """Assert the invariants of the module."""
        for table in self._tables:
            table.validate()

    def _broker_slot(self, table: StatsItems[str]) -> None:
        if not table.slots:
            table.make_slot(self._cluster)

    def _without_light_names(self, topic: str, group: str) -> tuple[str, str]:
        return LMQ_PREFIX if is_lmq(topic) else topic, LMQ_PREFIX if is_lmq(group) else group

    def _find(self, name: str, key: str) -> tuple[StatsItems[Any], int, Hashable] | None:
        """Return table, column and key of a named item; the last ``@`` is before a group."""
        topic, _, last = key.rpartition("@")
        place: Hashable = key
        table: StatsItems[Any] | None
        if name.startswith("QUEUE_PUT_"):
            table, place = self._queue_puts, (topic, _number(last))
        elif name.startswith("QUEUE_GET_"):
            topic, _, queue_id = topic.rpartition("@")
            table, place = self._queue_gets, (topic, _number(queue_id), last)
        elif name == "GROUP_GET_LATENCY":
            queue_id, _, topic = topic.partition("@") if self._by_queue else ("", "", topic)
            table, place = self._latencies, (_number(queue_id), topic, last)
        else:
            tables: dict[str, StatsItems[Any]] = {
                "TOPIC_PUT": self._puts,
                "GROUP_GET": self._gets,
                "SNDBCK_PUT": self._send_backs,
                "BROKER_PUT": self._broker_puts,
                "BROKER_GET": self._broker_gets,
            }
            table = tables.get(name.rpartition("_")[0])
            if name.startswith(("GROUP_GET_", "SNDBCK_PUT_")):
                place = topic, last
        column = {"NUMS": 0, "LATENCY": 0, "SIZE": 1}.get(name.rpartition("_")[2])
        if table is None or column is None or column >= len(table.columns):
            return None
        return table, column, place


def _number(text: str) -> int:
    """Return a queue id, -1 for what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 11 else -1


def _by_topic(counts: Mapping[tuple[str, str], Value]) -> dict[str, dict[str, Value]]:
    """Nest by topic: JSON between processes has no pairs as keys."""
    nested: dict[str, dict[str, Value]] = {}
    for (topic, group), value in counts.items():
        nested.setdefault(topic, {})[group] = value
    return nested
