"""Find where the log ends: at the first place without a sound record, if that is a torn tail.

Recovery checks record after record, bodies included, from where `search.py` says. A place without a
sound record has one of two causes:

- A torn tail: the machine went down before the bytes reached the disk. The log ends here. Later
  bytes were not durable either, or are left from an earlier end.
- Damage: bytes that were durable have changed since. The log continues after them. Ending it here
  would lose messages that were acknowledged and synced.

Below the durable watermark it is damage. Elsewhere the first sound record after the place decides
(docs/recovery.md, "Damage"). Damage is reported and skipped. 4.9.3 always ends the log, and
`cut_at_damage` does the same.

Invariants:
- The end is at the watermark or above, unless another broker wrote below it. Store times within a
  segment decrease only where a log was cut in memory and written over.
- The end is at `cut_from` or above: what lies below was durable long ago and is never cut.
- The end is after every segment that is missing between others.
- Without damage the end is the one that 4.9.3 finds, with one exception. A record that lacks
  sectors after its body ends the log; 4.9.3 checks the CRC of the body alone.

Source: org.apache.rocketmq.store.CommitLog.recoverNormally, recoverAbnormally (4.9.3).
"""

from typing import Final, NamedTuple
from zlib import crc32

from wakelog.protocol.record import BODY_CRC_OFFSET, INT
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.log.record_check import (
    CheckKind,
    RecordCheck,
    check_record,
    is_torn_after_body,
)
from wakelog.storage.log.record_walk import walk_records
from wakelog.storage.recovery.queues import QueueEnds
from wakelog.storage.recovery.segments import next_sound_in

# Bytes of one read: large reads from a cold disk are fast, and there is one such buffer.
PIECE_BYTES: Final = 8 << 20

# Store times above and below every time that a record can state.
_AFTER_ALL_MS: Final = 1 << 63
_BEFORE_ALL_MS: Final = -1 << 63
_TORN: Final = RecordCheck(CheckKind.BAD, reason="sectors after the body were never written")


class DamagedStretch(NamedTuple):
    """Bytes [begin, end) of the log that were durable once and have no sound record now."""

    begin: int
    end: int
    reason: str


class LogEnd(NamedTuple):
    """Where the log ends, why, and the damage before it."""

    physical_offset: int
    reason: str
    records_checked_count: int
    last_store_timestamp_ms: int
    damaged: tuple[DamagedStretch, ...]
    last_record: int = -1
    """Physical offset of the last record that was checked, -1 if none was."""


