"""ConsumerOffsets: how far each group has consumed each queue, and the file that keeps it.

    consumerOffset.json     {"offsetTable":{"topic@group":{queueId:offset}}}
    lmqConsumerOffset.json  the same with "lmqOffsetTable":{"topic@group":offset}; replaces the
                            first when enableLmq is set

The last commit wins, a smaller one too: a reset commits one. Topic and group are joined only in the
file. There the last ``@`` splits them, because a group name cannot have one.

Invariants: ``_topics`` has exactly the pairs of ``_table``. ``_pair_bytes`` is the sum of
``_cost_bytes`` over the pairs of both tables. Queue ids are not negative. An offset of -1 is stored
like any other, because the Go client commits it; a query takes it for "none". The offsets of a pair
that a copy shares never change: a commit first gives it a dict of its own.

Source: org.apache.rocketmq.broker.offset.{ConsumerOffsetManager, LmqConsumerOffsetManager} (4.9.3).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar

from wakelog.broker.copy_on_write_map import CopyOnWriteMap
from wakelog.broker.error_response import LimitReached
from wakelog.broker.names import is_lmq
from wakelog.broker.table_limits import DEFAULT_LIMITS, TableLimits, table_full
from wakelog.protocol.fastjson import FILE_ENTRIES_MAX, dumps, loads, to_long
from wakelog.protocol.steps import Steps, batched

NO_OFFSET = -1

PAIRS_PER_STEP = 1_024
"""Some 0.2 ms to look at them."""

REMOVED_PER_STEP = 256
"""Some 0.2 ms."""

PAIR_BYTES = 100
"""What a pair of a topic and a group counts beside its names."""

_NO_QUEUES: Mapping[int, int] = MappingProxyType({})

_Pair: TypeAlias = tuple[str, str]

Value = TypeVar("Value")


class ConsumerOffsets:
    """Committed offsets by topic, group and queue."""

    def __init__(self, *, lmq: bool = False, limits: TableLimits = DEFAULT_LIMITS) -> None:
        """Start empty; with ``lmq``, a group of light queues has one offset for all its queues."""
        self._lmq = lmq
        self._offsets_max = limits.committed_offsets
        self._pair_bytes_max = limits.committed_pair_bytes
        self._table: CopyOnWriteMap[_Pair, dict[int, int]] = CopyOnWriteMap()
        self._lmq_table: CopyOnWriteMap[_Pair, int] = CopyOnWriteMap()
        self._topics: dict[str, dict[str, None]] = {}  # by group, in the order of their commits
        self._pair_bytes = 0
        self._queue_count = 0
        self._commit_count = 0
        self._backward_count = 0
        self._refused_count = 0
        self.dirty = False

    @property
    def file_name(self) -> str:
        """Stem of the configuration file that holds this table."""
        return "lmqConsumerOffset" if self._lmq else "consumerOffset"

    def commit(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Store an offset, a smaller one too.

        Raises: LimitReached for a new queue when there is no room.
        """
        self._commit_count += 1
        if self._lmq and is_lmq(group):
            if (topic, group) not in self._lmq_table:
                self._check_room(len(self._lmq_table) + 1, (topic, group))
                self._pair_bytes += _cost_bytes((topic, group))
            self._lmq_table[topic, group] = queue_offset
            self.dirty = True
            return
        queues = self._table.get((topic, group))
        before = None if queues is None else queues.get(queue_id)
        if before is None:
            self._check_room(self._queue_count + 1, (topic, group) if queues is None else None)
        if before != queue_offset:
            self._queue_count += before is None
            self._backward_count += before is not None and queue_offset < before
            if queues is None:
                self._add(topic, group, {queue_id: queue_offset})
            else:
                self._own_queues(topic, group, queues)[queue_id] = queue_offset
            self.dirty = True

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return the committed offset of one queue, NO_OFFSET if there is none."""
        if self._lmq and is_lmq(group):
            light_offset = self._lmq_table.get((topic, group))
            return NO_OFFSET if light_offset is None else light_offset
        queues = self._table.get((topic, group))
        return NO_OFFSET if queues is None else queues.get(queue_id, NO_OFFSET)

    def committed(self) -> Iterator[tuple[str, str, Mapping[int, int]]]:
        """Yield group, topic and offset by queue id, without light queues.

        The table may change meanwhile; a pair that was committed before is there as it is then.
        """
        for pairs in self._table.items():
            for (topic, group), queues in pairs:
                yield group, topic, queues

    @property
    def queue_count(self) -> int:
        """The number of offsets that `committed` yields."""
        return self._queue_count

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which a group has committed offsets, without light queues."""
        return list(self._topics.get(group, ()))

    def clone(
        self, group: str, to_group: str, topic: str
    ) -> tuple[dict[int, int], dict[int, int]] | None:
        """Replace a group's offsets of one topic by those of `group`, if it has any.

        Return what it has now and had before, None if nothing was done.

        Raises: LimitReached when there is no room.
        """
        queues = self._table.get((topic, group))
        if queues is None:
            return None
        replaced = self._table.get((topic, to_group))
        count = self._queue_count - len(replaced or _NO_QUEUES) + len(queues)
        if count > self._queue_count:
            self._check_room(count, (topic, to_group) if replaced is None else None)
        changed = dict(queues), dict(replaced or _NO_QUEUES)
        self._add(topic, to_group, dict(queues))
        self._queue_count = count
        self.dirty = True
        return changed

    def restore(
        self, group: str, topic: str, ours: Mapping[int, int], before: Mapping[int, int]
    ) -> None:
        """Undo a change by queue id, where no other commit came after it."""
        for queue_id in ours.keys() | before.keys():
            if self.query(group, topic, queue_id) != ours.get(queue_id, NO_OFFSET):
                continue
            if queue_id in before:
                with suppress(LimitReached):  # others have taken the room
                    self.commit(group, topic, queue_id, before[queue_id])
            else:
                self._remove_queue(group, topic, queue_id)

    def _check_room(self, count: int, new: _Pair | None) -> None:
        """Check that there is room for so many queues and a new pair. Raises: LimitReached."""
        pair_bytes = 0 if new is None else self._pair_bytes + _cost_bytes(new)
        if count > self._offsets_max:
            self._refused_count += 1
            raise table_full("queues with a committed offset", self._offsets_max)
        if pair_bytes > self._pair_bytes_max:
            self._refused_count += 1
            raise table_full("bytes of topics and groups with an offset", self._pair_bytes_max)

    def groups_of(self, topic: str) -> Steps[list[str]]:
        """Return the groups that have committed offsets in a topic, without light queues."""
        groups: list[str] = []
        count = 0
        for pairs in self._table.items():
            if count + len(pairs) > PAIRS_PER_STEP:
                yield
                count = 0
            count += len(pairs)
            groups += [group for (name, group), _ in pairs if name == topic]
        return groups

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """Return a copy of a group's offsets in a topic by queue id; a light queue has id 0."""
        if self._lmq and is_lmq(group):
            queue_offset = self._lmq_table.get((topic, group))
            return {} if queue_offset is None else {0: queue_offset}
        return dict(self._table.get((topic, group)) or _NO_QUEUES)

    def remove(self, group: str) -> Steps[dict[str, dict[int, int]]]:
        """Forget every offset of a group; offsets in light queues stay, as in 4.9.3.

        Return what it had, by topic and queue id.
        """
        removed: dict[str, dict[int, int]] = {}
        for topics in batched(self._topics.get(group, ()), REMOVED_PER_STEP):
            for topic in topics:
                removed[topic] = self._remove_pair(topic, group)
            if len(topics) == REMOVED_PER_STEP:
                yield
        return removed

    def _remove_pair(self, topic: str, group: str) -> dict[int, int]:
        topics = self._topics.get(group, {})
        if topic not in topics:
            return {}  # another request has removed it meanwhile
        del topics[topic]
        if not topics:
            del self._topics[group]
        self._pair_bytes -= _cost_bytes((topic, group))
        queues = self._table.pop((topic, group))
        self._queue_count -= len(queues)
        self.dirty = True
        return queues

    def _remove_queue(self, group: str, topic: str, queue_id: int) -> None:
        """Forget the offset of a queue that has one."""
        self.dirty = True
        if self._lmq and is_lmq(group):
            self._lmq_table.pop((topic, group))
            self._pair_bytes -= _cost_bytes((topic, group))
            return
        queues = self._table[topic, group]
        if len(queues) == 1:
            self._remove_pair(topic, group)
            return
        del self._own_queues(topic, group, queues)[queue_id]
        self._queue_count -= 1

    def snapshot(self) -> Callable[[], str]:
        """Return a function that encodes the table as it is now, on any thread, and once."""
        self.dirty = False
        return self.encoder(pretty=True)

    def encoder(self, *, pretty: bool = False) -> Callable[[], str]:
        """Return a function that writes the text of the file, or of code 43's body.

        It may run on any thread, and once: it frees each block of the copy after it was written.
        Only the list of blocks is copied now. The offsets are those of this moment: what is
        committed later may count messages that are not durable when a file has them.
        """
        tables: list[tuple[str, _Lines[Any]]] = [
            ("offsetTable", _Lines(self._table.copy_blocks(), _queues_text))
        ]
        if self._lmq:
            tables.insert(0, ("lmqOffsetTable", _Lines(self._lmq_table.copy_blocks(), _light_text)))

        def encode() -> str:
            begin, between, end = ("{\n\t", ",\n\t", "\n}") if pretty else ("{", ",", "}")
            parts: list[str] = []
            for name, lines in tables:
                parts += [between if parts else begin, f'"{name}":', *lines.parts(pretty=pretty)]
            return "".join([*parts, end])

        return encode

    def load(self, text: str) -> None:
        """Replace the table by the contents of a file of wakelog or 4.9.3."""
        content: dict[str, Any] = loads(text, entries_max=FILE_ENTRIES_MAX)
        content.get("offsetTable")  # raises if it is no table, with nothing replaced
        self._table, self._lmq_table, self._topics = CopyOnWriteMap(), CopyOnWriteMap(), {}
        self._pair_bytes = 0
        for name, queues in (content.get("offsetTable") or {}).items():
            offsets = {int(queue_id): to_long(offset) for queue_id, offset in queues.items()}
            self._add(*_split(name), offsets)
        for name, offset in (content.get("lmqOffsetTable") or {}).items():
            pair = _split(name)
            if pair not in self._lmq_table:
                self._pair_bytes += _cost_bytes(pair)
            self._lmq_table[pair] = to_long(offset)
        self._queue_count = sum(len(queues) for _, _, queues in self.committed())
        self.dirty = False

    def statistics(self) -> dict[str, int]:
        """Return sizes and counters."""
        return {
            "group_topic_count": len(self._table) + len(self._lmq_table),
            "queue_count": self._queue_count,
            "commit_count": self._commit_count,
            "backward_count": self._backward_count,
            "refused_count": self._refused_count,
        }

    def validate(self) -> None:
        """Assert the invariants of the module."""
        self._table.validate()
        self._lmq_table.validate()
        own = [pair for block in self._table.items() for pair, _ in block]
        light = [pair for block in self._lmq_table.items() for pair, _ in block]
        assert self._pair_bytes == sum(map(_cost_bytes, own + light))
        pairs = {(topic, group) for group, topics in self._topics.items() for topic in topics}
        assert pairs == {(topic, group) for group, topic, _ in self.committed()}
        assert self._queue_count == sum(len(queues) for _, _, queues in self.committed())
        assert all(queue_id >= 0 for _, _, queues in self.committed() for queue_id in queues)
        assert self._lmq or not self._lmq_table

    def _own_queues(self, topic: str, group: str, queues: dict[int, int]) -> dict[int, int]:
        """Return the offsets of a pair, in a dict that no copy shares."""
        if not self._table.owns((topic, group)):
            queues = self._table[topic, group] = dict(queues)
        return queues

    def _add(self, topic: str, group: str, queues: dict[int, int]) -> None:
        if (topic, group) not in self._table:
            self._pair_bytes += _cost_bytes((topic, group))
        self._table[topic, group] = queues
        self._topics.setdefault(group, {})[topic] = None


