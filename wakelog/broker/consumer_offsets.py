"""ConsumerOffsets: how far each group has consumed each queue, and the file that keeps it.

    consumerOffset.json     {"offsetTable":{"topic@group":{queueId:offset}}}
    lmqConsumerOffset.json  the same with "lmqOffsetTable":{"topic@group":offset}; replaces the
                            first when enableLmq is set

The last commit wins, a smaller one too: a reset commits one. Topic and group are joined only in the
file. There the last ``@`` splits them, because a group name cannot have one.

Invariants: queue ids are not negative. An offset of -1 is stored like any other, because the Go
client commits it; a query takes it for "none".

Source: org.apache.rocketmq.broker.offset.{ConsumerOffsetManager, LmqConsumerOffsetManager} (4.9.3).
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from wakelog.broker.error_response import LimitReached
from wakelog.broker.names import is_lmq
from wakelog.protocol.fastjson import FILE_ENTRIES_MAX, dumps, loads, to_long

NO_OFFSET = -1
QUEUES_MAX = 1_000_000  # over all groups: 100 MB of table

_NO_QUEUES: Mapping[int, int] = MappingProxyType({})


class ConsumerOffsets:
    """Committed offsets by topic, group and queue."""

    def __init__(self, *, lmq: bool = False) -> None:
        """Start empty; with ``lmq``, a group of light queues has one offset for all its queues."""
        self._lmq = lmq
        self._table: dict[tuple[str, str], dict[int, int]] = {}
        self._lmq_table: dict[tuple[str, str], int] = {}
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

        Raises: LimitReached for a new queue when QUEUES_MAX are stored.
        """
        self._commit_count += 1
        if self._lmq and is_lmq(group):
            self._lmq_table[topic, group] = queue_offset
            self.dirty = True
            return
        before = self._table.get((topic, group), _NO_QUEUES).get(queue_id)
        if before is None and self._queue_count >= QUEUES_MAX:
            self._refused_count += 1
            raise LimitReached("queues with a committed offset", QUEUES_MAX)
        if before != queue_offset:
            self._queue_count += before is None
            self._backward_count += before is not None and queue_offset < before
            self._table.setdefault((topic, group), {})[queue_id] = queue_offset
            self.dirty = True

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return the committed offset of one queue, NO_OFFSET if there is none."""
        if self._lmq and is_lmq(group):
            return self._lmq_table.get((topic, group), NO_OFFSET)
        queues = self._table.get((topic, group))
        return NO_OFFSET if queues is None else queues.get(queue_id, NO_OFFSET)

    def committed(self) -> Iterator[tuple[str, str, Mapping[int, int]]]:
        """Yield group, topic and offset by queue id, without light queues."""
        for (topic, group), queues in self._table.items():
            yield group, topic, queues

    @property
    def queue_count(self) -> int:
        """The number of offsets that `committed` yields."""
        return self._queue_count

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which a group has committed offsets, without light queues."""
        return [topic for topic, name in self._table if name == group]

    def clone(self, group: str, to_group: str, topic: str) -> None:
        """Replace a group's offsets of one topic by those of `group`, if it has any.

        Raises: LimitReached when QUEUES_MAX are stored.
        """
        queues = self._table.get((topic, group))
        if queues is None:
            return
        replaced_count = len(self._table.get((topic, to_group), _NO_QUEUES))
        count = self._queue_count - replaced_count + len(queues)
        if count > max(QUEUES_MAX, self._queue_count):
            self._refused_count += 1
            raise LimitReached("queues with a committed offset", QUEUES_MAX)
        self._table[topic, to_group] = dict(queues)
        self._queue_count = count
        self.dirty = True

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have committed offsets in a topic, without light queues."""
        return [group for name, group in self._table if name == topic]

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """Return a copy of a group's offsets in a topic by queue id; a light queue has id 0."""
        if self._lmq and is_lmq(group):
            queue_offset = self._lmq_table.get((topic, group))
            return {} if queue_offset is None else {0: queue_offset}
        return dict(self._table.get((topic, group), _NO_QUEUES))

    def remove(self, group: str) -> None:
        """Forget every offset of a group; offsets in light queues stay, as in 4.9.3."""
        for topic in self.topics_of(group):
            self._queue_count -= len(self._table.pop((topic, group)))
            self.dirty = True

    def content(self) -> dict[str, object]:
        """Return a copy of the table in the shape of its file, which is that of code 43's body."""
        table = {f"{topic}@{group}": dict(queues) for (topic, group), queues in self._table.items()}
        content: dict[str, object] = {"offsetTable": table}
        if self._lmq:
            content = {
                "lmqOffsetTable": {f"{t}@{g}": offset for (t, g), offset in self._lmq_table.items()}
            } | content
        return content

    def snapshot(self) -> Callable[[], str]:
        """Copy the table; return a function that encodes the copy, on any thread."""
        self.dirty = False
        content = self.content()
        return lambda: dumps(content, pretty=True).decode()

    def load(self, text: str) -> None:
        """Replace the table by the contents of a file of wakelog or 4.9.3."""
        content = loads(text, entries_max=FILE_ENTRIES_MAX)
        self._table = {
            _split(name): {int(queue_id): to_long(offset) for queue_id, offset in queues.items()}
            for name, queues in (content.get("offsetTable") or {}).items()
        }
        self._lmq_table = {
            _split(name): to_long(offset)
            for name, offset in (content.get("lmqOffsetTable") or {}).items()
        }
        self._queue_count = sum(len(queues) for queues in self._table.values())
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
        assert self._queue_count == sum(len(queues) for queues in self._table.values())
        assert all(queue_id >= 0 for queues in self._table.values() for queue_id in queues)
        assert self._lmq or not self._lmq_table


def _split(name: str) -> tuple[str, str]:
    topic, _, group = name.rpartition("@")
    return topic, group
