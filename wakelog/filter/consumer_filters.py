"""ConsumerFilters: the expressions that groups filter topics by, and consumerFilter.json.

A heartbeat brings all subscriptions of its group. One by expression is compiled and kept here,
together with the bits that stand for the group in a message's bitmap. A filter is dead once its
group has gone or no longer subscribes to the topic. It stays for a day: a group that comes back
keeps its bits.

    a heartbeat brings                            becomes of what is kept
    no newer version than it                      nothing; the same version makes it live again
    a newer version of the same expression        the version; it lives again
    a newer version, another expression           a new filter, born now
    a newer version that cannot be compiled       none: the client learns of it by its pulls

Born and dead are times in ms; a filter is dead while its dead time is not before its birth, and
lives with a dead time of 0. After a start all are dead until their groups come.

Invariants:
    - every filter that is kept has compiled, and its bits are of this table's bloom filter.
    - heartbeats add filters up to `filters_max` and `characters_max`; no group is kept without one.
    - `change_count` goes up whenever the expressions that messages are tried against change.

Source: org.apache.rocketmq.broker.filter.{ConsumerFilterManager, ConsumerFilterData} (4.9.3). A
filter in the file that does not compile is kept there, and lets every message pass.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import suppress
from typing import Final

import msgspec

from wakelog.filter.bloom import BloomFilter, BloomPositions
from wakelog.filter.errors import IllegalExpression
from wakelog.filter.limits import FACTOR_MAX
from wakelog.filter.sql92 import TYPE, Sql92Filter, compile_filter, compile_in_steps
from wakelog.protocol.bodies import SubscriptionData
from wakelog.protocol.body_codec import decode_file
from wakelog.protocol.fastjson import dumps
from wakelog.protocol.steps import Steps, finish
from wakelog.protocol.subscription import is_tag_type

DEAD_BEFORE_LOAD_MS: Final = 30_000

SUBSCRIPTIONS_PER_STEP: Final = 2_048
"""Some 0.3 ms for those without an expression."""


class ConsumerFilter(msgspec.Struct):
    """One group's filter of one topic."""

    topic: str
    group: str
    compiled: Sql92Filter
    positions: BloomPositions
    version: int
    born_ms: int
    dead_ms: int = 0

    @property
    def is_dead(self) -> bool:
        """Whether the group has no client that wants it."""
        return self.dead_ms >= self.born_ms


class _BloomData(msgspec.Struct, rename="camel"):
    bit_num: int = 0
    bit_pos: list[int] = []


class StoredFilter(msgspec.Struct, rename="camel"):
    """One filter in the file, whether it compiles or not."""

    topic: str = ""
    consumer_group: str = ""
    expression: str = ""
    expression_type: str = ""
    born_time: int = 0
    dead_time: int = 0
    dead: bool = False  # computed by upstream's writer, ignored by its reader
    client_version: int = 0
    bloom_filter_data: _BloomData | None = None

    @property
    def positions(self) -> BloomPositions:
        """The bits that stand for the filter."""
        bloom = self.bloom_filter_data or _BloomData()
        return BloomPositions(tuple(bloom.bit_pos), bloom.bit_num)


class _TopicData(msgspec.Struct, rename="camel"):
    group_filter_data: dict[str, StoredFilter] = {}
    topic: str = ""


class _FileContent(msgspec.Struct, rename="camel"):
    filter_data_by_topic: dict[str, _TopicData] = {}


