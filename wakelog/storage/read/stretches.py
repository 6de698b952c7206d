"""Records of a batch by the library in C: chosen in stretches of the log, read into one buffer.

A stretch is what one read brings. `frames.py` has the same rules in Python, and does what is left
here: damaged records, and others than the common kind.

Source: org.apache.rocketmq.store.GetMessageResult (4.9.3).
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

from wakelog.compiled.library import Library
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.queue.entries import ENTRY
from wakelog.storage.read.frames import GAP_BYTES_MAX


class Stretch(NamedTuple):
    """Some records and the part [begin, end) of the log that has them.

    entries: theirs, and later ones. size_bytes: of the records, without what is between them.
    """

    entries: memoryview
    records_count: int
    begin: int
    end: int
    size_bytes: int
    last_sent: int


def choose_stretches(
    library: Library,
    entries: bytes | bytearray,
    limits: tuple[int, int, int, int],
    segment_bytes: int,
    reads_max: int,
) -> list[Stretch]:
    """Return the stretches of a batch, none if Python has to choose.

    limits: how many records and bytes, and the part of the log that may be sent.
    """
    count_max, bytes_max, begin, end = limits
    left, found = memoryview(entries), list[Stretch]()
    while left and count_max > 0 and len(found) < reads_max:
        _, next_bytes, _ = ENTRY.unpack_from(left)
        if found and next_bytes > bytes_max:
            break
        count, first, last, size_bytes, last_sent, _ = library.choose_stretch(
            left, count_max, bytes_max, begin, end, segment_bytes, GAP_BYTES_MAX
        )
        if not count:
            return []
        found.append(Stretch(left, count, first, last, size_bytes, last_sent))
        left = left[count * ENTRY.size :]
        count_max, bytes_max = count_max - count, bytes_max - size_bytes
    return found


def join_stretches(
    library: Library, log: CommitLogReader, stretches: Sequence[Stretch], *, blocking: bool
) -> bytes | None:
    """Return the records; None if one is not cached and may not be waited for, or is not sound.

    They are a bytearray that nobody changes: the buffer is filled from several reads.
    """
    out = library.make_room(sum(each.size_bytes for each in stretches))
    at = 0
    for each in stretches:
        has_gaps = each.end - each.begin > each.size_bytes
        place = None if has_gaps else memoryview(out)[at : at + each.size_bytes]
        view = log.view(each.begin, each.end - each.begin, blocking=blocking, into=place)
        if view is None:
            return None
        where = each.entries, out, at, each.size_bytes
        if not library.join_records(view, each.begin, each.records_count, *where):
            return None
        at += each.size_bytes
    return cast(bytes, out)
