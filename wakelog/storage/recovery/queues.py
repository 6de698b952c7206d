"""Consume queues during recovery: cut entries without a record, and find where each queue ends.

`QueueRepair` works on the queue files before Reput opens any. It makes no missing entry. Reput does
that, from the place in the recovery report. `QueueEnds` gets the next queue offsets from records.
So the commit log can number new messages before Reput has caught up. 4.9.3 waits for Reput.

Source: org.apache.rocketmq.store.DefaultMessageStore.loadConsumeQueue, recoverConsumeQueue,
truncateDirtyLogicFiles, recoverTopicQueueTable, MultiDispatch (4.9.3).
"""

from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from posixpath import dirname, join
from types import MappingProxyType

from wakelog.protocol.properties import INNER_MULTI_DISPATCH, decode_properties
from wakelog.protocol.sys_flag import CONSUMED_TYPES, TRANSACTION_MASK
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.deleted_topics import remove_if_empty, remove_units
from wakelog.storage.durability.marks import FailedSyncMark
from wakelog.storage.errors import IllegalName
from wakelog.storage.file_system import FileSystem, names_in
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.log.multi_dispatch import multi_targets
from wakelog.storage.log.queue_offsets import QueueKey
from wakelog.storage.log.record_check import Buffer
from wakelog.storage.paths import StorePaths, parse_queue_id
from wakelog.storage.queue.consume_queue_writer import ConsumeQueueWriter
from wakelog.storage.queue.quick_end import QuickEnd, quick_end

NO_TOPICS: Mapping[str, int] = MappingProxyType({})
_MULTI_DISPATCH_BYTES = INNER_MULTI_DISPATCH.encode()


class QueueRepair:
    """Every consume queue of one store.

    A queue that is plainly as it was gets a short look (`quick_end`); the others are opened as
    their writer does, checked and synced. While those are cut there is a mark, because the next
    process would see a cut that was not synced, and take it for the queue as it was.
    """

    def __init__(self, fs: FileSystem, config: StoreConfig) -> None:
        """Read nothing yet."""
        self._fs, self._config, self._paths = fs, config, config.paths
        self._open_files = OpenFiles()
        self._mark = FailedSyncMark(fs, config.paths)
        self._ends: dict[QueueKey, QuickEnd] = {}
        self._queues: dict[QueueKey, ConsumeQueueWriter] = {}
        self._synced: set[str] = set()
        self._after_crash = True
        self._durable = 0
        self._is_marked = False

    def cut_unwritten(self, *, after_crash: bool, durable: int = 0) -> None:
        """Cut each queue after its last written entry; see `ConsumeQueueWriter.recover`."""
        self._after_crash, self._durable = after_crash, durable
        known = durable if after_crash else None
        for key in list_queues(self._fs, self._paths):
            end = None
            if known != 0:
                directory = self._paths.consume_queue(*key)
                end = quick_end(self._fs, directory, self._config.consume_queue_bytes, known)
            if end is None:
                self._open(key)
            else:
                self._ends[key] = end

    def check_each(self) -> None:
        """Open, check and sync the queues too that seemed to be as they were."""
        for key in list(self._ends):
            self._open(key)

    @property
    def without_entries(self) -> dict[QueueKey, int]:
        """Queues that have files but no entries, with the queue offset at which each begins."""
        found = ((key, queue.begin_without_entries) for key, queue in self._queues.items())
        return {key: begin for key, begin in found if begin is not None}

    def resolve_unused(self, used: Container[QueueKey], log_begin: int) -> None:
        """Deal with queues without entries that no record of the whole log belongs to.

        They have lost nothing; without this each start would search the log for their records. A
        queue that begins at 0 never had an entry and is deleted. The records of one that begins
        higher have expired: it keeps its numbers. Raises: StoreFailed, StoreFull.
        """
        for key, begin in self.without_entries.items():
            if key in used:
                continue
            if begin == 0:
                self._queues.pop(key).delete()
            elif log_begin > 0:
                self._queues[key].mark_expired(log_begin)

    def end_removals(self, deleted: Mapping[str, int]) -> None:
        """Remove what an interrupted deletion left of topics: see `deleted_topics.py`.

        Queues of the same names with later records were made again, and stay. Raises: StoreFailed.
        """
        for key, (max_physical_offset, _) in self._positions():
            if max_physical_offset <= deleted.get(key[0], -2):
                self._open(key)
                self._queues.pop(key).delete()
                remove_if_empty(self._fs, dirname(self._paths.consume_queue(*key)))
                remove_units(self._fs, self._paths.consume_queue_extension(*key))

    def cut_at(self, log_end: int) -> tuple[QueueKey, ...]:
        """Remove entries of records at or above the log's end; return the queues that had some."""
        for key in [key for key, end in self._ends.items() if end.last.physical_offset >= log_end]:
            self._open(key)
        return tuple(key for key, queue in self._queues.items() if queue.truncate_physical(log_end))

    @property
    def max_physical_offset(self) -> int:
        """How far dispatch came, as the queues say; -1 without entries. 4.9.3 resumes there."""
        return max((physical_offset for _, (physical_offset, _) in self._positions()), default=-1)

    def next_offsets(self, ends: dict[QueueKey, int]) -> dict[QueueKey, int]:
        """Return the next queue offset of each queue, by its entries and by the log's records."""
        table = {key: queue_offset for key, (_, queue_offset) in self._positions()}
        for key, next_offset in ends.items():
            # An entry whose record is damaged still takes its place.
            table[key] = max(next_offset, table.get(key, 0))
        return table

    def on_durable(self) -> None:
        """Remove the mark: every cut was synced."""
        if self._is_marked:
            self._mark.clear()
            self._is_marked = False

    def close(self) -> None:
        """Close the queues' files."""
        for queue in self._queues.values():
            queue.close()

    def _positions(self) -> list[tuple[QueueKey, tuple[int, int]]]:
        """Return the end of the last record and the next queue offset of each queue."""
        quick = [(key, (end.max_physical_offset, end[0])) for key, end in self._ends.items()]
        return quick + [
            (key, (queue.max_physical_offset, queue.max_queue_offset))
            for key, queue in self._queues.items()
        ]

    def _open(self, key: QueueKey) -> None:
        """Look closer at a queue, unless that was done; it is cut after its last entry."""
        if key in self._queues:
            return
        if not self._is_marked and (self._durable or not self._after_crash):
            self._mark.set()
            self._is_marked = True
        self._ends.pop(key, None)
        queue = self._queues[key] = ConsumeQueueWriter(
            self._fs,
            self._paths.consume_queue(*key),
            file_bytes=self._config.consume_queue_bytes,
            open_files=self._open_files,
            make_file=_no_file,
        )
        queue.recover(after_crash=self._after_crash, durable=self._durable, synced=self._synced)


