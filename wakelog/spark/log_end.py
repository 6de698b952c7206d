"""The end of a log: of a store that is stopped, has crashed, or is written at this moment.

The log ends after the last record whose size, magic, position and CRC are right. Segments have
their full length from the start, so their length does not show the end. The search runs in the last
segment with a sound record. It begins where the consume queues end, or else where the segment does.

A broker that runs may have written only a part of its last record. That record is not sound yet,
and belongs to the next query. The CRC covers the body alone. So if a broker is known to run, a last
record whose properties end in zeros counts as unfinished too.

The length of a segment does not show that a log has lost its end. A stream that has read further
notices it by the bytes before its place: `tail_of`.

Invariants: the end is the begin of a segment or the end of a sound record; it never falls while the
log only grows.

Source: org.apache.rocketmq.store.CommitLog#recoverAbnormally (4.9.3), which checks the same four.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.record import BLANK_BYTES, decode_record
from wakelog.spark.records.record_walk import Damage, adds_up, next_sound_begin
from wakelog.spark.stores import OpenSegment, StoreLog, is_being_written
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.record_check import CheckKind, RecordCheck, check_record
from wakelog.storage.log.record_walk import check_at

PIECE_BYTES: Final = 1 << 20
"""One read of the plain search; a larger record is read alone."""
PLAIN_BYTES_MAX: Final = 16 << 20
"""The plain search covers this much: some tens of milliseconds with records of 1 KiB."""

ZEROS_BYTES: Final = 64 << 10
"""A repeated search ends if so many zeros follow the known end."""

TAIL_BYTES: Final = 128
"""The end of a record: its properties, and if they are short, topic and body."""

WalkEnd = Callable[[OpenSegment, int, int], int | None]
"""The compiled search: (segment, begin, end) to the end of the last sound record, None for none."""


def find_log_end(
    fs: FileSystem, store: StoreLog, walk_end: WalkEnd, *, known: int = 0, repeated: bool = False
) -> int:
    """Return the physical offset after the last sound record, the log's begin if there is none.

    known: a place after a sound record: the search begins there.
    repeated: `known` is the result of an earlier search; many zeros after it end this one.
    Raises: OSError.
    """
    live = is_being_written(store)
    known = max(known, store.begin)
    for segment in reversed(store.segments):
        if segment.end <= known:
            break
        try:
            file = OpenSegment(fs, segment)
        except FileNotFoundError:
            continue  # allocated ahead, and removed by a broker that stopped
        try:
            search = _EndSearch(file, repeated=repeated, live=live)
            found = search.run(max(known, segment.begin), segment.end, walk_end)
        finally:
            file.close()
        if found is not None:
            return found
    return known


def tail_of(fs: FileSystem, store: StoreLog, physical_offset: int) -> int | None:
    """Return a checksum of the bytes before a place, None if no file has them.

    It covers the properties of the message before, and with them mostly its id. While the log only
    grows, the result stays the same until retention removes the bytes.
    """
    for segment in store.segments:
        if segment.begin < physical_offset <= segment.end:
            begin = max(physical_offset - TAIL_BYTES, segment.begin)
            try:
                with closing(OpenSegment(fs, segment)) as file:
                    return zlib.crc32(file.read(begin, physical_offset - begin))
            except FileNotFoundError:
                return None
    return None


def has_tail(
    fs: FileSystem, store: StoreLog, physical_offset: int, tails: Mapping[str, int]
) -> bool:
    """Return whether the bytes before a place are those of `tails`; True if it is unknown."""
    known = tails.get(store.broker)
    found = None if known is None else tail_of(fs, store, physical_offset)
    return found is None or found == known


def tail_damage(fs: FileSystem, store: StoreLog, log_end: int) -> Damage | None:
    """Return the bytes after the log's end up to the last one that is not zero, None for none.

    They can be damaged messages, which have no row. `wakelog log verify` lists the same bytes. A
    broker that runs is just writing there, so that its tail is no damage. Raises: OSError.
    """
    if is_being_written(store):
        return None
    begin, written_end = log_end, 0
    for segment in store.segments:
        if segment.end <= begin:
            continue
        try:
            file = OpenSegment(fs, segment)
        except FileNotFoundError:
            continue
        with closing(file):
            at = max(begin, segment.begin)
            check = check_at(file.read, at, segment.end, segment_end=segment.end)
            if at == begin and check.kind is CheckKind.SOUND:
                return None  # the log has grown: a broker runs, on another machine perhaps
            if at == begin and check.kind is CheckKind.END_OF_FILE:
                begin = segment.end
                continue
            at = file.next_data(at)
            while data := file.read(at, PIECE_BYTES):
                if kept := data.rstrip(b"\0"):
                    written_end = at + len(kept)
                at = file.next_data(at + len(data))
    if written_end <= begin:
        return None
    count = written_end - begin
    return Damage(begin, written_end, f"{count} bytes are written after the last sound record")


class _EndSearch:
    """One search in one segment."""

    def __init__(self, file: OpenSegment, *, repeated: bool, live: bool) -> None:
        self._file = file
        self._repeated = repeated
        self._live = live
        self._last = 0  # the begin of the last sound record

    def run(self, begin: int, end: int, walk_end: WalkEnd) -> int | None:
        """Return the end of the last sound record of [begin, end), None if there is none."""
        if not adds_up(self._file, begin, end):
            begin = self._next_sound(begin, end)
        found, position = None, begin
        while position < end:
            if position - begin > PLAIN_BYTES_MAX:
                return walk_end(self._file, position, end) or found
            position, found = self._step(position, end, found)
        if found is not None and self._live and self._is_unfinished(found):
            return self._last if self._last > begin else None
        return found

    def _is_unfinished(self, end: int) -> bool:
        """Return whether the last record's properties, which no CRC covers, end in zeros."""
        data = self._file.read(self._last, end - self._last)
        try:
            return decode_record(data).properties_text.endswith("\0")
        except RemoteProtocolError:  # a negative length, which counts as zero elsewhere
            return False

    def _step(self, position: int, end: int, found: int | None) -> tuple[int, int | None]:
        """Check a piece of the segment; return the next position, and the end found so far."""
        file = self._file
        data = file.read(position, min(PIECE_BYTES, end - position))
        at = 0
        while (check := _check(file, data, position, at)).kind is CheckKind.SOUND:
            self._last = position + at
            at += check.size_bytes
            found = position + at
        position += at
        if check.kind is CheckKind.END_OF_FILE:
            return end, found
        if check.kind is CheckKind.INCOMPLETE:
            if at:
                return position, found
            if len(data) == PIECE_BYTES and adds_up(file, position, end):
                alone = file.read(position, check.size_bytes)
                if _check(file, alone, position, 0).kind is CheckKind.SOUND:
                    self._last, found = position, position + check.size_bytes
                return position + check.size_bytes, found
        return (self._next_sound(position, end) if position < end else end), found

    def _next_sound(self, position: int, end: int) -> int:
        if self._repeated:
            data = self._file.read(position, min(ZEROS_BYTES, end - position))
            if not any(data):
                return end
        # Files have holes where nothing was written, and copies have holes for zeros.
        data_begin = self._file.next_data(position)
        return next_sound_begin(self._file, max(position + 1, data_begin - BLANK_BYTES), end)


def _check(file: OpenSegment, data: bytes, position: int, at: int) -> RecordCheck:
    return check_record(data, at, position + at, len(data), segment_end=file.end, check_body=True)
