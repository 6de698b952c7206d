"""What a plan needs of one store: the log's end, queues, places of times, offsets of groups.

Consume queues give the answers. If there are none, or they end before the log, it is walked.
Consume queues are caches: an entry counts only if the record at its place agrees.

Invariants: files are only read; each answer is found once and kept; no descriptor outlives the
view.

Source: org.apache.rocketmq.store.DefaultMessageStore#getMinOffsetInQueue, #getMaxOffsetInQueue,
org.apache.rocketmq.broker.offset.ConsumerOffsetManager (4.9.3).
"""

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from itertools import islice, takewhile
from typing import Any, Final, NamedTuple

import numpy as np

from wakelog.broker.consumer_offsets import ConsumerOffsets
from wakelog.compiled.layout import (
    ENTRY_BYTES,
    GROUP,
    PHYSICAL_OFFSET,
    QUEUE_OFFSET,
    STORE_TIMESTAMP,
)
from wakelog.protocol.fastjson import FILE_ENTRIES_MAX, loads
from wakelog.protocol.record import CHECKED_HEADS
from wakelog.spark.errors import StoreUnreadable
from wakelog.spark.log_end import find_log_end
from wakelog.spark.plan import ReadRange
from wakelog.spark.records.column_walk import RecordWalk, Sound, adds_up
from wakelog.spark.stores import Segment, StoreLog, is_being_written, open_segment
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.durability.watermark import read_mark
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem, size_of
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.log.record_check import CheckKind, RecordCheck
from wakelog.storage.log.record_walk import check_at
from wakelog.storage.paths import parse_offset_name, parse_queue_id
from wakelog.storage.queue.consume_queue import ConsumeQueue, Places
from wakelog.storage.queue.entries import QueueEntry, first_not_below

WALKED_SEGMENTS_MAX: Final = 8
"""A log without queues is walked to cut it, up to this size; more segments make enough tasks."""
CHECKED_QUEUES_MAX: Final = 256
"""The largest queues are chosen among this many; each costs some reads."""
CUTTING_QUEUES_MAX: Final = 4
_HEAD: Final = CHECKED_HEADS[0]
"""Its first five numbers lie before the hosts, whose widths differ."""

Array = np.ndarray[Any, Any]
Queue = tuple[str, int]
"""Topic and queue id."""


class QueueRange(NamedTuple):
    """Queue offsets [begin, end) of the messages in the log."""

    begin: int
    end: int


