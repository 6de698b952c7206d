"""Find messages other than by pulling: by place in the log, by key, by time.

Every result is checked to be a sound record. An offset from a message id is a number that any
client can make up, and 4.9.3 returns whatever bytes lie there.

Source: org.apache.rocketmq.store.DefaultMessageStore.lookMessageByOffset, selectOneMessageByOffset,
queryMessage, getOffsetInQueueByTime, getEarliestMessageTime, and
CommitLog.pickupStoreTimestamp (4.9.3).
"""

from typing import Final, NamedTuple

from wakelog.protocol.record import MessageRecord, decode_record
from wakelog.storage.index.index_service import IndexReader
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.record_check import CheckKind, RecordCheck, check_record
from wakelog.storage.log.record_walk import check_at
from wakelog.storage.read.readable import ReadableQueue
from wakelog.storage.read.reader import LogView

# How often a query tries again, further back in time, when the log has none of the index's places.
QUERY_ROUNDS_MAX: Final = 3

NOWAIT_BYTES_FIRST: Final = 4_096
"""Most records are shorter; copying no more than that takes half as long."""

NOWAIT_BYTES_MAX: Final = 16_384
"""A record that is longer is read in the pool, where copying it holds up no other request."""


class QueryResult(NamedTuple):
    """Records with a key of the requested hash, in ascending physical offset.

    Topic and key are not compared again: the client does that (fact 8).
    """

    frames: tuple[bytes, ...]
    physical_offsets: tuple[int, ...]
    index_last_update_timestamp_ms: int
    index_last_update_physical_offset: int


class Query:
    """Look-ups in one store. One thread at a time, like `Reader`; may wait for the disk."""

    def __init__(self, log: CommitLogReader, index: IndexReader) -> None:
        self._log = log
        self._index = index

    def record_bytes(
        self, physical_offset: int, view: LogView, size_bytes: int | None = None
    ) -> bytes | None:
        """Return the sound record at a place, None if there is none or its size differs."""
        record = self._sound(physical_offset, view)
        if record is None or size_bytes not in (None, len(record)):
            return None
        return record

    def message_at(
        self, physical_offset: int, view: LogView, size_bytes: int | None = None
    ) -> MessageRecord | None:
        """Decode the sound record at a place."""
        record = self.record_bytes(physical_offset, view, size_bytes)
        return None if record is None else decode_record(record)

    def message_at_nowait(self, physical_offset: int, view: LogView) -> MessageRecord | None:
        """Do what `message_at` does; None also if the record is long or the disk is needed."""
        if not view.min_physical_offset <= physical_offset < view.max_physical_offset:
            return None
        segment_end = self._log.segment_end(physical_offset)
        for length_max in (NOWAIT_BYTES_FIRST, NOWAIT_BYTES_MAX):
            end = min(physical_offset + length_max, view.max_physical_offset, segment_end)
            data = self._log.view(physical_offset, end - physical_offset, blocking=False)
            if data is None:
                return None
            check = check_record(
                data, 0, physical_offset, len(data), segment_end=segment_end, check_body=True
            )
            if check.kind is CheckKind.SOUND:
                return decode_record(data)
            if check.kind is not CheckKind.INCOMPLETE:
                return None
        return None

    def query_message(
        self, topic: str, key: str, count_max: int, view: LogView, *, begin_ms: int, end_ms: int
    ) -> QueryResult:
        """Find records by the hash of a key, stored within [begin_ms, end_ms] (fact 8)."""
        records: list[tuple[int, bytes]] = []
        last_timestamp_ms = last_physical_offset = 0
        for _ in range(QUERY_ROUNDS_MAX):
            found = self._index.query(topic, key, count_max, begin_ms, end_ms)
            if not found.physical_offsets:
                break
            last_timestamp_ms = found.last_update_timestamp_ms
            last_physical_offset = found.last_update_physical_offset
            places = sorted(found.physical_offsets)
            for place in places:
                record = self._sound(place, view)
                if record is not None:
                    records.append((place, record))
            first_ms = self.store_time(places[0], view)
            if records or first_ms < begin_ms:
                break
            end_ms = first_ms
        return QueryResult(
            tuple(record for _, record in records),
            tuple(place for place, _ in records),
            last_timestamp_ms,
            last_physical_offset,
        )

    def store_time(self, physical_offset: int, view: LogView) -> int:
        """Return the store time of the record at a place, -1 if there is none."""
        check = self._check(physical_offset, view, check_body=False)
        return check.store_timestamp_ms if check and check.kind is CheckKind.SOUND else -1

    def offset_by_time(self, queue: ReadableQueue, timestamp_ms: int, view: LogView) -> int:
        """Return the queue offset whose store time is nearest, by 4.9.3's rules (fact 49)."""
        return queue.queue.offset_by_time(
            timestamp_ms,
            end=queue.end(view.dispatched),
            min_queue_offset=queue.begin(view.min_physical_offset, view.dispatched),
            min_physical_offset=view.min_physical_offset,
            store_time=lambda place, _: self.store_time(place, view),
        )

    def close(self) -> None:
        """Close the index files."""
        self._index.close()

    def _sound(self, physical_offset: int, view: LogView) -> bytes | None:
        check = self._check(physical_offset, view, check_body=True)
        if check is None or check.kind is not CheckKind.SOUND:
            return None
        return self._log.read(physical_offset, check.size_bytes)

    def _check(
        self, physical_offset: int, view: LogView, *, check_body: bool
    ) -> RecordCheck | None:
        """Check the record at a place; None outside of the log."""
        if not view.min_physical_offset <= physical_offset < view.max_physical_offset:
            return None
        return check_at(
            self._log.read_span,
            physical_offset,
            view.max_physical_offset,
            segment_end=self._log.segment_end(physical_offset),
            check_body=check_body,
        )
