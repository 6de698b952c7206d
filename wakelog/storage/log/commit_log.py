"""The commit log: the one place where messages are appended, by one process, in one thread.

`append` encodes a record at the log's end and keeps it. `write_pending`, called once a turn, writes
all kept records with one system call a file. No lock is needed: the physical offset, the queue
offset and the store time are known when the record is encoded. No response may leave before
`write_pending` returned.

Invariants:
- files.min_offset <= appended_offset <= end_offset; bytes between the last two are pending.
- Bytes of the log are written once, in order, by this object alone.
- After a failed write the log takes no message until the next recovery: what the disk holds above
  `appended_offset` is unknown.
- Store times never decrease within a segment, so that a search by time can bisect.
- What is placed, and a blank after it, has blocks reserved in its segment, also while a transient
  pool has it. So neither a write nor a commit meets a full disk.

Source: org.apache.rocketmq.store.CommitLog.asyncPutMessage, asyncPutMessages (4.9.3). Here
the blank is written only after the next segment was obtained. So a full disk leaves the log as it
was, and appends succeed again as soon as space is freed.
"""

from array import array
from collections.abc import Sequence
from posixpath import basename, dirname
from typing import Protocol

from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.properties import INNER_MULTI_DISPATCH, PROPERTIES_BYTES_MAX
from wakelog.protocol.record import BLANK_BYTES, encode_blank
from wakelog.protocol.send_run import PLACED_COUNT, QUEUE_COLUMNS, LogRoom, RunRules, SendRun
from wakelog.protocol.sys_flag import CONSUMED_TYPES, TRANSACTION_MASK
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import IllegalName, NotWriteable, StoreError, StoreFailed, store_errors
from wakelog.storage.file_system import Buffer, FileSystem
from wakelog.storage.log.append import (
    MessageDraft,
    PutResult,
    PutStatus,
    StoredRun,
    encode_draft,
    encode_properties_text,
    fits,
)
from wakelog.storage.log.encoded_batch import EncodedBatch
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.log.queue_offsets import QueueKey, QueueOffsets, TopicClosed
from wakelog.storage.log.reservation import LOG_STEP_BYTES, Reservation
from wakelog.storage.log.transient_pool import TransientPool

_ILLEGAL = PutResult(PutStatus.MESSAGE_ILLEGAL)
_CLOSED = PutResult(
    PutStatus.SERVICE_NOT_AVAILABLE, cause="the queues of the topic are being removed"
)
_PROPERTIES_TOO_LONG = PutResult(PutStatus.PROPERTIES_SIZE_EXCEEDED)
# 4.9.3 throws where a batch is too long, and its client sees a system error: so it does here.
_BATCH_TOO_LONG = PutResult(PutStatus.UNKNOWN_ERROR)


def _refused(error: Exception) -> PutResult:
    return _CLOSED if isinstance(error, TopicClosed) else _ILLEGAL


class SegmentSource(Protocol):
    """Where the next segment comes from: the log itself, or a service that made it ahead."""

    def take_segment(self, start_offset: int) -> str | None:
        """Return the path of a ready, full-length segment; None if there is none now."""

    @property
    def failure(self) -> StoreError | None:
        """Why the last request failed, None if it did not or the reason is unknown."""