class _Lines(Generic[Value]):
    """The entries of a table of the file, from the blocks of a copy."""

    def __init__(
        self, blocks: list[dict[_Pair, Value]], value_text: Callable[[Value, str], str]
    ) -> None:
        self._blocks = blocks
        self._value_text = value_text

    def parts(self, *, pretty: bool) -> list[str]:
        """Write the table, and free each block after it was written; return the text in parts.

        To join 80 MB takes 20 ms, in which no other thread has the interpreter: it is done once.
        """
        line_begin, end = ("\n\t\t", "\n\t") if pretty else ("", "")
        value_text = self._value_text
        self._blocks.reverse()
        texts = ["{"]
        while self._blocks:
            entries = self._blocks.pop()
            lines = [
                f"{line_begin}{_name(pair)}:{value_text(value, line_begin)}"
                for pair, value in entries.items()
            ]
            if lines:
                texts += ["," if len(texts) > 1 else "", ",".join(lines)]
        return [*texts, end if len(texts) > 1 else "", "}"]


def _queues_text(queues: dict[int, int], line_begin: str) -> str:
    listed = ",".join([f"{queue_id}:{offset}" for queue_id, offset in queues.items()])
    return f"{{{listed}{line_begin if queues else ''}}}"


def _light_text(queue_offset: int, _line_begin: str) -> str:
    return str(queue_offset)


def _name(pair: _Pair) -> str:
    return dumps(f"{pair[0]}@{pair[1]}").decode()


def _cost_bytes(pair: _Pair) -> int:
    return PAIR_BYTES + len(pair[0]) + len(pair[1])


def _split(name: str) -> tuple[str, str]:
    topic, _, group = name.rpartition("@")
    return topic, group