class QueueEnds:
    """The last queue offset of every queue, from sound records in log order."""

    __slots__ = ("_deleted", "_enable_lmq", "_first", "_multi_dispatch", "_next")

    def __init__(
        self,
        *,
        enable_multi_dispatch: bool,
        enable_lmq: bool,
        deleted: Mapping[str, int] = NO_TOPICS,
    ) -> None:
        """Start without any queue; `deleted` as in `deleted_topics.py`."""
        self._deleted = {topic.encode(): end for topic, end in deleted.items()}
        self._multi_dispatch = enable_multi_dispatch
        self._enable_lmq = enable_lmq
        self._first: dict[tuple[bytes, int], tuple[int, int]] = {}
        self._next: dict[tuple[bytes, int], int] = {}

    def note(
        self,
        topic: bytes,
        queue_id: int,
        queue_offset: int,
        physical_offset: int,
        sys_flag: int,
        properties: Buffer,
    ) -> None:
        """Count the next record of the log; a later record of a queue replaces earlier ones."""
        if sys_flag & TRANSACTION_MASK not in CONSUMED_TYPES:
            return
        self._count((topic, queue_id), queue_offset, physical_offset)
        if self._multi_dispatch and _MULTI_DISPATCH_BYTES in (text := bytes(properties)):
            for target in multi_targets(
                decode_properties(text.decode("utf-8", "replace")),
                queue_id,
                enable_lmq=self._enable_lmq,
            ):
                if target.queue_offset >= 0:  # dispatch refuses others too
                    key = target.topic.encode(), target.queue_id
                    self._count(key, target.queue_offset, physical_offset)

    def table(self) -> dict[QueueKey, int]:
        """Return the next queue offset of each (topic, queue id) that was seen."""
        return {
            (topic.decode("utf-8", "replace"), queue_id): next_offset
            for (topic, queue_id), next_offset in self._next.items()
        }

    def first(self, key: QueueKey) -> tuple[int, int] | None:
        """Return queue offset and place of a queue's first record that was seen, None without one.

        A topic that was deleted and made again restarts its numbers: the first after that counts.
        """
        topic, queue_id = key
        return self._first.get((topic.encode(), queue_id))

    def _count(self, key: tuple[bytes, int], queue_offset: int, physical_offset: int) -> None:
        if self._deleted and physical_offset < self._deleted.get(key[0], 0):
            return
        if self._next.get(key) != queue_offset:
            self._first[key] = queue_offset, physical_offset
        self._next[key] = queue_offset + 1


def list_queues(fs: FileSystem, paths: StorePaths) -> Iterator[QueueKey]:
    """Yield topic and queue id of every consume queue directory; skip other names."""
    root = paths.consume_queue_root
    for topic in names_in(fs, root):
        for queue_id in list_queue_ids(fs, paths, topic):
            yield topic, queue_id


def list_queue_ids(fs: FileSystem, paths: StorePaths, topic: str) -> Iterator[int]:
    """Yield the id of every consume queue directory of a topic; skip other names."""
    for name in names_in(fs, join(paths.consume_queue_root, topic)):
        queue_id = parse_queue_id(name)
        with suppress(IllegalName):
            if queue_id is not None:
                paths.consume_queue(topic, queue_id)
                yield queue_id


def _no_file(path: str, size_bytes: int) -> None:
    raise AssertionError(f"recovery makes no queue file: {path}, {size_bytes} bytes")