class CommitLog:
    """Appends records to the last segment and rolls to the next. The only writer of the log.

    Only this class changes:
    appended_offset: after the last written record (in the pool, if one is in use).
    end_offset: after the last placed record, written or pending.
    files: the segments, for readers in this process and for Flush's descriptors.
    queue_offsets: the queue offset that the next message of each queue gets.
    store_timestamp_ms: the store time of the last record, 0 if its segment has none.
    failure: why the log takes no messages, None while it does.
    """

    def __init__(
        self,
        fs: FileSystem,
        config: StoreConfig,
        files: MappedFileQueue,
        *,
        end_offset: int,
        queue_offsets: dict[QueueKey, int],
        segments: SegmentSource,
        pool: TransientPool | None = None,
        last_store_ms: int = 0,
    ) -> None:
        """Continue a recovered log.

        files: the segments, loaded and truncated; the log owns them from here on.
        end_offset: the physical offset after the last sound record.
        queue_offsets: the next queue offset of each (topic, queue id), LMQ queues included; owned
            by the log from here on.
        segments: gives the next segment when the last one is full.
        pool: buffers for the writes to segments begun from now on.
        last_store_ms: store time of the log's last message; its segment gets no earlier one.
        """
        last = files.last
        assert last is not None or end_offset % files.file_size_bytes == 0, end_offset
        assert last is None or last.start_offset <= end_offset <= last.end_offset, end_offset
        self._fs = fs
        self.files = files
        self._segments = segments
        self._pool = pool
        self.queue_offsets = QueueOffsets(queue_offsets, enable_lmq=config.enable_lmq)
        self.message_bytes_max = config.message_bytes_max
        self._multi_dispatch = config.enable_multi_dispatch
        self._target: MappedFile | None = last
        self._file_end = end_offset if last is None else last.end_offset
        self._reservation = Reservation(LOG_STEP_BYTES)
        self._room_end = 0
        self._no_room: StoreError | None = None
        self.end_offset = self.appended_offset = self._pending_offset = end_offset
        self._pending: list[Buffer] = []
        self._rolled: list[tuple[MappedFile, int, list[Buffer]]] = []
        self.store_timestamp_ms = last_store_ms if end_offset < self._file_end else 0
        self.failure: str | None = None

    def append(self, draft: MessageDraft, now_ms: int) -> PutResult:
        """Place one message at the log's end; `write_pending` writes it."""
        if self.failure is not None:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, cause=self.failure)
        try:
            return self._place(draft, now_ms)
        except (IllegalName, ProtocolError, TopicClosed) as error:
            return _refused(error)

    def append_run(
        self, run: SendRun, sys_flags: Sequence[int | None], rules: RunRules, now_ms: int
    ) -> StoredRun | None:
        """Place the next sends of a run one after the other, up to one that needs more.

        Such are the first one of a queue, one that is too long, and one that the segment has no
        room for: `append` and `append_batch` decide what becomes of them.

        sys_flags: what the messages of each queue of the run get, None if they need more.
        """
        if self.failure is not None or self._multi_dispatch:
            return None
        offsets = self.queue_offsets
        find, queues = offsets.find, array("q")
        for key, flag in zip(run.queues, sys_flags, strict=True):
            next_offset = find(key)
            if flag is None or next_offset is None:
                next_offset, flag = -1, 0
            queues.extend((next_offset, flag, 0, 0, 0))
        timestamp_ms = max(now_ms, self.store_timestamp_ms)
        room = LogRoom(self.end_offset, timestamp_ms, self._room_end, self.message_bytes_max)
        placed = run.place(queues, rules, room)
        if not placed.sends_count:
            return None
        self._pending.append(placed.records)
        self.end_offset += len(placed.records)
        self.store_timestamp_ms = timestamp_ms
        offsets.advance_all(run.queues, queues[PLACED_COUNT::QUEUE_COLUMNS])
        return StoredRun(placed, queues)

    def append_batch(self, batch: EncodedBatch, now_ms: int) -> PutResult:
        """Place messages of one topic and queue one after the other in one file, all or none."""
        if self.failure is not None:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, cause=self.failure)
        key, size = (batch.outer.topic, batch.outer.queue_id), len(batch.records)
        if size > self.message_bytes_max:
            return _BATCH_TOO_LONG
        is_illegal = not batch or batch.outer.sys_flag & TRANSACTION_MASK
        if is_illegal or not fits(0, size, self.files.file_size_bytes):
            return _ILLEGAL
        self.store_timestamp_ms = max(now_ms, self.store_timestamp_ms)
        try:
            queue_offset = self.queue_offsets.get_or_add(key)
        except (IllegalName, TopicClosed) as error:
            return _refused(error)
        if self.end_offset + size > self._room_end and not self._make_room(size, now_ms):
            return self._no_segment()
        physical_offset = self.end_offset
        offsets = batch.stamp(queue_offset, physical_offset, self.store_timestamp_ms)
        self.end_offset += size
        self._pending.append(batch.records)
        self.queue_offsets.advance(key, len(batch))
        return PutResult(
            *(PutStatus.PUT_OK, physical_offset, size, queue_offset, self.store_timestamp_ms),
            offsets,
        )

    def append_bytes(self, physical_offset: int, data: Buffer, now_ms: int) -> None:
        """Place bytes of another log, which has them at this offset, within one of its segments.

        They are not looked at: a slave's log has what its master's has, damage and blanks included.

        Raises: NotWriteable, with nothing placed.
        """
        if self.failure is not None:
            raise NotWriteable(self.failure)
        assert physical_offset == self.end_offset, (physical_offset, self.end_offset)
        if self.end_offset == self._file_end:
            has_room = self._roll(len(data), now_ms)
        else:
            file = self.files.last
            has_room = file is not None and self._reserve(file, physical_offset, len(data))
        if not has_room:
            raise NotWriteable(str(self._no_segment().cause))
        assert physical_offset + len(data) <= self._file_end, (physical_offset, len(data))
        self._pending.append(data)
        self.end_offset += len(data)

    def write_pending(self) -> int:
        """Write what was placed since the last call; return `appended_offset`.

        Raises: NotWriteable. Nothing placed since the last call then counts as appended, and the
        log takes no more.
        """
        if self.failure is not None:
            raise NotWriteable(self.failure)
        if self.end_offset == self.appended_offset:
            return self.appended_offset
        try:
            for target, offset, buffers in self._rolled:
                target.write_all(target.position_of(offset), buffers)
            if self._pending:
                assert self._target is not None
                position = self._pending_offset - self._target.start_offset
                self._target.write_all(position, self._pending)
            if self._pool is not None:
                self._pool.on_appended(self.end_offset)
        except StoreFailed as error:
            self.failure = str(error)
            raise NotWriteable(self.failure) from error
        finally:
            self._rolled.clear()
            self._pending = []
        self.appended_offset = self._pending_offset = self.end_offset
        return self.appended_offset

    @property
    def committed_offset(self) -> int:
        """How far the segments hold the log: `appended_offset`, or what the pool has committed."""
        return (
            self.appended_offset
            if self._pool is None
            else self._pool.committed_offset(self.appended_offset)
        )

    @property
    def no_room(self) -> StoreError | None:
        """Why there were no blocks or no segment when a record needed them last, None if not."""
        return self._no_room or self._segments.failure

    def fail(self, cause: str) -> None:
        """Take no more messages: a sync failed, or a service found damage."""
        self.failure = self.failure or cause

    def close(self) -> None:
        """Write what is pending, remove unused segments that were made ahead, and close the files.

        An unused segment is harmless; 4.9.3 removes it on a clean stop, and so do we.
        """
        try:
            if self.failure is None:
                self.write_pending()
                self._remove_unused()
        finally:
            self.files.close()

    def validate(self) -> None:
        """Assert the invariants; for tests."""
        assert self.files.min_offset <= self.appended_offset <= self.end_offset <= self._file_end
        placed = sum(map(len, self._pending))
        assert self.failure is not None or self._pending_offset + placed == self.end_offset

    def _place(self, draft: MessageDraft, now_ms: int) -> PutResult:
        key = (draft.topic, draft.queue_id)
        properties_text = draft.properties_text
        if len(draft.body) > self.message_bytes_max or len(properties_text) > PROPERTIES_BYTES_MAX:
            return _ILLEGAL
        next_offset = self.queue_offsets.get_or_add(key)
        advanced: set[QueueKey] = set()
        if self._multi_dispatch and INNER_MULTI_DISPATCH in properties_text:
            properties_text, advanced = self.queue_offsets.add_further_offsets(
                properties_text, draft.queue_id
            )
        try:
            properties = properties_text.encode()
        except UnicodeEncodeError:
            properties = encode_properties_text(properties_text)
        if len(properties) > PROPERTIES_BYTES_MAX:
            return _PROPERTIES_TOO_LONG
        consumed = draft.sys_flag & TRANSACTION_MASK in CONSUMED_TYPES
        queue_offset = next_offset if consumed else 0
        timestamp_ms = self.store_timestamp_ms = max(now_ms, self.store_timestamp_ms)
        record = encode_draft(draft, properties, queue_offset, self.end_offset, timestamp_ms)
        size = len(record)
        if size > self.message_bytes_max or size + BLANK_BYTES > self.files.file_size_bytes:
            return _ILLEGAL
        if self.end_offset + size > self._room_end:
            if not self._make_room(size, now_ms):
                return self._no_segment()
            timestamp_ms = self.store_timestamp_ms
            record = encode_draft(draft, properties, queue_offset, self.end_offset, timestamp_ms)
        physical_offset = self.end_offset
        self._pending.append(record)
        self.end_offset = physical_offset + size
        if consumed:
            self.queue_offsets.advance(key)
            # A message that names its own queue again does not move it twice, as in 4.9.3.
            for other in advanced - {key}:
                self.queue_offsets.advance(other)
        return PutResult(
            PutStatus.PUT_OK, physical_offset, size, queue_offset, timestamp_ms, (physical_offset,)
        )

    def _make_room(self, size_bytes: int, now_ms: int) -> bool:
        """Have room and blocks for a record and a blank, in this segment or in the next.

        The record has to be encoded again after it.
        Returns: False, with nothing changed, if there are none.
        """
        if fits(self.end_offset, size_bytes, self._file_end):
            file = self.files.last
            assert file is not None
            if not self._reserve(file, self.end_offset, size_bytes + BLANK_BYTES):
                return False
        elif not self._roll(size_bytes, now_ms):
            return False
        self._room_end = min(self._reservation.end, self._file_end) - BLANK_BYTES
        return True

    def _reserve(self, file: MappedFile, begin: int, length: int) -> bool:
        try:
            self._reservation.cover(file, begin, begin + length)
        except StoreFailed as error:
            self._no_room = error
            return False
        self._no_room = None
        return True

    def _roll(self, size_bytes: int, now_ms: int) -> bool:
        """Continue in the next segment; False, with nothing changed, if there is none."""
        start_offset, last = self._file_end, self.files.last
        blank_bytes = min(start_offset - self.end_offset, BLANK_BYTES)
        if last is not None and not self._reserve(last, self.end_offset, blank_bytes):
            return False
        path = self._segments.take_segment(start_offset)
        if path is None:
            return False
        file = self._take_file(path, start_offset)
        if file is None:
            return False
        needed_bytes = min(size_bytes + BLANK_BYTES, file.size_bytes)
        if not self._reserve(file, start_offset, needed_bytes):
            self.files.forget_last()
            return False
        remaining = start_offset - self.end_offset
        # Our records leave room for a blank. A foreign log may leave less; then no record fits
        # either, and none is needed.
        if remaining >= BLANK_BYTES:
            self._pending.append(encode_blank(remaining))
        if self._pending:
            assert self._target is not None
            self._rolled.append((self._target, self._pending_offset, self._pending))
        buffer = None if self._pool is None else self._pool.lend(start_offset)
        self._target = buffer or file
        self._pending = []
        self.end_offset = self._pending_offset = start_offset
        self._file_end = file.end_offset
        self.store_timestamp_ms = now_ms
        return True

    def _no_segment(self) -> PutResult:
        """Refuse a message for which there is no segment; give the reason if it is known."""
        cause = self.failure or self.no_room
        return PutResult(
            PutStatus.CREATE_MAPPED_FILE_FAILED, cause=None if cause is None else str(cause)
        )

    def _take_file(self, path: str, start_offset: int) -> MappedFile | None:
        """Open the next segment and check that it is unused; None, with nothing changed, if not."""
        file = self.files.add(path, start_offset)
        try:
            if not file.read(0, BLANK_BYTES).strip(b"\0"):
                return file
            # Old records: overwriting some would leave the others to be found.
            self.fail(f"the next segment {path} holds records already")
        except StoreFailed:
            pass  # no descriptor left, for example: a later attempt may succeed
        self.files.forget_last()
        return None

    def _remove_unused(self) -> None:
        path = self.files.path_for(self._file_end)
        while self._fs.exists(path):
            with store_errors(path, "remove"):
                self._fs.unlink(path)
                self._fs.sync_directory(dirname(path))
            path = self.files.path_for(int(basename(path)) + self.files.file_size_bytes)