class LogEndSearch:
    """One search. Reads the segments in order; changes nothing."""

    def __init__(
        self,
        files: MappedFileQueue,
        ends: QueueEnds,
        *,
        cut_from: int,
        durable_ms: int,
        check_body: bool,
        cut_at_damage: bool = False,
        may_be_torn: bool = True,
        watermark: int = 0,
        last_ms: int = 0,
    ) -> None:
        """Prepare to read `files`.

        ends: gets every sound record.
        cut_from: physical offset at which a record or a segment begins; the log does not end below.
        durable_ms: the checkpoint's store time of the log.
        check_body: compare the CRC of bodies at or above `cut_from`.
        may_be_torn: whether records at or above the watermark may lack sectors; without one,
            records that are not older than `durable_ms`.
        watermark: everything below is known to have been durable.
        last_ms: the store time of the record before the first one checked, 0 if not known.
        """
        self._files = files
        self._ends = ends
        self._cut_from = cut_from
        self._durable_ms = durable_ms
        self._torn_from_ms = _AFTER_ALL_MS
        if may_be_torn and check_body:
            # The watermark is exact; a clock that was set back makes times too low.
            self._torn_from_ms = _BEFORE_ALL_MS if watermark and not cut_at_damage else durable_ms
        self._check_body = check_body
        self._cut_at_damage = cut_at_damage
        self._watermark = 0 if cut_at_damage else watermark
        self._missing = files.missing_stretches()
        self._buffer = bytearray(min(PIECE_BYTES, files.file_size_bytes))
        self._records_count = 0
        self._last_ms = last_ms
        self._last_record = -1
        self._damaged: list[DamagedStretch] = []

    def run(self, begin: int) -> LogEnd:
        """Check records from `begin`, where one begins, to the log's end."""
        position = begin
        reason = "no segment follows"
        while (file := self._files.find(position)) is not None:
            if file.is_missing:
                position = file.end_offset
                continue
            position, stopped_by = self._check_segment(file, position)
            file.release()  # a long log has more segments than a process has descriptors
            if stopped_by is None:
                continue
            # A blank below the watermark in its own segment is damage: durable records follow.
            is_hidden = position < self._watermark < file.end_offset
            if stopped_by.kind is CheckKind.END_OF_FILE and not is_hidden:
                if self._files.find(file.end_offset) is None:
                    # The blank is written again when the log rolls, as in 4.9.3.
                    reason = "the last segment is full"
                    break
                position = file.end_offset
                continue
            resume = self._resume_at(position)
            if resume is None:
                reason = stopped_by.reason
                break
            self._damaged.append(DamagedStretch(position, resume, stopped_by.reason))
            position = resume
        counts = self._records_count, self._last_ms
        return LogEnd(position, reason, *counts, tuple(self._damaged), self._last_record)

    def _check_segment(self, file: MappedFile, begin: int) -> tuple[int, RecordCheck | None]:
        """Check records of one segment from `begin` on; return where and why the check stopped."""
        position = begin
        piece_bytes = len(self._buffer)
        while position < file.end_offset:
            view = memoryview(self._buffer)[:piece_bytes]
            count = file.read_into(view, position - file.start_offset)
            next_position, stopped_by = self._check_piece(view[:count], position, file.end_offset)
            view.release()
            if stopped_by is not None and stopped_by.kind is not CheckKind.INCOMPLETE:
                return next_position, stopped_by
            if stopped_by is not None and next_position == position:
                # One record is longer than the buffer; its size was checked against the segment.
                assert stopped_by.size_bytes > len(self._buffer)
                self._buffer = bytearray(stopped_by.size_bytes)
                piece_bytes = stopped_by.size_bytes
            position = next_position
        return position, None

    def _check_piece(
        self, buffer: memoryview, physical_offset: int, segment_end: int
    ) -> tuple[int, RecordCheck | None]:
        """Check the records of buffer[0:], which lies at `physical_offset`."""
        end = len(buffer)
        check_body = self._check_body and physical_offset >= self._cut_from
        note = self._ends.note
        # A gigabyte holds a million records, and clients wait for the broker.
        at = 0
        for (
            at,
            record_end,
            body_begin,
            body_end,
            topic_end,
            queue_id,
            queue_offset,
            record_offset,
            sys_flag,
            store_ms,
            _,
        ) in walk_records(buffer, 0, end, physical_offset):
            if check_body and body_begin < body_end:
                (crc,) = INT.unpack_from(buffer, at + BODY_CRC_OFFSET)
                if crc != crc32(buffer[body_begin:body_end]) & 0x7FFFFFFF:
                    break
            if (
                store_ms >= self._torn_from_ms
                and record_offset >= self._watermark
                and is_torn_after_body(buffer, body_end, record_end, physical_offset)
            ):
                return record_offset, _TORN
            note(
                bytes(buffer[body_end + 1 : topic_end]),
                queue_id,
                queue_offset,
                record_offset,
                sys_flag,
                buffer[topic_end + 2 : record_end],
            )
            self._records_count += 1
            self._last_ms = store_ms
            self._last_record = record_offset
            at = record_end
        if at == end:
            return physical_offset + at, None
        place = physical_offset + at
        check = check_record(buffer, at, place, end, segment_end=segment_end, check_body=check_body)
        assert check.kind is not CheckKind.SOUND, place
        return place, check

    def _resume_at(self, position: int) -> int | None:
        """Return where the log continues after `position`; None if it ends there."""
        if self._missing and position < self._missing[-1][0]:
            next_missing = next(begin for begin, _ in self._missing if begin > position)
            found = self._next_sound(position)
            return next_missing if found is None else min(found[0], next_missing)
        if self._watermark and position >= max(self._watermark, self._cut_from):
            # Nothing from here on was known to be durable, whatever the checkpoint says.
            return None
        if position < self._watermark:
            resume = self._resume_below_watermark(position)
            if resume is not None:
                return resume
        if position >= self._cut_from and (
            self._cut_at_damage or self._last_ms >= self._durable_ms
        ):
            return None
        found = self._next_sound(position)
        if found is not None:
            resume, store_timestamp_ms = found
            if self._last_ms <= store_timestamp_ms < self._durable_ms:
                return resume
        if position >= self._cut_from:
            return None
        return self._cut_from if found is None else min(found[0], self._cut_from)

    def _resume_below_watermark(self, position: int) -> int | None:
        """Return the next sound record, or the watermark; None if another broker wrote here."""
        found = self._next_sound(position)
        if found is None or found[0] >= self._watermark:
            return self._watermark
        resume, store_timestamp_ms = found
        file = self._files.find(position)
        assert file is not None
        in_one_segment = file.start_offset < position and resume < file.end_offset
        if in_one_segment and store_timestamp_ms < self._last_ms:
            return None
        return resume

    def _next_sound(self, position: int) -> tuple[int, int] | None:
        """Return place and store time of the first sound record after `position`."""
        at = position + 1
        while (file := self._files.find(at)) is not None:
            found = next_sound_in(file, at - file.start_offset, file.size_bytes)
            if found is not None:
                return found
            at = file.end_offset
        return None
