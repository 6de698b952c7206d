"""A message store in memory that keeps the contract of `wakelog.storage.message_store`.

Messages are readable as soon as they are put, unless `lagging` is set: then they wait for
`dispatch`. Any put can be refused, any read can be made to need the disk.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from wakelog.protocol.java import LONG_MAX
from wakelog.protocol.record import MessageRecord, decode_record, encode_record
from wakelog.storage.durability.deleted_topics import QueueRemoval
from wakelog.storage.errors import LacksVerdicts, StoreError
from wakelog.storage.file_system import DiskUsage
from wakelog.storage.log.append import MessageDraft, PutResult, PutStatus
from wakelog.storage.log.encoded_batch import EncodedBatch
from wakelog.storage.message_store import NO_QUEUES
from wakelog.storage.paths import check_topic_name
from wakelog.storage.queue.consume_queue_ext import ExtensionUnit
from wakelog.storage.read.query import QueryResult
from wakelog.storage.read.reader import GetRequest, GetResult, GetStatus
from wakelog.storage.read.recent import RecentQueue
from wakelog.storage.recovery.quarantine import Quarantined

MatchUnit = Callable[[int, bytes], bool]


@dataclass
class Stored:
    """One message where it lies."""

    draft: MessageDraft
    record: bytes
    physical_offset: int
    queue_offset: int
    tags_code: int


class FakeRecovery(NamedTuple):
    """What a broker asks of the report."""

    last_record: int = -1


@dataclass
class Queue:
    """One queue: what was put, what of it is readable, what of it is gone."""

    messages: list[Stored] = field(default_factory=list)
    readable: int = 0
    begin: int = 0


class NothingRecent:
    """All messages are in the queues, or wait for Reput."""

    def __init__(self, store: "FakeStore") -> None:
        self._store = store

    def shows_all(self, readable: int) -> bool:
        return self._store.dispatched >= readable

    def find(self, topic: str, queue_id: int) -> RecentQueue | None:
        return None


class FakeStore:
    """Log and queues as lists."""

    def __init__(self) -> None:
        self.queues_by_name: dict[tuple[str, int], Queue] = {}
        self.log: dict[int, Stored] = {}
        self.end = 0
        self.dispatched = 0
        self.recent = NothingRecent(self)
        self.refusal: PutStatus | None = None
        self.cause: str | None = None
        self.recovery = FakeRecovery()
        self.error: StoreError | None = None
        self.lagging = False
        self.cold = False
        self.held_end = LONG_MAX
        self.far_behind = False
        self.fall_behind_bytes = 0
        self.missing_entries = False
        self.tags_code: Callable[[str], int] = lambda properties: 0
        self.asked: list[tuple[str, int, int]] = []
        self.asked_by_bytes = self.asked_large = False  # the last get
        self.ends_of_deleted: dict[str, int] = {}
        self.extension_units: dict[int, ExtensionUnit] = {}
        self.read_count_max = self.verdicts_at_once_max = 1_000_000
        self.bitmaps: dict[int, bytes] = {}  # by physical offset: these messages have units
        self.usages: dict[str, DiskUsage] = {}
        self.kept_aside = Quarantined(0, 0)
        names = ("put_failed_count", "get_found_count", "get_missed_count", "get_message_count")
        self.counts = dict.fromkeys((*names, "min_physical_offset"), 0)
        self.query_result = QueryResult((), (), 0, 0)
        self.removals: list[tuple[QueueRemoval, bool]] = []
        self.queries: list[tuple[str, str, int, int, int]] = []

    @property
    def min_physical_offset(self) -> int:
        """Where the log begins."""
        return self.counts["min_physical_offset"]

    @property
    def max_physical_offset(self) -> int:
        """Where the log ends."""
        return self.end

    def put_message(self, draft: MessageDraft, now_ms: int) -> PutResult:
        if self.error is not None:
            raise self.error
        if self.refusal is not None:
            return PutResult(self.refusal, cause=self.cause)
        queue = self.queues_by_name.setdefault((draft.topic, draft.queue_id), Queue())
        record = encode_record(
            queue_id=draft.queue_id,
            flag=draft.flag,
            queue_offset=len(queue.messages),
            physical_offset=self.end,
            sys_flag=draft.sys_flag,
            born_timestamp_ms=draft.born_timestamp_ms,
            born_host=draft.born_host,
            store_timestamp_ms=now_ms,
            store_host=draft.store_host,
            reconsume_times=draft.reconsume_times,
            prepared_transaction_offset=draft.prepared_transaction_offset,
            body=draft.body,
            topic=draft.topic,
            properties=draft.properties_text.encode(),
        )
        tags_code = self.tags_code(draft.properties_text)
        stored = Stored(draft, record, self.end, len(queue.messages), tags_code)
        self.log[self.end] = stored
        self.end += len(record)
        queue.messages.append(stored)
        if not self.lagging:
            queue.readable = len(queue.messages)
        return PutResult(
            PutStatus.PUT_OK,
            stored.physical_offset,
            len(record),
            stored.queue_offset,
            now_ms,
            (stored.physical_offset,),
        )

    def put_batch(self, batch: EncodedBatch, now_ms: int) -> PutResult:
        batch.stamp(0, 0, now_ms)
        results = []
        position = 0
        while position < len(batch.records):
            record = decode_record(bytes(batch.records[position:]))
            draft = msgspec.structs.replace(
                batch.outer,
                flag=record.flag,
                body=bytes(record.body),
                properties_text=record.properties_text,
            )
            results.append(self.put_message(draft, now_ms))
            position += record.size_bytes
        if results[0].status is not PutStatus.PUT_OK:
            return results[0]
        return results[0]._replace(
            size_bytes=sum(result.size_bytes for result in results),
            physical_offsets=tuple(result.physical_offset for result in results),
        )

    def dispatch(self) -> None:
        """Let readers see all that was put."""
        for queue in self.queues_by_name.values():
            queue.readable = len(queue.messages)

    def _unit_matches(self, stored: Stored, match_unit: MatchUnit | None) -> bool:
        bitmap = self.bitmaps.get(stored.physical_offset)
        if bitmap is None or match_unit is None:
            return True
        return match_unit(decode_record(stored.record).store_timestamp_ms, bitmap)

    def get_message(self, request: GetRequest) -> GetResult | None:
        topic, queue_id, queue_offset, count_max = request[:4]
        self.asked_by_bytes, self.asked_large = request.by_bytes, request.is_large
        self.asked.append((topic, queue_id, queue_offset))
        if self.cold and not request.blocking:
            return None
        queue = self.queues_by_name.get((topic, queue_id), Queue())
        begin, end = queue.begin, queue.readable
        status, next_offset = self._position(queue, queue_offset)
        if status is not GetStatus.FOUND:
            return GetResult(status, next_offset, begin, end, suggest_slave=self.far_behind)
        end = min(queue.readable, queue_offset + self.read_count_max)
        wanted = [
            m
            for m in queue.messages[queue_offset:end]
            if (request.codes is None or m.tags_code in request.codes)
            and self._unit_matches(m, request.match_unit)
            and (request.match_record is None or request.match_record(m.record))
        ]
        if request.verdicts is not None:
            left = [m for m in wanted if m.physical_offset not in request.verdicts]
            if left := left[: self.verdicts_at_once_max]:
                raise LacksVerdicts({m.physical_offset: m.record for m in left})
            wanted = [m for m in wanted if request.verdicts[m.physical_offset]]
        taken = wanted[: max(count_max, 1)]
        if not taken:
            return GetResult(GetStatus.NO_MATCHED_MESSAGE, end, begin, queue.readable)
        last = taken[-1].queue_offset + 1 if len(taken) < len(wanted) else end
        return GetResult(
            GetStatus.FOUND,
            last,
            begin,
            end,
            tuple(m.record for m in taken),
            len(taken),
            sum(len(m.record) for m in taken),
            taken[-1].physical_offset,
            suggest_slave=self.far_behind,
            fall_behind_bytes=self.fall_behind_bytes,
        )

    def message_at(
        self, physical_offset: int, size_bytes: int | None = None, *, sees_held: bool = False
    ) -> MessageRecord | None:
        stored = self.log.get(physical_offset)
        if stored is None or (physical_offset >= self.held_end and not sees_held):
            return None
        return decode_record(stored.record)

    def message_at_nowait(
        self, physical_offset: int, *, sees_held: bool = False
    ) -> MessageRecord | None:
        return None if self.cold else self.message_at(physical_offset, sees_held=sees_held)

    def record_bytes(self, physical_offset: int, size_bytes: int | None = None) -> bytes | None:
        stored = self.log.get(physical_offset)
        return None if stored is None else stored.record

    def query_message(
        self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int
    ) -> QueryResult:
        self.queries.append((topic, key, count_max, begin_ms, end_ms))
        return self.query_result

    @property
    def light_queue_count(self) -> int:
        return sum(topic.startswith("%LMQ%") for topic, _ in self.queues_by_name)

    def max_queue_offset(self, topic: str, queue_id: int) -> int:
        check_topic_name(topic)
        return self.queues_by_name.get((topic, queue_id), Queue()).readable

    def max_queue_offset_nowait(self, topic: str, queue_id: int) -> int | None:
        return None if self.cold else self.max_queue_offset(topic, queue_id)

    def min_queue_offset(self, topic: str, queue_id: int) -> int:
        return self.queues_by_name.get((topic, queue_id), Queue()).begin

    def min_queue_offset_nowait(self, topic: str, queue_id: int) -> int | None:
        return None if self.cold else self.min_queue_offset(topic, queue_id)

    def in_memory_at(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        return not self.far_behind

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        queue = self.queues_by_name.get((topic, queue_id), Queue())
        times = [abs(self._time(m) - timestamp_ms) for m in queue.messages[: queue.readable]]
        return times.index(min(times)) if times else 0

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        return self.store_time_at(topic, queue_id, self.min_queue_offset(topic, queue_id))

    def store_time_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        queue = self.queues_by_name.get((topic, queue_id), Queue())
        return (
            self._time(queue.messages[queue_offset]) if 0 <= queue_offset < queue.readable else -1
        )

    def consume_queue_entries(
        self, topic: str, queue_id: int, begin: int, count_max: int
    ) -> list[tuple[int, int, int]]:
        queue = self.queues_by_name[topic, queue_id]
        found = queue.messages[begin : queue.readable][:count_max]
        return [(m.physical_offset, len(m.record), m.tags_code) for m in found]

    def extension_unit(self, topic: str, queue_id: int, address: int) -> ExtensionUnit | None:
        return self.extension_units.get(address)

    transient_pool = None

    def earliest_message_time(self) -> int:
        return decode_record(self.log[0].record).store_timestamp_ms if self.log else -1

    def disk_usages(self) -> dict[str, DiskUsage]:
        return self.usages

    def quarantined(self) -> Quarantined:
        return self.kept_aside

    def statistics(self) -> dict[str, int]:
        return self.counts | {
            "max_physical_offset": self.end,
            "appended_offset": self.end,
            "dispatched": self.dispatched,
            "put_count": len(self.log),
            "put_bytes": self.end,
        }

    def queues(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for topic, queue_id in self.queues_by_name:
            found.setdefault(topic, []).append(queue_id)
        return found

    def queues_beyond(self, topic: str, queue_count: int) -> dict[int, int]:
        return {
            key[1]: queue.readable
            for key, queue in sorted(self.queues_by_name.items())
            if key[0] == topic and key[1] >= queue_count and queue.readable > queue.begin
        }

    def expired_queues(self) -> dict[tuple[str, int], int]:
        return {
            key: len(queue.messages)
            for key, queue in self.queues_by_name.items()
            if queue.messages and queue.begin == len(queue.messages)
        }

    def begin_removal(
        self, topics: Iterable[str], queues: Mapping[tuple[str, int], int] = NO_QUEUES
    ) -> QueueRemoval | None:
        named = tuple(topic for topic in topics if topic in self.queues())
        single = tuple(
            key for key, end in queues.items() if len(self.queues_by_name[key].messages) == end
        )
        return QueueRemoval(named, single, self.end) if named or single else None

    def end_removal(self, removal: QueueRemoval, *, removed: bool) -> None:
        self.removals.append((removal, removed))
        if removed:
            for key in list(self.queues_by_name):
                if key[0] in removal.topics or key in removal.queues:
                    del self.queues_by_name[key]

    def deleted_ends(self) -> dict[str, int]:
        return self.ends_of_deleted

    def messages(self, topic: str, queue_id: int = 0) -> list[MessageRecord]:
        """Return the records of a queue, decoded."""
        queue = self.queues_by_name.get((topic, queue_id), Queue())
        return [decode_record(m.record) for m in queue.messages]

    def _position(self, queue: Queue, queue_offset: int) -> tuple[GetStatus, int]:
        """Return the status and next offset; FOUND means to go on."""
        begin, end = queue.begin, queue.readable
        if end == 0:
            return GetStatus.NO_MESSAGE_IN_QUEUE, 0
        if queue_offset < begin:
            return GetStatus.OFFSET_TOO_SMALL, begin
        if queue_offset == end:
            return GetStatus.OFFSET_OVERFLOW_ONE, queue_offset
        if queue_offset > end:
            return GetStatus.OFFSET_OVERFLOW_BADLY, 0 if begin == 0 else end
        if self.missing_entries:
            return GetStatus.OFFSET_FOUND_NULL, end
        return GetStatus.FOUND, end

    def _time(self, stored: Stored) -> int:
        return decode_record(stored.record).store_timestamp_ms
