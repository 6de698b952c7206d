"""Read chosen records from the log with few calls.

Records of one queue lie between those of other queues. What is near is read together: the gap is
copied from the page cache faster than a further call would start. What is read together is handed
out as one piece.

An entry is taken at its word for where to read, not for what is there: the bytes have to begin
with its size, a record's magic and the place itself. 4.9.3 sends whatever lies there.

Invariant: joined, the pieces are the records in the order they were asked for.

Source: org.apache.rocketmq.store.GetMessageResult, CommitLog.getMessage (4.9.3).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from wakelog.protocol.message_record import (
    MAGIC_OFFSET,
    MESSAGE_MAGIC,
    PHYSICAL_OFFSET_OFFSET,
    RECORD_BYTES_MIN,
)
from wakelog.storage.commit_log_reader import CommitLogReader

# A gap up to this long is read along: a read call costs about what copying 8 KiB does.
GAP_BYTES_MAX: Final = 8 * 1024

_HEAD: Final = struct.Struct(">ii20xq")  # size, magic, physical offset

assert (MAGIC_OFFSET, _HEAD.size) == (4, PHYSICAL_OFFSET_OFFSET + 8)

Place = tuple[int, int]
"""Physical offset and size of a record."""


class Absent(NamedTuple):
    """The log no longer holds the record at this place."""

    physical_offset: int


class Belied(NamedTuple):
    """At these places no record of the size that was asked for begins."""

    physical_offsets: frozenset[int]


def read_frames(
    log: CommitLogReader, places: Sequence[Place], log_end: int, *, blocking: bool
) -> list[bytes] | Absent | Belied | None:
    """Read records in ascending physical offset; None if that needs the disk and may not wait.

    log_end: nothing is read above it.
    Absent is told only when `blocking`: without waiting, absent and not cached look the same.

    Raises: StoreFailed.
    """
    belied: list[int] = []
    frames: list[bytes] = []
    head_of = _HEAD.unpack_from
    first, count = 0, len(places)
    while first < count:
        begin = end = places[first][0]
        segment_end = log.segment_end(begin)
        limit = min(segment_end, log_end)
        last = first
        for physical_offset, size_bytes in islice(places, first, None):
            gap_bytes = physical_offset - end
            if gap_bytes and not (0 < gap_bytes <= GAP_BYTES_MAX and physical_offset < segment_end):
                break
            end = physical_offset + size_bytes
            if end > limit or size_bytes < RECORD_BYTES_MIN:
                return _impossible(log, places, log_end)
            last += 1
        view = log.look(begin, end - begin, blocking=blocking)
        if view is None:
            return Absent(begin) if blocking else None
        read = places[first:last]
        belied += [
            place
            for place, size_bytes in read
            if head_of(view, place - begin) != (size_bytes, MESSAGE_MAGIC, place)
        ]
        records = [view[place - begin : place - begin + size_bytes] for place, size_bytes in read]
        frames.append(b"".join(records))
        first = last
    return Belied(frozenset(belied)) if belied else frames


def _impossible(log: CommitLogReader, places: Sequence[Place], log_end: int) -> Belied:
    """Return all places that no record of their size can begin at."""
    return Belied(
        frozenset(
            place
            for place, size_bytes in places
            if not RECORD_BYTES_MIN <= size_bytes <= min(log.segment_end(place), log_end) - place
        )
    )
