"""Read chosen records from the log with few calls, as pieces that a response can send unjoined.

Records of one queue lie between those of other queues. What is near is read together: the gap is
copied from the page cache faster than a further call would start. What touches is handed out as one
piece.

Invariant: joined, the pieces are the records in the order they were asked for.

Source: org.apache.rocketmq.store.GetMessageResult, CommitLog.getMessage (4.9.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from wakelog.storage.commit_log_reader import CommitLogReader
from wakelog.storage.results import Frame

# A gap up to this long is read along: a read call costs about what copying 8 KiB does.
GAP_BYTES_MAX: Final = 8 * 1024

Place = tuple[int, int]
"""Physical offset and size of a record."""


class Absent(NamedTuple):
    """The log no longer holds the record at this place."""

    physical_offset: int


def read_frames(
    log: CommitLogReader, places: Sequence[Place], *, blocking: bool
) -> list[Frame] | Absent | None:
    """Read records in ascending physical offset; None if that needs the disk and may not wait.

    Absent is told only when `blocking`: without waiting, absent and not cached look the same.

    Raises: StoreFailed.
    """
    frames: list[Frame] = []
    read = log.read if blocking else log.read_nowait
    first, count = 0, len(places)
    while first < count:
        begin = places[first][0]
        segment_end = log.segment_end(begin)
        end = begin
        last = first
        pieces = []  # [begin, end) of touching records
        piece_begin = begin
        while last < count:
            physical_offset, size_bytes = places[last]
            if physical_offset != end:
                if physical_offset - end > GAP_BYTES_MAX or physical_offset >= segment_end:
                    break
                pieces.append((piece_begin, end))
                piece_begin = physical_offset
            end = physical_offset + size_bytes
            last += 1
        data = read(begin, end - begin)
        if data is None:
            return Absent(begin) if blocking else None
        if pieces:
            pieces.append((piece_begin, end))
            view = memoryview(data)
            frames += [view[low - begin : high - begin] for low, high in pieces]
        else:
            frames.append(data)
        first = last
    return frames