class ConsumerFilters:
    """Filters by group and topic."""

    def __init__(
        self,
        bloom: BloomFilter,
        now_ms: int,
        *,
        dead_ms_max: int,
        filters_max: int | None = None,
        characters_max: int | None = None,
    ) -> None:
        """Start with none.

        now_ms: when the file is loaded, as far as the file is concerned.
        dead_ms_max: how long the dead are kept (filterDataCleanTimeSpan).
        filters_max, characters_max: of all expressions together; None for no limit.
        """
        self.bloom = bloom
        self.dirty = False
        self.change_count = 0
        self._start_ms = now_ms
        self._dead_ms_max = dead_ms_max
        self._filters_max = sys.maxsize if filters_max is None else filters_max
        self._characters_max = sys.maxsize if characters_max is None else characters_max
        self._by_group: dict[str, dict[str, ConsumerFilter]] = {}
        self._count = 0
        self._characters = 0

    def __len__(self) -> int:
        """Return how many filters are kept, dead ones included."""
        return self._count

    def get(self, topic: str, group: str) -> ConsumerFilter | None:
        """Return the filter of a group, dead or not."""
        return self._by_group.get(group, {}).get(topic)

    def all(self) -> Iterator[ConsumerFilter]:
        """Yield the filters that messages are tried against, dead ones included."""
        for topics in self._by_group.values():
            yield from topics.values()

    def of_group(self, group: str) -> dict[str, ConsumerFilter]:
        """Return the filters of a group by topic."""
        return dict(self._by_group.get(group, {}))

    def register_in_steps(
        self,
        group: str,
        subscriptions: Iterable[SubscriptionData],
        now_ms: int,
        *,
        limit_factor: int = 1,
    ) -> Steps[bool]:
        """Apply the subscriptions of a heartbeat; no step if they are few and known.

        limit_factor: multiplies the limits of one expression.
        Returns: whether every filter had room.
        """
        topics, is_full = set(), False
        for number, wanted in enumerate(subscriptions, 1):
            if not number % SUBSCRIPTIONS_PER_STEP:
                yield
            topics.add(wanted.topic)
            if not is_tag_type(wanted.expression_type) and wanted.sub_string:
                has_room = yield from self._register(group, wanted, now_ms, limit_factor)
                is_full = is_full or not has_room
        self._end_others(group, topics, now_ms)
        return not is_full

    def register(self, group: str, wanted: Iterable[SubscriptionData], now_ms: int) -> bool:
        """Apply the subscriptions of a heartbeat at once."""
        return finish(self.register_in_steps(group, wanted, now_ms))

    def end(self, group: str, now_ms: int) -> None:
        """Note that no client of a group is left."""
        self._end_others(group, set(), now_ms)

    def _end_others(self, group: str, topics: Set[str], now_ms: int) -> None:
        for topic, kept in self._by_group.get(group, {}).items():
            if topic not in topics and not kept.is_dead:
                kept.dead_ms = now_ms
                self.dirty = True

    def clean(self, now_ms: int) -> None:
        """Forget what has been dead for too long."""
        for kept in list(self.all()):
            if kept.is_dead and now_ms - kept.dead_ms >= self._dead_ms_max:
                self._remove(kept)

    def snapshot(self) -> Callable[[], str]:
        """Copy the table and return what encodes the copy as consumerFilter.json."""
        self.dirty = False
        topics: dict[str, _TopicData] = {}
        for kept in sorted(self.all(), key=lambda kept: (kept.topic, kept.group)):
            data = topics.setdefault(kept.topic, _TopicData({}, kept.topic))
            data.group_filter_data[kept.group] = to_stored(kept)
        return lambda: dumps(_FileContent(topics), pretty=True).decode()

    def load(self, text: str) -> None:
        """Take over consumerFilter.json, ours or 4.9.3's; nothing of it if bits are not ours.

        Raises: ValueError if the text is no table of filters.
        """
        read = list(read_stored(text))
        if all(self.bloom.made(stored.positions) for stored in read):
            for stored in read:
                self._load(stored)

    def validate(self) -> None:
        """Assert the invariants of the module."""
        assert len(self) == sum(map(len, self._by_group.values()))
        assert self._characters == sum(len(kept.compiled.text) for kept in self.all())
        for group, topics in self._by_group.items():
            assert topics
            for topic, kept in topics.items():
                assert (kept.topic, kept.group) == (topic, group)
                assert self.bloom.made(kept.positions)

    def _register(
        self, group: str, wanted: SubscriptionData, now_ms: int, limit_factor: int
    ) -> Steps[bool]:
        version = wanted.sub_version or 0
        if self._is_known(group, wanted, version):
            return True
        yield
        compiled = None
        if wanted.expression_type == TYPE:
            with suppress(IllegalExpression):
                compiled = yield from compile_in_steps(wanted.sub_string, limit_factor)
        # Another heartbeat of the group may have come meanwhile.
        if self._is_known(group, wanted, version):
            return True
        kept = self.get(wanted.topic, group)
        if kept is not None:
            self._remove(kept)
        if compiled is None:
            return True
        if not self._has_room(compiled):
            return False
        positions = self.bloom.positions(f"{group}#{wanted.topic}")
        self._add(ConsumerFilter(wanted.topic, group, compiled, positions, version, now_ms))
        return True

    def _is_known(self, group: str, wanted: SubscriptionData, version: int) -> bool:
        """Return whether the kept filter is as new, or the same; it lives again then."""
        kept = self.get(wanted.topic, group)
        if kept is None:
            return False
        if version < kept.version:
            return True
        same = wanted.sub_string == kept.compiled.text and wanted.expression_type == TYPE
        if version > kept.version and not same:
            return False
        self.dirty = self.dirty or kept.is_dead or version > kept.version
        kept.version = version
        if kept.is_dead:
            kept.dead_ms = 0
        return True

    def _load(self, stored: StoredFilter) -> None:
        if stored.expression_type != TYPE:
            return
        try:
            # A higher factor may have allowed it; there is no other reader of the file.
            compiled = compile_filter(stored.expression, FACTOR_MAX)
        except IllegalExpression:
            return
        kept = ConsumerFilter(
            stored.topic,
            stored.consumer_group,
            compiled,
            stored.positions,
            stored.client_version,
            stored.born_time,
            stored.dead_time or max(self._start_ms - DEAD_BEFORE_LOAD_MS, stored.born_time),
        )
        self._add(kept)

    def _has_room(self, compiled: Sql92Filter) -> bool:
        characters = self._characters + len(compiled.text)
        return self._count < self._filters_max and characters <= self._characters_max

    def _add(self, kept: ConsumerFilter) -> None:
        assert self.get(kept.topic, kept.group) is None
        self._by_group.setdefault(kept.group, {})[kept.topic] = kept
        self._count += 1
        self._characters += len(kept.compiled.text)
        self.change_count += 1
        self.dirty = True

    def _remove(self, kept: ConsumerFilter) -> None:
        topics = self._by_group[kept.group]
        del topics[kept.topic]
        if not topics:
            del self._by_group[kept.group]
        self._count -= 1
        self._characters -= len(kept.compiled.text)
        self.change_count += 1
        self.dirty = True


def read_stored(text: str) -> Iterator[StoredFilter]:
    """Yield the filters in a consumerFilter.json.

    Raises: ValueError if the text is no table of filters.
    """
    content = decode_file(_FileContent, text)
    for topic, topic_data in content.filter_data_by_topic.items():
        for group, stored in topic_data.group_filter_data.items():
            stored.topic, stored.consumer_group = topic, group
            yield stored


def to_stored(kept: ConsumerFilter) -> StoredFilter:
    """Return a filter as the file has it."""
    return StoredFilter(
        topic=kept.topic,
        consumer_group=kept.group,
        expression=kept.compiled.text,
        expression_type=TYPE,
        born_time=kept.born_ms,
        dead_time=kept.dead_ms,
        dead=kept.is_dead,
        client_version=kept.version,
        bloom_filter_data=_BloomData(kept.positions.bit_count, list(kept.positions.bits)),
    )