class StoreView:
    """See the module. One query's view of one store."""

    def __init__(
        self,
        fs: FileSystem,
        store: StoreLog,
        *,
        known: int = 0,
        end: int | None = None,
    ) -> None:
        """Find the log's end.

        known: the end that an earlier view found. end: of the log for this query; None to find it.
        Raises: StoreUnreadable.
        """
        self.store = store
        self._fs = fs
        self._open_files = OpenFiles()
        if end is not None:
            self.end = end
            return
        try:
            durable = self._durable_end()
            self.end = max(durable, known) if durable else self._written_end(known)
        except (OSError, StoreError) as error:
            raise StoreUnreadable(f"the log of {store.broker} cannot be read: {error}") from error

    def topics(self) -> frozenset[str] | None:
        """Return the topics of the store, None if it has its log alone."""
        paths = self.store.paths
        if paths is None:
            return None
        queues = self._names(paths.consume_queue_root)
        configured = self._configured_topics()
        return None if queues is None and not configured else configured | frozenset(queues or ())

    def queues(self, topic: str) -> list[int]:
        """Return the queues of a topic that have a consume queue."""
        if self.store.paths is None:
            return []
        names = self._names(f"{self.store.paths.consume_queue_root}/{topic}") or []
        return sorted(found for found in map(parse_queue_id, names) if found is not None)

    def queue_range(self, topic: str, queue_id: int, wanted: int) -> QueueRange | None:
        """Return the messages that a queue has, None if it never had any.

        wanted: an offset; if the consume queue ends before it, the log is walked.
        """
        queue = self._consume_queue(topic, queue_id)
        if queue is None:
            if self._largest_queues and wanted == 0:
                return None
            return self._surveyed.get((topic, queue_id))
        with closing(queue):
            end = queue.end_of_written()
            begin = queue.min_queue_offset(self.store.begin, end, current=queue.first_queue_offset)
        if wanted > end and (found := self._surveyed.get((topic, queue_id))) is not None:
            return QueueRange(min(begin, found.begin), max(end, found.end))
        return QueueRange(begin, end)

    def place_of(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int] | None:
        """Return begin and end of a message in the log, None without a correct queue entry."""
        queue = self._consume_queue(topic, queue_id)
        if queue is None:
            return None
        with closing(queue):
            entry = queue.entry(queue_offset)
        if entry is None or entry.is_padding or not self._agrees(entry, queue_id, queue_offset):
            return None
        return _span(entry)

    def place_of_time(self, timestamp_ms: int, step_ms: int) -> int | None:
        """Return the begin of the first record of this time or later, None if there is none.

        step_ms: how far the clock may have stepped back; the search begins so much earlier.
        """
        parts = self.store.parts(self.store.begin, self.end)
        begins = ((segment.begin, self._first_time(segment, end)) for segment, _, end in parts)
        known = ((begin, time_ms) for begin, time_ms in begins if time_ms is not None)
        earlier = takewhile(lambda found: found[1] < timestamp_ms - step_ms, known)
        first = max((begin for begin, _ in earlier), default=self.store.begin)
        for walk in self.walk_records(first, self.end):
            numbers = walk.numbers[: walk.count]
            found = np.flatnonzero(numbers[:, STORE_TIMESTAMP] >= timestamp_ms)
            if len(found):
                return int(numbers[found[0], PHYSICAL_OFFSET])
        return None

    def committed(self, group: str) -> dict[Queue, int]:
        """Return the offsets that a group has committed. Raises: StoreUnreadable."""
        if self.store.paths is None:
            return {}
        offsets = ConsumerOffsets()
        self._config("consumerOffset", offsets.load)
        return {
            (topic, queue_id): offset
            for name, topic, queues in offsets.committed()
            for queue_id, offset in queues.items()
            if name == group and offset >= 0
        }

    def record_begins(self, part: ReadRange, places: Sequence[int]) -> list[int]:
        """Return the begin of a record after each place in a range; fewer may be found.

        Consume queues give it. Without any, a short log is walked.
        """
        if self._largest_queues:
            return self._proved_begins(part, places)
        if len(self.store.segments) > WALKED_SEGMENTS_MAX:
            return []
        return self.walked_begins(part, places)

    def _proved_begins(self, part: ReadRange, places: Sequence[int]) -> list[int]:
        """Return for each place the first sound record at or after it in the queues."""
        found: list[int] = []
        file = open_segment(self._fs, part.segment)
        if file is None:
            return found
        with closing(file):
            for place in places:
                after = sorted({_begin_after(queue, place) for queue in self._largest_queues})
                inside = (x for x in after if part.begin <= x < part.end)
                found += islice((x for x in inside if adds_up(file, x, part.end)), 1)
        return found

    def walked_begins(self, part: ReadRange, places: Sequence[int]) -> list[int]:
        """Return the begin of the next record for each place in a range, by a walk."""
        found: list[int] = []
        wanted = list(places)
        for walk in self._walked(part.segment, part.begin, part.end):
            offsets = walk.numbers[: walk.count, PHYSICAL_OFFSET]
            while wanted and wanted[0] <= offsets[-1]:
                place = int(np.searchsorted(offsets, wanted.pop(0)))
                found.append(int(offsets[place]))
            if not wanted:
                break
        return found

    def nth_records(self, part: ReadRange, count: int) -> list[int]:
        """Return the begin of every `count`th record of a range, without its first record."""
        found: list[int] = []
        before = 0
        for walk in self._walked(part.segment, part.begin, part.end):
            first = -before % count
            offsets = walk.numbers[first : walk.count : count, PHYSICAL_OFFSET]
            found += offsets.tolist()
            before += walk.count
        return found[1:]

    def walk_records(self, begin: int, end: int) -> Iterator[RecordWalk]:
        """Walk [begin, end) of the log; each yield has the walk's columns filled once."""
        for segment, low, high in self.store.parts(begin, end):
            yield from self._walked(segment, low, high)

    def _walked(self, segment: Segment, begin: int, end: int) -> Iterator[RecordWalk]:
        file = open_segment(self._fs, segment)
        if file is None:
            return  # the task that would read it reports it
        with closing(file):
            for step in self._walk.steps(file, begin, end):
                if isinstance(step, Sound):
                    yield self._walk

    @cached_property
    def _walk(self) -> RecordWalk:
        return RecordWalk()

    @cached_property
    def _surveyed(self) -> dict[Queue, QueueRange]:
        """The queues of all records, with their offsets. It reads the whole log."""
        survey: dict[Queue, QueueRange] = {}
        for walk in self.walk_records(self.store.begin, self.end):
            for queue, found in _queue_ranges(walk).items():
                known = survey.get(queue, found)
                survey[queue] = QueueRange(min(known.begin, found.begin), max(known.end, found.end))
        return survey

    def _consume_queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Open the files of a queue; None without files whose size fits entries."""
        if self.store.paths is None:
            return None
        try:
            directory = self.store.paths.consume_queue(topic, queue_id)
            names = [x for x in self._names(directory) or [] if parse_offset_name(x) is not None]
            file_bytes = size_of(self._fs, f"{directory}/{names[0]}") if names else 0
            if not file_bytes or file_bytes % ENTRY_BYTES:
                return None
            queue = ConsumeQueue(
                self._fs, directory, file_bytes=file_bytes, open_files=self._open_files
            )
            queue.refresh()
        except (StoreError, OSError):
            return None
        return queue

    def _written_end(self, known: int) -> int:
        known, repeated = known or self._dispatched(), known > 0
        return find_log_end(self._fs, self.store, known=known, repeated=repeated)

    def _durable_end(self) -> int:
        """Return the durable watermark of a broker that runs now, 0 without one.

        With a seal the file is an old one, and the broker that runs now is no wakelog broker.
        """
        paths = self.store.paths
        if paths is None or not is_being_written(self.store):
            return 0
        mark = read_mark(self._fs, paths.watermark)
        inside = self.store.begin <= mark.physical_offset <= self.store.files_end
        return mark.physical_offset if mark.seal is None and inside else 0

    def _dispatched(self) -> int:
        """Return the end of the last sound record in the largest queues, 0 if there is none."""
        ends = [0]
        for queue in self._largest_queues:
            entry = queue.entry(queue.end_of_written() - 1)
            begin, end = (0, 0) if entry is None or entry.is_padding else _span(entry)
            for segment, low, high in self.store.parts(begin, end):
                if (low, high) == (begin, end):
                    check = self._sound_at(segment, begin, segment.end, check_body=True)
                    if check is not None and check.size_bytes == end - begin:
                        ends.append(end)
        return max(ends)

    def _sound_at(
        self, segment: Segment, begin: int, end: int, *, check_body: bool = False
    ) -> RecordCheck | None:
        """Return the check of the sound record at `begin`, None if there is none up to `end`."""
        file = open_segment(self._fs, segment)
        if file is None:
            return None
        with closing(file):
            check = check_at(file.read, begin, end, segment_end=segment.end, check_body=check_body)
        return check if check.kind is CheckKind.SOUND else None

    @cached_property
    def _largest_queues(self) -> list[ConsumeQueue]:
        """The consume queues with the most entries among the first of the store."""
        paths = self.store.paths
        topics = self._names(paths.consume_queue_root) if paths else None
        names = ((topic, queue_id) for topic in topics or () for queue_id in self.queues(topic))
        queues = [self._consume_queue(*name) for name in islice(names, CHECKED_QUEUES_MAX)]
        known = [queue for queue in queues if queue is not None]
        known.sort(key=lambda queue: queue.end_of_written(), reverse=True)
        largest = known[:CUTTING_QUEUES_MAX]
        _close(known[CUTTING_QUEUES_MAX:])
        # A stream makes a view for each micro-batch, and its process lives long.
        weakref.finalize(self, _close, largest)
        return largest

    def _agrees(self, entry: QueueEntry, queue_id: int, queue_offset: int) -> bool:
        """Return whether the record at an entry's place is the one that it means."""
        place, end = _span(entry)
        for segment, *_ in self.store.parts(place, min(place + 1, self.end)):
            file = open_segment(self._fs, segment)
            if file is not None:
                with closing(file):
                    head = file.read(place, _HEAD.size).ljust(_HEAD.size, b"\0")
                size, _, *stated = _HEAD.unpack(head)[:5]
                return [size, *stated] == [end - place, queue_id, queue_offset, place]
        return False

    def _first_time(self, segment: Segment, end: int) -> int | None:
        """Return the store time of the first record of a segment, None if it is damaged."""
        check = self._sound_at(segment, segment.begin, end)
        return None if check is None else check.store_timestamp_ms

    def _configured_topics(self) -> frozenset[str]:
        found: set[str] = set()
        self._config("topics", lambda text: found.update(_topic_names(text)))
        return frozenset(found)

    def _config(self, name: str, decode: Callable[[str], None]) -> None:
        assert self.store.paths is not None
        try:
            ConfigFiles(self._fs, self.store.paths.config).load(name + ".json", decode)
        except (StoreError, KeyError, TypeError) as error:
            raise StoreUnreadable(f"{name}.json of {self.store.broker}: {error}") from error

    def _names(self, directory: str) -> list[str] | None:
        try:
            return self._fs.list_directory(directory)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _close(queues: Sequence[ConsumeQueue]) -> None:
    for queue in queues:
        queue.close()


def _span(entry: QueueEntry) -> tuple[int, int]:
    return entry.physical_offset, entry.physical_offset + entry.size_bytes


def _begin_after(queue: ConsumeQueue, physical_offset: int) -> int:
    """Return the begin of the queue's first record at or after a place, -1 if there is none."""
    begin, end = queue.first_queue_offset, queue.end_of_written()
    found = first_not_below(Places(queue), begin, end, physical_offset)
    entry = queue.entry(found) if found < end else None
    return -1 if entry is None else entry.physical_offset


def _queue_ranges(walk: RecordWalk) -> dict[Queue, QueueRange]:
    """Return the queues of a walk's records, with the range of their offsets."""
    numbers = walk.numbers[: walk.count]
    found = {}
    for group, (topic, queue_id) in enumerate(walk.queues()):
        offsets = numbers[numbers[:, GROUP] == group, QUEUE_OFFSET]
        queue = topic.decode("utf-8", "replace"), queue_id
        found[queue] = QueueRange(int(offsets.min()), int(offsets.max()) + 1)
    return found


def _topic_names(text: str) -> Iterable[str]:
    table: Iterable[str] = loads(text, entries_max=FILE_ENTRIES_MAX)["topicConfigTable"]
    return table
