"""Read chosen records from the log with few calls.

Records of one queue lie between those of other queues. Records near each other are read together:
copying the gap from the page cache is faster than another call. They are one piece of the result.

A queue entry says where to read; the bytes there are checked. They must be a sound record of that
size with that physical offset, and a compressed body must have its CRC. A client that cannot decode
one message of a pull drops all later ones. 4.9.3 sends whatever lies there. Checking the CRC of
other bodies would cost a consumer a tenth of its speed. Clients do not check it either, and the
log's sums find changed bytes.

Invariant: joined, the pieces are the requested records in order, all of them sound.

Source: org.apache.rocketmq.store.GetMessageResult, CommitLog.getMessage (4.9.3).
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from wakelog.protocol.record import COMMON_HEAD, HOST_FLAGS, MESSAGE_MAGIC, RECORD_BYTES_MIN
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.record_check import CheckKind, check_record

# A gap up to this long is read as well: a read call costs about as much as copying 8 KiB.
GAP_BYTES_MAX: Final = 8 * 1024

_UNCOMMON_FLAGS: Final = HOST_FLAGS | MESSAGE_COMPRESSED

Place = tuple[int, int]
"""Physical offset and size of a record."""


class Absent(NamedTuple):
    """The log no longer holds the record at this place."""

    physical_offset: int


class Mismatched(NamedTuple):
    """No record of the requested size begins at these places."""

    physical_offsets: frozenset[int]


def read_frames(
    log: CommitLogReader, places: Sequence[Place], log_end: int, *, blocking: bool
) -> list[bytes] | Absent | Mismatched | None:
    """Read records in ascending physical offset; None if that needs the disk and may not wait.

    log_end: nothing is read above it.
    Absent is returned only when `blocking`: else absent and not cached are the same.

    Raises: StoreFailed.
    """
    mismatched: list[int] = []
    frames: list[bytes] = []
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
        view = log.view(begin, end - begin, blocking=blocking)
        if view is None:
            return Absent(begin) if blocking else None
        read = places[first:last]
        mismatched += mismatched_places(view, begin, read)
        records = [view[place - begin : place - begin + size_bytes] for place, size_bytes in read]
        frames.append(b"".join(records))
        first = last
    return Mismatched(frozenset(mismatched)) if mismatched else frames


def mismatched_places(view: memoryview, begin: int, places: Sequence[Place]) -> list[int]:
    """Return the places at which no sound record begins; view[0] lies at `begin`.

    The common kind of record is checked here, any other by `check_record`.
    """
    found = []
    head_of = COMMON_HEAD.unpack_from
    for place, size_bytes in places:
        at = place - begin
        stated, magic, own_place, flags, body_bytes = head_of(view, at)
        if (
            stated == size_bytes
            and magic == MESSAGE_MAGIC
            and own_place == place
            and not flags & _UNCOMMON_FLAGS
            and 0 < body_bytes <= size_bytes - RECORD_BYTES_MIN
        ):
            # The topic's length follows the body, the properties' length the topic.
            tail = at + COMMON_HEAD.size + body_bytes
            tail += 1 + view[tail]
            end = at + size_bytes - 2
            if tail <= end and view[tail] << 8 | view[tail + 1] == end - tail:
                continue
        unpacked = bool(flags & MESSAGE_COMPRESSED)
        check = check_record(view, at, place, at + size_bytes, check_body=unpacked)
        if check.kind is not CheckKind.SOUND or check.size_bytes != size_bytes:
            found.append(place)
    return found


def _impossible(log: CommitLogReader, places: Sequence[Place], log_end: int) -> Mismatched:
    """Return all places that no record of their size can begin at."""
    return Mismatched(
        frozenset(
            place
            for place, size_bytes in places
            if not RECORD_BYTES_MIN <= size_bytes <= min(log.segment_end(place), log_end) - place
        )
    )
