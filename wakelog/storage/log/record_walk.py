"""The walk over stored records: which bytes of a buffer or a segment are sound records.

`read_record` in `wakelog/compiled/records.h` is the twin of `walk_records` in C;
`tests/storage/log/test_record_walk.py` holds both against one table of cases. Where a walk stopped,
`record_check.check_record` names the reason, and `next_sound` finds where a damaged log goes on.

Invariants:
- `walk_records` yields a record exactly if `check_record` calls it SOUND without its body.
- A damaged size costs no memory: a record is read whole only if its lengths add up.

Source: org.apache.rocketmq.store.CommitLog#checkMessageAndReturnSize (4.9.3).
"""

from collections.abc import Callable, Iterator
from typing import Final

from wakelog.protocol.record import (
    BLANK_BYTES,
    CHECKED_HEADS,
    HEAD_BYTES_MAX,
    HOST_FLAGS,
    HOST_FLAGS_OFFSET,
    MAGIC_BYTES,
    MAGIC_OFFSET,
    MESSAGE_MAGIC,
    PROPERTIES_LENGTH,
    RECORD_BYTES_MIN,
    TAIL_BYTES_MAX,
    TAIL_BYTES_MIN,
    TOPIC_BYTES_MAX,
)
from wakelog.storage.log.record_check import (
    Buffer,
    CheckKind,
    RecordCheck,
    check_record,
    tail_mismatch,
)

SEARCH_BYTES: Final = 4 << 20
"""Searched at once for a sound record."""
_PIECE_BYTES: Final = 4096  # one read is enough for most records

SoundRecord = tuple[int, int, int, int, int, int, int, int, int, int, int]
"""Begin, end, body begin, body end and topic end, as positions in the buffer; queue id, queue
offset, physical offset, sys_flag, store timestamp and prepared transaction offset. A plain tuple:
a named one takes as long to make as a record takes to check."""

Read = Callable[[int, int], bytes]
"""(physical offset, bytes_max) -> the bytes of a segment from there on, fewer at its end."""


def walk_records(
    buffer: Buffer, begin: int, end: int, physical_offset: int
) -> Iterator[SoundRecord]:
    """Yield the sound records from buffer[begin] on, which lies at `physical_offset`.

    Bodies are not checked. The walk ends at `end`, or at the first place without a sound record.
    """
    shift = physical_offset - begin
    while end - begin >= RECORD_BYTES_MIN:
        head = CHECKED_HEADS[buffer[begin + HOST_FLAGS_OFFSET] & HOST_FLAGS]
        body_begin = begin + head.size
        if body_begin + TAIL_BYTES_MIN > end:
            return
        size, magic, queue_id, queue_offset, stated, sys_flag, store_ms, prepared, body_bytes = (
            head.unpack_from(buffer, begin)
        )
        record_end = begin + size
        body_end = body_begin + body_bytes if body_bytes > 0 else body_begin
        if (
            magic != MESSAGE_MAGIC
            or stated != begin + shift
            or record_end > end
            or body_end + TAIL_BYTES_MIN > record_end
        ):
            return
        topic_bytes = buffer[body_end]
        topic_end = body_end + 1 + topic_bytes
        if topic_bytes > TOPIC_BYTES_MAX or topic_end + PROPERTIES_LENGTH.size > record_end:
            return
        properties_bytes = PROPERTIES_LENGTH.unpack_from(buffer, topic_end)[0]
        if properties_bytes < 0:
            properties_bytes = 0
        if topic_end + PROPERTIES_LENGTH.size + properties_bytes != record_end:
            return
        yield (
            begin,
            record_end,
            body_begin,
            body_end,
            topic_end,
            queue_id,
            queue_offset,
            stated,
            sys_flag,
            store_ms,
            prepared,
        )
        begin = record_end


def check_at(
    read: Read, physical_offset: int, end: int, *, segment_end: int, check_body: bool = False
) -> RecordCheck:
    """Check a place that may hold no record; nothing at or above `end` is read.

    Without `check_body` the body is not read. INCOMPLETE means that the record crosses `end`.
    """
    data = read(physical_offset, min(_PIECE_BYTES, end - physical_offset))
    check = check_record(
        data, 0, physical_offset, len(data), segment_end=segment_end, check_body=check_body
    )
    record_end = physical_offset + check.size_bytes
    if check.kind is not CheckKind.INCOMPLETE or record_end > end or len(data) < HEAD_BYTES_MAX:
        return check
    head = CHECKED_HEADS[data[HOST_FLAGS_OFFSET] & HOST_FLAGS]
    _, _, _, _, stated, _, store_ms, _, body_bytes = head.unpack_from(data)
    body_end = physical_offset + head.size + max(body_bytes, 0)
    tail_bytes: int = record_end - body_end
    if stated != physical_offset or not TAIL_BYTES_MIN <= tail_bytes <= TAIL_BYTES_MAX:
        return RecordCheck(CheckKind.BAD, reason="its parts do not add up")
    if check_body:
        data = read(physical_offset, check.size_bytes)
        return check_record(
            data, 0, physical_offset, len(data), segment_end=segment_end, check_body=True
        )
    tail = read(body_end, tail_bytes)
    if len(tail) < tail_bytes:
        return check
    reason = tail_mismatch(tail, 0, tail_bytes)
    kind = CheckKind.SOUND if reason is None else CheckKind.SIZE_MISMATCH
    return RecordCheck(kind, check.size_bytes, store_ms, reason or "")


def next_sound(
    read: Read,
    begin: int,
    end: int,
    *,
    readable_end: int,
    segment_end: int,
    check_body: bool = False,
    skip_unwritten: Callable[[int], int] | None = None,
    piece_bytes: int = SEARCH_BYTES,
) -> tuple[int, RecordCheck] | None:
    """Return place and check of the first sound record that begins in [begin, end), if any.

    readable_end: the record has to end at or below it.
    skip_unwritten: returns where written bytes go on at or after an offset, for sparse files.
    piece_bytes: how much is read at once.
    """
    at = begin
    while at < end:
        if skip_unwritten is not None:
            # A record can begin with zeros: the first bytes of its size.
            at = max(at, min(skip_unwritten(at), end) - MAGIC_OFFSET)
        # A size and a magic that begin below `end` may end above it.
        data = read(at, min(piece_bytes, min(end + BLANK_BYTES - 1, readable_end) - at))
        magic_at = _next_magic(data, MAGIC_OFFSET)
        while magic_at >= 0:
            place = at + magic_at - MAGIC_OFFSET
            check = check_record(
                data,
                magic_at - MAGIC_OFFSET,
                place,
                len(data),
                segment_end=segment_end,
                check_body=check_body,
            )
            if check.kind is CheckKind.INCOMPLETE:
                check = check_at(
                    read, place, readable_end, segment_end=segment_end, check_body=check_body
                )
            if check.kind is CheckKind.SOUND:
                return place, check
            magic_at = _next_magic(data, magic_at + 1)
        if len(data) < BLANK_BYTES:
            break
        at += len(data) - BLANK_BYTES + 1
    return None


def _next_magic(data: bytes, begin: int) -> int:
    """Return where the next record's magic stands, -1 if nowhere."""
    # `find` is fast for one byte and slow for four, and most of the searched bytes are zeros.
    at = data.find(MAGIC_BYTES[0], begin)
    while at >= 0 and not data.startswith(MAGIC_BYTES, at):
        at = data.find(MAGIC_BYTES[0], at + 1)
    return at
